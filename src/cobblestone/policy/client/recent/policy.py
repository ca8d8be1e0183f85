"""Today's family at work: recent estimated credit, device round robin, fetch with hysteresis (CS4 and WF4)."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from cobblestone.domain.values import DAY
from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.policy.client.core.events import from_plain
from cobblestone.policy.client.core.protocol import Changes, Policy
from cobblestone.policy.client.core.reasons import Why, why
from cobblestone.policy.client.core.state import NEVER, ClientJob, CoreState, Phase, PlannedFetch
from cobblestone.policy.client.core.values import CPU, FetchRequest, rpc_backoff
from cobblestone.policy.client.estimates import VersionHistory, remaining_elapsed, update_dcf
from cobblestone.policy.client.published.run_list import stands_recent
from cobblestone.policy.client.published.work_fetch import FETCH_PERIOD
from cobblestone.policy.client.recent import state as report_times
from cobblestone.policy.client.recent.concurrency import version_key
from cobblestone.policy.client.recent.packing import Packing
from cobblestone.policy.client.recent.rec import RecMemory
from cobblestone.policy.client.recent.round_robin import RoundRobinOutlook
from cobblestone.policy.client.recent.run_list import NO_CPU, RunList
from cobblestone.policy.client.recent.state import (
    back_off_types,
    explained,
    fetch_project,
    gpu_available,
    run_as_listed,
)
from cobblestone.policy.client.recent.work_fetch import MIN_BUFFER, FetchSettings, plan_device_fetch

#: Jobs of a project that are given up in a day at most.
GIVEN_UP_A_DAY = 10


@dataclass(slots=True)
class RecentMemory(RecMemory):
    """The policy's memory."""

    dcf: list[float] = field(default_factory=list[float])
    versions: dict[str, VersionHistory] = field(default_factory=dict[str, VersionHistory])
    """By project, app and version: how its jobs compare with their estimates."""
    #: ... largest working set of a job, bytes
    memory_of: dict[str, float] = field(default_factory=dict[str, float])
    given_up: list[list[float]] = field(default_factory=list[list[float]])  #: per project, when, within a day


