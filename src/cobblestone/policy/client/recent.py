"""Today's family at work: recent estimated credit, device round robin, fetch with hysteresis (CS4 and WF4)."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cobblestone.policy.client import report_times
from cobblestone.policy.client.backoff import next_type_backoff, rpc_backoff, type_backoff_delay
from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.policy.client.concurrency import ProjectLimits
from cobblestone.policy.client.core.plain import from_plain
from cobblestone.policy.client.core.protocol import Changes
from cobblestone.policy.client.core.reasons import Why, named, why
from cobblestone.policy.client.core.state import NEVER, ClientState, FetchPlan, Job, Phase
from cobblestone.policy.client.core.values import WorkRequest
from cobblestone.policy.client.device_picks import QueueProject
from cobblestone.policy.client.device_round_robin import Outlook, simulate_devices
from cobblestone.policy.client.device_run_list import NO_CPU, RunList, make_device_run_list
from cobblestone.policy.client.device_work_fetch import (
    MIN_BUFFER,
    DeviceFetchProject,
    FetchSettings,
    Requests,
    plan_device_fetch,
    queued_work,
)
from cobblestone.policy.client.estimates import remaining_elapsed, update_dcf
from cobblestone.policy.client.memory_watch import MemoryWatch, version_key
from cobblestone.policy.client.rec import CREDIT_PER_FLOP, Devices, GpuType, gpu_relative_speed, update_rec
from cobblestone.policy.client.run_list_life import stands_recent
from cobblestone.policy.client.version_estimates import VersionHistory
from cobblestone.policy.client.work_fetch import FETCH_PERIOD

#: Seconds for which a new upload holds work fetch of its project back.
YOUNG_UPLOAD = 300.0
#: Jobs of a project that are given up in a day at most.
GIVEN_UP_A_DAY = 10
DAY = 86400.0


@dataclass(slots=True)
class RecentMemory:
    """What the policy remembers."""

    recs: list[float] = field(default_factory=list[float])
    dcf: list[float] = field(default_factory=list[float])
    computed: float = 0.0  #: seconds of computing that are not credited yet
    credited_at: float = 0.0
    versions: dict[str, VersionHistory] = field(default_factory=dict[str, VersionHistory])
    """By project, app and version: how its jobs compare with their estimates."""
    memory_of: dict[str, float] = field(
        default_factory=dict[str, float]
    )  #: ... largest working set of a job, bytes
    given_up: list[list[float]] = field(default_factory=list[list[float]])  #: per project, when, within a day


class Recent:
    """The family of today's clients.  ``availability``: a number, or None to learn it from statistics."""

    memory: RecentMemory
    state: ClientState
    reports_all = False

    def __init__(
        self, choice: PolicyChoice, rng: random.Random, *, availability: float | None = None
    ) -> None:
        self.choice = choice
        self.rng = rng
        self.availability = availability
        self.outlook: Outlook | None = None
        self.run_list: RunList[Job] = RunList()

    @property
    def name(self) -> str:
        """The name to make it by."""
        return f"recent {self.choice}"

    def bind(self, state: ClientState, memory: Any = None, *, explain: bool = False) -> None:
        """Work for a client."""
        self.state = state
        self.memory = RecentMemory() if memory is None else from_plain(RecentMemory, memory)
        self.refit()
        if memory is None:  # else they are as they were stored
            self.watch.expect_all(state.jobs)

    # -- what it is told ----------------------------------------------------------------------------------------------

    def refit(self) -> None:
        """Look anew at projects, preferences and devices."""
        state, memory = self.state, self.memory
        prefs, host = state.preferences, state.devices
        self.low = max(MIN_BUFFER, prefs.buffer_min)
        self.total = self.low + max(0.0, prefs.buffer_additional)
        self.watch = MemoryWatch(state, memory.memory_of)
        gpus = () if state.permission.gpu else host.gpus
        self.devices = Devices(
            ncpus=max(1, state.ncpus),
            cpu_flops=host.cpu_flops,
            gpus=tuple(
                GpuType(
                    name=g.name,
                    count=g.count,
                    relative_speed=gpu_relative_speed(peak_flops=g.peak_flops, cpu_flops=host.cpu_flops),
                    suspended=g.suspended,
                )
                for g in gpus
            ),
        )
        self.limits = [
            ProjectLimits(
                max_concurrent=p.description.max_concurrent,
                app_max_concurrent=dict(p.description.app_max_concurrent),
                exclusions=p.description.gpu_exclusions,
            )
            for p in state.projects
        ]
        more = len(state.projects) - len(memory.recs)
        memory.recs += [0.0] * more
        memory.dcf += [1.0] * more
        memory.given_up += [[] for _ in range(more)]
        self.outlook = None

    def detached(self, project: int) -> None:
        """Forget a project."""
        memory = self.memory
        del memory.recs[project], memory.dcf[project], memory.given_up[project]

    def passed(self, seconds: float) -> None:
        """Count computing time."""
        self.memory.computed += seconds

    def off(self, seconds: float) -> None:
        """Nothing to do: the statistics are the state's."""

    def before(self, *, deciding: bool) -> None:
        """Credit the projects for what ran; the set of running tasks has not changed since the last time."""
        self.watch.measure()
        memory, now = self.memory, self.state.now
        memory.credited_at = min(memory.credited_at, now)  # the clock may have been set back
        elapsed = now - memory.credited_at
        if not deciding or elapsed < 1.0:
            return
        computed = memory.computed * self.state.permission.throttle
        credit = [0.0] * len(memory.recs)
        for job in self.state.running:
            if not job.always_runs:
                peak = self.devices.job_peak(cpus=job.cpus, gpu=job.gpu, gpus=job.gpus)
                credit[job.project] += computed * peak * CREDIT_PER_FLOP
        half_life = self.state.preferences.rec_half_life
        memory.recs = [
            update_rec(rec, credit=c, seconds=elapsed, half_life=half_life)
            for rec, c in zip(memory.recs, credit, strict=True)
        ]
        memory.computed, memory.credited_at = 0.0, now

    def pressing(self) -> bool:
        """Tell whether the tasks have outgrown the memory that they may use."""
        return self.watch.pressing()

    def outdated(self, project: int | None = None) -> None:
        """Look ahead anew at the next question."""
        self.outlook = None

    def arrived(self, job: Job) -> None:
        """Estimate a job that has come."""
        job.cutoff = job.report_deadline - self.low
        job.remaining = job.raw * self._correction_of(job)
        self.watch.expect(job)

    def _correction_of(self, job: Job) -> float:
        """Return what the project's estimate of a job is to be multiplied with."""
        if self.choice.job_completion == 1:
            return 1.0
        history = self.memory.versions.get(version_key(self.state, job))
        known = None if history is None else history.correction
        return self.correction(job.project) if known is None else known

    def ended(self, job: Job, elapsed: float) -> None:
        """Learn from a job."""
        if self.choice.job_completion == 1 or job.failed:
            return
        memory, key = self.memory, version_key(self.state, job)
        memory.dcf[job.project] = update_dcf(memory.dcf[job.project], actual=elapsed, raw_estimate=job.raw)
        memory.versions[key] = memory.versions.get(key, VersionHistory()).after_job(
            actual=elapsed, estimate=job.raw
        )

    def preempted(self, job: Job) -> None:
        """Nothing to do."""

    def replied(self, project: int, requests: Mapping[str, WorkRequest], jobs: Sequence[Job]) -> None:
        """Back off from device types for which there was nothing."""
        row = self.state.projects[project]
        row.failures = 0
        got = {job.gpu for job in jobs}
        for kind in requests:
            interval, end = row.backoffs.get(kind, (0.0, 0.0))
            if kind not in got and end <= self.state.now:
                interval = next_type_backoff(interval)
                row.backoffs[kind] = (interval, self.state.now + type_backoff_delay(interval, rng=self.rng))

    def unreachable(self, project: int) -> None:
        """Wait before the next contact."""
        row = self.state.projects[project]
        row.not_before = self.state.now + rpc_backoff(row.failures, rng=self.rng)
        row.failures += 1

    # -- what it expects ----------------------------------------------------------------------------------------------

    def available(self) -> float:
        """Return the part of the time in which the host is expected to compute."""
        if self.availability is not None:
            return self.availability
        state = self.state
        return max(0.01, state.on.at(state.now) * state.active.at(state.now) * state.permission.throttle)

    def _gpu_available(self) -> float:
        if self.availability is not None:
            return self.availability
        state = self.state
        return max(0.01, state.on.at(state.now) * state.gpu_active.at(state.now))

    def correction(self, project: int) -> float:
        """Return the project's duration correction factor, as it is told: 1 if it does not want one."""
        if self.state.projects[project].description.dont_use_dcf:
            return 1.0
        return self.memory.dcf[project]

    def workload(self) -> list[Job] | None:
        """Return all jobs, their remaining times up to date, if the server's check (WS2) wants them."""
        if self.choice.work_send != 2:
            return None
        self.refresh()
        return self.state.jobs

    def refresh(self) -> None:
        """Bring remaining times up to date."""
        corrections: dict[tuple[int, str, str], float] = {}
        for job in self.state.jobs:
            version = (job.project, job.app_name, job.version)
            correction = corrections.get(version)
            if correction is None:
                correction = corrections[version] = self._correction_of(job)
            if not job.done and not job.fraction_done:
                job.remaining = job.raw * correction
                continue
            job.remaining = remaining_elapsed(
                estimate=job.raw * correction,
                elapsed=job.done,
                fraction_done=job.fraction_done,
                elapsed_at_fraction=job.fraction_at,
                exact_fraction=job.exact_fraction,
            )

    def look_ahead(self) -> Outlook:
        """Simulate, unless nothing has happened since."""
        if self.outlook is None:
            self.refresh()
            state = self.state
            queue = [job for job in state.jobs if job.queued and not job.always_runs]
            self.outlook = simulate_devices(
                queue,
                self._queue_projects(),
                self.devices,
                now=state.now,
                buffer_total=self.total,
                cpu_available=self.available(),
                gpu_available=self._gpu_available(),
                half_life=state.preferences.rec_half_life,
                ram_bytes=self.watch.ram,
            )
            self._mark(queue, {id(queue[i]) for i in self.outlook.late}, self.outlook)
        return self.outlook

    def _mark(self, queue: Sequence[Job], late: set[int], outlook: Outlook) -> None:
        """Mark the jobs to be run by deadline.

        A mark lasts for a time slice, so that jobs do not take turns at the edge of being late, and a job that has begun to
        run by its deadline keeps it while others of its project would be late.  A job that cannot be in time whatever is done
        is not hurried: it would only make others late.
        """
        now, span = self.state.now, self.state.slice
        for job in queue:
            if id(job) in late:
                job.late_since = now
            elif job.late_since is not None and now - job.late_since >= span:
                domino = job.edf and job.start_order and outlook.misses.get((job.project, job.gpu))
                job.late_since = now if domino else None
            job.edf = job.late_since is not None and now + job.remaining <= job.report_deadline

    def _queue_projects(self) -> list[QueueProject]:
        rows = zip(self.state.projects, self.memory.recs, self.limits, strict=True)
        return [
            QueueProject(share=p.share, rec=rec, limits=limits, group=p.description.priority_group)
            for p, rec, limits in rows
        ]

    # -- what runs ----------------------------------------------------------------------------------------------------

    def unmeetable(self) -> Sequence[tuple[Job, Why]]:
        """Return the jobs to give up, if the volunteer allows it.

        A job is given up if it would be late even if it ran alone from now on, by the estimate of its own app version (which
        must have finished a job), and less than half of it is done; at most ten of a project a day.
        """
        state = self.state
        if not state.may_give_up:
            return ()
        self.refresh()
        now = state.now
        found: list[tuple[Job, Why]] = []
        for job in state.jobs:
            late_by = now + job.remaining - job.report_deadline
            if late_by <= 0.0 or job.done > job.remaining or job.always_runs:
                continue
            given = self.memory.given_up[job.project]
            given[:] = [at for at in given if now - at < DAY]
            known = self.memory.versions.get(version_key(self.state, job)) or now > job.report_deadline
            if known and len(given) < GIVEN_UP_A_DAY:
                given.append(now)
                found.append((job, why("give_up.alone", hours=late_by / 3600.0)))
        return found

    def schedule(self) -> list[Job]:
        """Return the jobs that ought to run."""
        outlook = self.look_ahead()
        state = self.state
        quitting: dict[str, list[int]] = {}
        for job in (*state.jobs, *state.finished) if self.devices.gpus else ():
            if job.phase in (Phase.QUITTING, Phase.GIVEN_UP) and job.gpu:
                quitting.setdefault(job.gpu, []).extend(job.instances)
        waiting = [job for job in state.jobs if job.runnable]
        runnable = self.watch.without_swap_hogs([job for job in waiting if state.ncpus or job.always_runs])
        self.watch.expect_all([job for job in runnable if job.start_order])
        late = {i for i, job in enumerate(runnable) if job.edf}
        self.run_list = make_device_run_list(
            runnable,
            self._queue_projects(),
            self.devices,
            Outlook(outlook.devices, late, outlook.misses, outlook.limit_shortfalls),
            now=state.now,
            slice_seconds=state.slice,
            ram_bytes=self.watch.ram,
            available=self.available(),
            blocked=quitting,
        )
        for job in waiting:
            if id(job) not in self.run_list.instances and not job.must_quit:
                job.why = (self.run_list.waiting.get(id(job), NO_CPU),)
        return self.run_list.jobs

    def reason(self, job: Job) -> Why:
        """Return why a job is on the run list."""
        if job.always_runs:
            return why("run.always", job=job.id)
        if job.edf:
            hours = (job.report_deadline - self.state.now) / 3600.0
            return why("run.edf", job=job.id, hours=hours, left=job.remaining / 3600.0)
        return why("run.rec", job=job.id, rec=self.memory.recs[job.project])

    def list_stands(self) -> float:
        """Return until when no job can come near its deadline; 0 where there is more to look at."""
        return stands_recent(self.state, self._correction_of, self.available())

    def enforce_due(self) -> bool:
        """Only after a new run list."""
        return False

    def enforce(self, wanted: Sequence[Job]) -> Changes:
        """Run the list as it is; a task whose GPU instances have changed is stopped and started again."""
        ids = {id(job) for job in wanted}
        instances = self.run_list.instances
        preempt = [
            job
            for job in self.state.running
            if id(job) not in ids or (job.gpu and instances.get(id(job), job.instances) != job.instances)
        ]
        moved = {id(job) for job in preempt}
        start = [job for job in wanted if job.runnable and not job.running and id(job) not in moved]
        for job in start:
            job.instances = instances.get(id(job), job.instances)
        return Changes(start, preempt)

    # -- work fetch ---------------------------------------------------------------------------------------------------

    def fetch(self) -> FetchPlan:
        """Return whom to ask for work, and when to look again."""
        state = self.state
        now = state.now
        outlook = self.look_ahead()
        prefs = state.preferences
        plan = plan_device_fetch(
            [self._fetch_project(i) for i in range(len(state.projects))],
            outlook,
            devices=self.devices,
            settings=FetchSettings(
                buffer_min=self.low, buffer_total=self.total, minimal=prefs.fetch_minimal_work
            ),
        )
        supplied = {kind for p in state.projects if p.open for kind in p.description.supplies}
        saturated = min([d.saturated for k, d in outlook.devices.items() if k in supplied], default=self.low)
        wait = max(FETCH_PERIOD, 0.5 * self.available() * (saturated - self.low))
        state.next_fetch = max(now + wait, state.next_contact(now), state.first_supplier())
        reasons = named(plan.reasons, [p.description.id for p in state.projects])
        for reason in reasons:
            if "project" in reason.values:
                state.projects[state.position(str(reason.values["project"]))].why = (reason,)
        others = {i: self._told(requests, outlook) for i, requests in plan.others.items()}
        return FetchPlan(plan.project, self._told(plan.requests, outlook), others, reasons)

    def _told(self, requests: Requests, outlook: Outlook) -> dict[str, WorkRequest]:
        return {
            kind: WorkRequest(r.seconds, r.instances, outlook.devices[kind].busy)
            for kind, r in requests.items()
        }

    def _fetch_project(self, i: int) -> DeviceFetchProject:
        state, now = self.state, self.state.now
        p = state.projects[i]
        d = p.description
        held = [job for job in state.jobs if job.project == i]
        flops, queued, seconds = queued_work(p.queue, self.devices)
        supplies = frozenset(d.supplies) - frozenset(d.forbidden)
        return DeviceFetchProject(
            share=p.share,
            rec=self.memory.recs[i],
            supplies=supplies,
            contactable=p.not_before <= now,
            suspended=d.suspended,
            no_new_work=d.no_new_work,
            group=d.priority_group,
            non_cpu_intensive=d.non_cpu_intensive,
            first_contact=p.first_contact,
            backed_off=frozenset(k for k in supplies if p.backoffs.get(k, (0.0, 0.0))[1] > now),
            deferred=frozenset([job.gpu for job in held if job.deferred(now)]),
            runnable=len(p.queue),
            held=len(held),
            waiting=sum([not job.running for job in held]),
            uploading=sum(j.phase is Phase.UPLOADING and j.project == i for j in state.finished),
            uploads_young=now - p.upload_since < YOUNG_UPLOAD,
            dcf=self.correction(i),
            queued_flops=flops,
            queued_instances=queued,
            queued_seconds=seconds,
            blocked=any(job.stalled or job.suspended for job in held),
            limits=self.limits[i],
        )

    # -- contacts -----------------------------------------------------------------------------------------------------

    def requests(self, project: int, planned: Mapping[str, WorkRequest]) -> Mapping[str, WorkRequest]:
        """Return the requests as planned."""
        return planned

    def report_at(self, job: Job) -> float:
        """Return when a finished job alone is reason enough for a contact."""
        return report_times.report_time(self.state, job)

    def report_due(self, job: Job) -> Why | None:
        """Return why it is, None if it is not."""
        state = self.state
        return report_times.why_report(
            state, state.projects[job.project], job, report_times.ready_to_report(state)
        )

    def contact_wait(self) -> float:
        """Return 0: contacts never wait."""
        return 0.0

    def next_wake(self) -> float:
        """Return when a report becomes due since a suspension comes, or a new upload is no longer one."""
        state = self.state
        now = state.now
        times = [
            report_times.earliest_report(state, job)
            for job in state.finished
            if job.phase is Phase.REPORTABLE
            and state.may_contact(now)
            and state.projects[job.project].not_before <= now
        ]
        times += [
            p.upload_since + YOUNG_UPLOAD for p in state.projects if now - p.upload_since < YOUNG_UPLOAD
        ]
        return min((at for at in times if at > now), default=NEVER)

    def least_wait(self) -> float:
        """Return a second."""
        return 1.0


def from_name(name: str, rng: random.Random) -> Recent:
    """Make the policy of a name such as ``recent`` or ``recent CS4_WF4_WS1_JC1``.

    Raises :class:`ConfigError` for what is no policy.
    """
    text = name.split(maxsplit=1)[1] if " " in name else "CS4_WF4_WS1_JC2"
    return Recent(PolicyChoice.parse(text), rng)
