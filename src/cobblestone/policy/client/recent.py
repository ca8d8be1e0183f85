"""Today's family at work: recent estimated credit, device round robin, fetch with hysteresis (CS4 and WF4)."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cobblestone.policy.client.backoff import next_type_backoff, rpc_backoff, type_backoff_delay
from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.policy.client.concurrency import ProjectLimits
from cobblestone.policy.client.core.plain import from_plain
from cobblestone.policy.client.core.protocol import Changes
from cobblestone.policy.client.core.reasons import Why, why
from cobblestone.policy.client.core.state import NEVER, ClientState, FetchPlan, Job
from cobblestone.policy.client.core.values import WorkRequest
from cobblestone.policy.client.device_round_robin import Outlook, QueueProject, simulate_devices
from cobblestone.policy.client.device_run_list import make_device_run_list
from cobblestone.policy.client.device_work_fetch import MIN_BUFFER, DeviceFetchProject, plan_device_fetch
from cobblestone.policy.client.estimates import remaining_elapsed, update_dcf
from cobblestone.policy.client.rec import CREDIT_PER_FLOP, Devices, GpuType, gpu_relative_speed, update_rec
from cobblestone.policy.client.work_fetch import FETCH_PERIOD

REPORT_AFTER = 3600.0
REPORT_BEFORE_DEADLINE = 86400.0
TINY = 1e-6


@dataclass(slots=True)
class RecentMemory:
    """What the policy remembers."""

    recs: list[float] = field(default_factory=list[float])
    dcf: list[float] = field(default_factory=list[float])
    computed: float = 0.0  #: seconds of computing that are not credited yet
    credited_at: float = 0.0


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
        self.tells_workload = choice.work_send == 2
        self.explain = False
        self.outlook: Outlook | None = None

    @property
    def name(self) -> str:
        """The name to make it by."""
        return f"recent {self.choice}"

    def bind(self, state: ClientState, memory: Any = None, *, explain: bool = False) -> None:
        """Work for a client."""
        self.state = state
        self.explain = explain
        self.memory = RecentMemory() if memory is None else from_plain(RecentMemory, memory)
        self.refit()

    # -- what it is told ----------------------------------------------------------------------------------------------

    def refit(self) -> None:
        """Look anew at projects, preferences and devices."""
        state = self.state
        prefs, host = state.preferences, state.devices
        self.low = max(MIN_BUFFER, prefs.buffer_min)
        self.total = max(1.0, prefs.buffer_min + prefs.buffer_additional)
        self.ram = math.inf if state.permission.ram_bytes is None else state.permission.ram_bytes
        self.devices = Devices(
            ncpus=max(1, state.ncpus),
            cpu_flops=host.cpu_flops,
            gpus=tuple(
                GpuType(
                    name=g.name,
                    count=g.count,
                    relative_speed=gpu_relative_speed(peak_flops=g.peak_flops, cpu_flops=host.cpu_flops),
                )
                for g in host.gpus
            ),
        )
        self.limits = [
            ProjectLimits(
                max_concurrent=p.description.max_concurrent,
                app_max_concurrent=dict(p.description.app_max_concurrent),
                excluded_gpus=self._excluded(p.description.gpu_exclusions),
            )
            for p in state.projects
        ]
        more = len(state.projects) - len(self.memory.recs)
        self.memory.recs += [0.0] * more
        self.memory.dcf += [1.0] * more
        self.outlook = None

    def _excluded(self, exclusions: Sequence[Any]) -> dict[str, int]:
        counts: dict[str, int] = {}
        for each in exclusions:
            counts[each.gpu] = counts.get(each.gpu, 0) + 1
        return counts

    def detached(self, project: int) -> None:
        """Forget a project."""
        del self.memory.recs[project], self.memory.dcf[project]

    def passed(self, seconds: float) -> None:
        """Count computing time."""
        self.memory.computed += seconds

    def off(self, seconds: float) -> None:
        """Nothing to do."""

    def before(self, *, deciding: bool) -> None:
        """Credit the projects for what ran; the set of running tasks has not changed since the last time."""
        if not deciding:
            return
        memory, now = self.memory, self.state.now
        elapsed = now - memory.credited_at
        if elapsed < 1.0:
            return
        credit = [0.0] * len(memory.recs)
        for job in self.state.running:
            peak = self.devices.job_peak(cpus=job.cpus, gpu=job.gpu, gpus=job.gpus)
            credit[job.project] += memory.computed * peak * CREDIT_PER_FLOP
        half_life = self.state.preferences.rec_half_life
        memory.recs = [
            update_rec(rec, credit=c, seconds=elapsed, half_life=half_life)
            for rec, c in zip(memory.recs, credit, strict=True)
        ]
        memory.computed, memory.credited_at = 0.0, now

    def outdated(self, project: int | None = None) -> None:
        """Look ahead anew at the next question."""
        self.outlook = None

    def arrived(self, job: Job) -> None:
        """Estimate a job that has come."""
        job.cutoff = job.report_deadline - self.low
        job.remaining = job.raw * self.memory.dcf[job.project]

    def ended(self, job: Job, elapsed: float) -> None:
        """Learn from a job."""
        if self.choice.job_completion == 2 and not job.failed:
            dcf = self.memory.dcf
            dcf[job.project] = update_dcf(dcf[job.project], actual=elapsed, raw_estimate=job.raw)

    def preempted(self, job: Job) -> None:
        """Nothing to do."""

    def replied(self, project: int, requests: Mapping[str, WorkRequest], jobs: Sequence[Job]) -> None:
        """Back off from device types for which there was nothing."""
        row = self.state.projects[project]
        row.failures = 0
        got = {job.gpu for job in jobs}
        for kind in requests:
            if kind not in got:
                interval = next_type_backoff(row.backoffs.get(kind, (0.0, 0.0))[0])
                row.backoffs[kind] = (
                    interval,
                    self.state.now + type_backoff_delay(interval, rng=self.rng),
                )

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

    def correction(self, project: int) -> float:
        """Return the project's duration correction factor."""
        return self.memory.dcf[project]

    def refresh(self) -> None:
        """Bring remaining times up to date."""
        for job in self.state.jobs:
            job.remaining = remaining_elapsed(
                estimate=job.raw * self.memory.dcf[job.project],
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
            available = self.available()
            self.outlook = simulate_devices(
                self._queue(),
                self._queue_projects(),
                self.devices,
                now=state.now,
                buffer_total=self.total,
                cpu_available=available,
                gpu_available=available,
                half_life=state.preferences.rec_half_life,
                ram_bytes=self.ram,
            )
            late = {id(self._queue()[i]) for i in self.outlook.late}
            for job in state.jobs:
                job.edf = id(job) in late
        return self.outlook

    def _queue(self) -> list[Job]:
        return [job for job in self.state.jobs if job.queued]

    def _queue_projects(self) -> list[QueueProject]:
        return [
            QueueProject(share=p.share, rec=rec, limits=limits)
            for p, rec, limits in zip(self.state.projects, self.memory.recs, self.limits, strict=True)
        ]

    # -- what runs ----------------------------------------------------------------------------------------------------

    def unmeetable(self) -> Sequence[tuple[Job, Why]]:
        """Return nothing yet."""
        return ()

    def schedule(self) -> list[Job]:
        """Return the jobs that ought to run."""
        outlook = self.look_ahead()
        state = self.state
        runnable = [job for job in state.jobs if job.runnable]
        late = {i for i, job in enumerate(runnable) if job.edf}
        return make_device_run_list(
            runnable,
            self._queue_projects(),
            self.devices,
            Outlook(outlook.devices, late, outlook.misses, outlook.limit_shortfalls),
            now=state.now,
            slice_seconds=state.slice,
            ram_bytes=self.ram,
        )

    def reason(self, job: Job) -> Why:
        """Return why a job is on the run list."""
        if job.edf:
            hours = (job.report_deadline - self.state.now) / 3600.0
            return why("run.edf", job=job.id, hours=hours, left=job.remaining / 3600.0)
        return why("run.priority", job=job.id, priority=self.memory.recs[job.project])

    def enforce_due(self) -> bool:
        """Only after a new run list."""
        return False

    def enforce(self, wanted: Sequence[Job]) -> Changes:
        """Run the list as it is."""
        ids = {id(job) for job in wanted}
        preempt = [job for job in self.state.running if id(job) not in ids]
        return Changes([job for job in wanted if not job.running], preempt)

    # -- work fetch ---------------------------------------------------------------------------------------------------

    def fetch(self) -> FetchPlan:
        """Return whom to ask for work, and when to look again."""
        state = self.state
        now = state.now
        outlook = self.look_ahead()
        plan = plan_device_fetch(
            [self._fetch_project(i) for i in range(len(state.projects))],
            outlook,
            ncpus=self.devices.ncpus,
            total_peak=self.devices.peak,
            buffer_min=self.low,
            buffer_total=self.total,
        )
        spare = min((d.saturated - self.low for d in outlook.devices.values()), default=0.0)
        wait = max(FETCH_PERIOD, 0.5 * self.available() * spare)
        state.next_fetch = max(now + wait, state.next_contact(now))
        requests = {
            kind: WorkRequest(r.seconds, r.instances, outlook.devices[kind].busy)
            for kind, r in plan.requests.items()
        }
        return FetchPlan(plan.project, requests, {}, self._named(plan.reasons))

    def _named(self, reasons: Sequence[Why]) -> tuple[Why, ...]:
        """Put the projects' identities for their positions."""
        projects = self.state.projects
        return tuple(
            Why(each.code, {**each.values, "project": projects[n].description.id})
            if isinstance(n := each.values.get("project"), int)
            else each
            for each in reasons
        )

    def _fetch_project(self, i: int) -> DeviceFetchProject:
        state = self.state
        now = state.now
        p = state.projects[i]
        queued: dict[str, float] = {}
        seconds: dict[str, float] = {}
        flops = 0.0
        for job in p.queue:
            use = job.gpus if job.gpu else job.cpus
            queued[job.gpu] = queued.get(job.gpu, 0.0) + use
            seconds[job.gpu] = seconds.get(job.gpu, 0.0) + use * job.remaining
            flops += job.remaining * self.devices.job_peak(cpus=job.cpus, gpu=job.gpu, gpus=job.gpus)
        supplies = frozenset(p.description.supplies)
        return DeviceFetchProject(
            share=p.share,
            rec=self.memory.recs[i],
            supplies=supplies,
            contactable=p.contactable(now),
            backed_off=frozenset(k for k in supplies if p.backoffs.get(k, (0.0, 0.0))[1] > now),
            runnable=len(p.queue),
            dcf=self.memory.dcf[i],
            queued_flops=flops,
            queued_instances=queued,
            queued_seconds=seconds,
            limits=self.limits[i],
        )

    # -- contacts -----------------------------------------------------------------------------------------------------

    def requests(self, project: int, planned: Mapping[str, WorkRequest]) -> Mapping[str, WorkRequest]:
        """Return the requests as planned."""
        return planned

    def report_at(self, job: Job) -> float:
        """Return when a finished job alone is reason enough for a contact."""
        return min(job.report_deadline - max(REPORT_BEFORE_DEADLINE, self.low), self.state.now + REPORT_AFTER)

    def report_due(self, job: Job) -> bool:
        """Tell whether it is."""
        return self.state.now > job.report_at - TINY

    def contact_wait(self) -> float:
        """Return 0: contacts never wait."""
        return 0.0

    def next_wake(self) -> float:
        """Return never."""
        return NEVER

    def least_wait(self) -> float:
        """Return a second."""
        return 1.0


def from_name(name: str, rng: random.Random) -> Recent:
    """Make the policy of a name such as ``recent`` or ``recent CS4_WF4_WS1_JC1``.

    Raises :class:`ConfigError` for what is no policy.
    """
    text = name.split(maxsplit=1)[1] if " " in name else "CS4_WF4_WS1_JC2"
    return Recent(PolicyChoice.parse(text), rng)