class Recent(Policy):
    """The family of today's clients.  ``availability``: a number, or None to learn it from statistics."""

    remembers: ClassVar[type[RecentMemory]] = RecentMemory  #: a derived policy's is wider
    memory: RecentMemory
    state: CoreState

    def __init__(
        self, choice: PolicyChoice, rng: random.Random, *, availability: float | None = None
    ) -> None:
        self.choice = choice
        self.rng = rng
        self.availability = availability
        self.outlook: RoundRobinOutlook | None = None
        self.run_list: RunList = RunList()

    @property
    def name(self) -> str:
        """The name to make it by."""
        return self.choice.within("recent")

    def bind(self, state: CoreState, memory: Any = None, *, explain: bool = False) -> None:
        """Work for a client."""
        self.state = state
        self.memory = self.remembers() if memory is None else from_plain(self.remembers, memory)
        self.refit()
        if memory is None:  # else they are as they were stored
            self.packing.watch.expect_all(state.jobs)

    # -- what it is told ----------------------------------------------------------------------------------------------

    def refit(self) -> None:
        """Refresh projects, preferences and devices."""
        state, memory = self.state, self.memory
        prefs = state.preferences
        self.low = max(MIN_BUFFER, prefs.buffer_min)
        self.total = self.low + max(0.0, prefs.buffer_additional)
        self.packing = Packing(state, memory, memory.memory_of)
        more = len(state.projects) - len(memory.dcf)
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

    def before(self, *, deciding: bool) -> None:
        """Credit the projects for what ran; the set of running tasks has not changed since the last time."""
        self.packing.watch.measure()
        if deciding:
            self.memory.credit(self.state, self.packing.devices)

    def pressing(self) -> bool:
        """Tell whether the tasks have outgrown the memory that they may use."""
        return self.packing.watch.pressing()

    def outdated(self, project: int | None = None) -> None:
        """Repeat the forecast at the next question."""
        self.outlook = None

    def arrived(self, job: ClientJob) -> None:
        """Estimate a job that has come."""
        job.cutoff = job.report_deadline - self.low
        job.remaining = job.raw * self._correction_of(job)
        self.packing.watch.expect(job)

    def _correction_of(self, job: ClientJob) -> float:
        """Return the factor for the project's estimate of a job."""
        if self.choice.job_completion == 1:
            return 1.0
        history = self.memory.versions.get(version_key(self.state, job))
        known = None if history is None else history.correction
        return self.correction(job.project) if known is None else known

    def ended(self, job: ClientJob, elapsed: float) -> None:
        """Learn from a job."""
        if self.choice.job_completion == 1 or job.failed:
            return
        memory, key = self.memory, version_key(self.state, job)
        memory.dcf[job.project] = update_dcf(memory.dcf[job.project], actual=elapsed, raw_estimate=job.raw)
        memory.versions[key] = memory.versions.get(key, VersionHistory()).after_job(
            actual=elapsed, estimate=job.raw
        )

    def replied(self, project: int, requests: Mapping[str, FetchRequest], jobs: Sequence[ClientJob]) -> None:
        """Back off from device types for which there was nothing."""
        back_off_types(self.state, project, requests, jobs, rng=self.rng)

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
        """Return the project's duration correction factor for its server: 1 if it does not want one."""
        if self.state.projects[project].description.dont_use_dcf:
            return 1.0
        return self.memory.dcf[project]

    def workload(self) -> list[ClientJob] | None:
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

    def look_ahead(self) -> RoundRobinOutlook:
        """Simulate, unless nothing has happened since."""
        if self.outlook is None:
            self.refresh()
            state = self.state
            queue = [job for job in state.jobs if job.queued and not job.always_runs]
            self.outlook = self.packing.look_ahead(
                queue,
                buffer_total=self.total,
                available=self.available(),
                gpu_available=self._gpu_available(),
            )
        return self.outlook

    def _gpu_available(self) -> float:
        return gpu_available(self.state) if self.availability is None else self.availability

    # -- what runs ----------------------------------------------------------------------------------------------------

    def unmeetable(self) -> Sequence[tuple[ClientJob, Why]]:
        """Return the jobs to give up, if the volunteer allows it.

        A job is given up if it would be late even if it ran alone from now on, by the estimate of its own app version (which
        must have finished a job), and less than half of it is done; at most ten of a project a day.
        """
        state = self.state
        if not state.may_give_up:
            return ()
        self.refresh()
        now = state.now
        found: list[tuple[ClientJob, Why]] = []
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

    def schedule(self) -> list[ClientJob]:
        """Return the jobs that ought to run."""
        self.look_ahead()
        state, watch = self.state, self.packing.watch
        waiting = [job for job in state.jobs if job.runnable]
        runnable = watch.without_swap_hogs([job for job in waiting if state.ncpus or job.always_runs])
        watch.expect_all([job for job in runnable if job.start_order])
        turns = self.turns([job for job in runnable if not job.gpu])
        self.run_list = self.packing.pack(runnable, turns, available=self.available())
        for job in waiting:
            if id(job) not in self.run_list.instances and not job.must_quit:
                job.why = (self.run_list.waiting.get(id(job), NO_CPU),)
        return self.run_list.jobs

    def turns(self, jobs: Sequence[ClientJob]) -> Sequence[ClientJob] | None:
        """Return these jobs, all without a GPU, in the order in which their turn comes; None: by their projects' credit."""
        return None

    def reason(self, job: ClientJob) -> Why:
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

    def enforce(self, wanted: Sequence[ClientJob]) -> Changes:
        """Run the list as it is; a task whose GPU instances have changed is stopped and started again."""
        return run_as_listed(self.state.running, wanted, self.run_list.instances)

    # -- work fetch ---------------------------------------------------------------------------------------------------

    def fetch(self) -> PlannedFetch:
        """Return whom to ask for work, and when to look again."""
        state = self.state
        now = state.now
        outlook, uploading = self.look_ahead(), state.uploading()
        prefs = state.preferences
        plan = plan_device_fetch(
            [
                fetch_project(
                    state,
                    i,
                    supplies=frozenset(project.description.supplies),
                    rec=self.memory.recs[i],
                    dcf=self.correction(i),
                    devices=self.packing.devices,
                    limits=self.packing.limits[i],
                    uploading=uploading[i],
                )
                for i, project in enumerate(state.projects)
            ],
            outlook,
            devices=self.packing.devices,
            settings=FetchSettings(
                buffer_min=self.low, buffer_total=self.total, minimal=prefs.fetch_minimal_work
            ),
        )
        supplied = {kind for p in state.projects if p.open for kind in p.description.supplies}
        stocks = [
            (each.saturated - self.low) * (self.available() if kind == CPU else self._gpu_available())
            for kind, each in outlook.devices.items()
            if kind in supplied
        ]
        # queues drain at a pace that is known, but for what jobs tell of their progress
        wait = max(FETCH_PERIOD, 0.9 * min(stocks, default=0.0))
        state.next_fetch = max(now + wait, state.next_contact(now), state.first_supplier())
        return explained(state, plan)

    # -- contacts -----------------------------------------------------------------------------------------------------

    def report_at(self, job: ClientJob) -> float:
        """Return when a finished job alone is reason enough for a contact."""
        return report_times.report_time(self.state, job)

    def report_due(self, job: ClientJob) -> Why | None:
        """Return why it is, None if it is not."""
        return report_times.why_report(self.state, job)

    def next_wake(self) -> float:
        """Return when a report becomes due since a suspension comes, or a new upload is no longer one."""
        state = self.state
        now = state.now
        suspension = report_times.before_suspension(state)
        times = [
            max(job.completed_at, min(job.report_at, suspension))
            for job in (state.finished if state.may_contact(now) else ())
            if job.phase is Phase.REPORTABLE and state.projects[job.project].not_before <= now
        ]
        young = report_times.YOUNG_UPLOAD
        times += [p.upload_since + young for p in state.projects if now - p.upload_since < young]
        return min((at for at in times if at > now), default=NEVER)


def from_name(name: str, rng: random.Random) -> Recent:
    """Make the policy of a name such as ``recent`` or ``recent CS4_WF4_WS1_JC1``.

    Raises :class:`ConfigError` for what is no policy.
    """
    return Recent(PolicyChoice.parse(name), rng)
