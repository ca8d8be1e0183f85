"""Our own policy (CS3, WF3) on every computer: GPUs, jobs of many CPUs, limits, memory, jobs that always run.

CPU jobs keep the rules of ``cs3_wf3``: which goes first, whom to ask for more, what to give up.  What they share with today's
family is the packing.  GPU jobs go first, in the order of their projects' recent credit, and take their parts of CPUs off;
CPU jobs get the processors that are left.  Where they do not fit in one by one, because some need several processors, or the
volunteer limits the jobs of a project, or memory may run out, they are packed in the order of our own policy, by today's
rules for those that wait for each other, and the look ahead is today's, which knows all this.  On a computer with CPUs only,
without limits, and with jobs of one CPU each, every decision is that of ``cs3_wf3``.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cobblestone.domain.errors import ConfigError
from cobblestone.domain.values import float_sum
from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.policy.client.core.protocol import Changes
from cobblestone.policy.client.core.reasons import Why, named, why
from cobblestone.policy.client.core.state import (
    LONGEST,
    ClientJob,
    ClientProject,
    CoreState,
    Phase,
    PlannedFetch,
)
from cobblestone.policy.client.core.values import CPU, ResourceRequest
from cobblestone.policy.client.own.cautious_fetch import gpu_request_in_time
from cobblestone.policy.client.own.cs3_wf3 import OwnPolicy
from cobblestone.policy.client.own.history import JobOutlook, PastJob, ProgressClaim
from cobblestone.policy.client.own.memory import DevicesMemory
from cobblestone.policy.client.published.policy import PublishedPolicy
from cobblestone.policy.client.published.round_robin import RoundRobinOutcome
from cobblestone.policy.client.published.run_list import make_run_list
from cobblestone.policy.client.published.work_fetch import FETCH_PERIOD, TROUBLE_PERIOD, FetchProject
from cobblestone.policy.client.published.work_fetch import FetchPlan as CpuPlan
from cobblestone.policy.client.recent import state as report_times
from cobblestone.policy.client.recent.concurrency import MemoryWatch
from cobblestone.policy.client.recent.round_robin import DeviceOutlook, simulate_devices
from cobblestone.policy.client.recent.round_robin import RoundRobinOutlook as DevicesOutlook
from cobblestone.policy.client.recent.run_list import NO_CPU, RunList, make_device_run_list
from cobblestone.policy.client.recent.state import (
    as_told,
    back_off_types,
    fetch_project,
    first_supplier_of,
    gpu_available,
    instances_being_left,
    mark_endangered,
    note_reasons,
    project_limits,
    queue_projects,
    run_as_listed,
    together,
    usable_devices,
)
from cobblestone.policy.client.recent.work_fetch import MIN_BUFFER, FetchSettings, plan_device_fetch

_ROUNDING = 1e-9
#: Why a job waits that was packed beside others.
PACKING = ("wait.cpus", "wait.memory", "wait.swap", "wait.project", "wait.app")


class OwnOnDevices(OwnPolicy):
    """CS3 and WF3, with everything that a real computer has."""

    remembers = DevicesMemory
    memory: DevicesMemory  # pyright: ignore[reportIncompatibleVariableOverride]  # a wider memory

    def bind(self, state: CoreState, memory: Any = None, *, explain: bool = False) -> None:
        """Work for a client."""
        self.outlook = DevicesOutlook({}, set(), {})
        self._packs = False  #: as of the last look ahead
        self.run_list: RunList[ClientJob] | None = None  #: until it is enforced
        super().bind(state, memory, explain=explain)
        self.watch.expect_all(state.jobs)

    # -- what it is told ----------------------------------------------------------------------------------------------

    def refit(self) -> None:
        """Refresh projects, preferences and devices."""
        state, memory = self.state, self.memory
        self.watch = MemoryWatch(state, memory.memory_of)
        self.devices = usable_devices(state)
        self.limits = project_limits(state)
        #: nothing but processors can keep jobs waiting
        self._unlimited = (
            self.watch.ram == self.watch.swap == math.inf
            and not any(limits.limited for limits in self.limits)
            and len({project.description.priority_group for project in state.projects}) < 2
        )
        memory.credit.recs += [0.0] * (len(state.projects) - len(memory.credit.recs))
        self._plain: bool | None = None  #: all jobs are for one CPU each; None: to be seen
        super().refit()
        self._leave_cpus()

    def _leave_cpus(self) -> None:
        """Take the processors that GPU jobs leave for all that there are."""
        left = max(1, self.state.ncpus - self.memory.gpu_cpus)
        if left != self.ncpus:
            self.ncpus, self.prefs, self.outcome = left, replace(self.prefs, ncpus=left), None

    def detached(self, project: int) -> None:
        """Forget a project."""
        super().detached(project)
        del self.memory.credit.recs[project]

    def passed(self, seconds: float) -> None:
        """Count computing time."""
        super().passed(seconds)
        self.memory.credit.computed += seconds

    def before(self, *, deciding: bool) -> None:
        """Take note of what tasks need, and of what ran."""
        self.watch.measure()
        if deciding:
            self.memory.credit.credit(self.state, self.devices)
        super().before(deciding=deciding)

    def pressing(self) -> bool:
        """Tell whether the tasks have outgrown the memory that they may use."""
        return self.watch.pressing()

    def outdated(self, project: int | None = None) -> None:
        """Repeat the forecast at the next question."""
        super().outdated(project)
        if project is not None:
            self._plain = None

    def arrived(self, job: ClientJob) -> None:
        """Estimate a job that has come."""
        super().arrived(job)
        self.watch.expect(job)

    def replied(
        self, project: int, requests: Mapping[str, ResourceRequest], jobs: Sequence[ClientJob]
    ) -> None:
        """Back off from the project; from device types for which there was nothing if it has work for GPUs, too."""
        kinds = {CPU, *requests, *self.state.projects[project].description.supplies}
        if not kinds.intersection(gpu.name for gpu in self.state.devices.gpus):
            super().replied(project, requests, jobs)
            return
        back_off_types(self.state, project, requests, jobs, rng=self.rng)
        self.state.must_schedule = True

    # -- jobs on CPUs and others --------------------------------------------------------------------------------------

    def on_cpus(self, jobs: list[ClientJob]) -> list[ClientJob]:
        """Return the jobs that take a processor, each as often as it needs one."""
        if self._all_plain():
            return jobs
        most = max(1, self.state.ncpus)
        return [job for job in jobs if _on_cpu(job) for _ in range(_width(job, most))]

    def _all_plain(self) -> bool:
        if self._plain is None:
            self._plain = all(job.cpus == 1.0 and _on_cpu(job) for job in self.state.jobs)
        return self._plain

    def processors(self, job: ClientJob) -> float:
        """Return how many processors a task is charged for while it runs; GPUs are shared by recent credit."""
        return (job.cpus or 1.0) if _on_cpu(job) else 0.0

    def may_ask(self, project: ClientProject) -> bool:
        """Tell whether a project can be asked for CPU work now."""
        backed_off = project.backoffs.get(CPU, (0.0, 0.0))[1] > self.state.now
        return super().may_ask(project) and not backed_off and _for_cpus(project)

    def app_key(self, job: ClientJob) -> str:
        """Return under which name a project's jobs like this one are remembered."""
        return f"{job.app_name}|{job.gpu}" if job.gpu else job.app_name

    def remember(self, job: ClientJob, past: PastJob) -> None:
        """Remember a job for what is to be expected of its project's next ones."""
        if self._typical(job):
            super().remember(job, past)

    def _typical(self, job: ClientJob) -> bool:
        """Tell whether a job says what to expect of its project's next ones: on CPUs, unless it has work for GPUs only."""
        return not job.always_runs and bool(job.gpu) != _for_cpus(self.state.projects[job.project])

    def learn(self, job: ClientJob, elapsed: float) -> None:
        """Remember what a job needed, unless it runs as long as it likes."""
        if not job.always_runs:
            super().learn(job, elapsed)

    def expected(self, job: ClientJob, outlook: JobOutlook) -> float:
        """Return the probable need of a job that has not started."""
        if self._typical(job):
            return super().expected(job, outlook)
        need = self._history(job).need(estimate=job.raw, used=0.0, fraction=None)
        return min(need.likely, LONGEST)

    def cutoff(self, job: ClientJob) -> float:
        """Return the time by which a job should be computed."""
        return super().cutoff(job) if self._typical(job) else PublishedPolicy.cutoff(self, job)

    def _latest_end(self, job: ClientJob) -> float:
        return super()._latest_end(job) if self._typical(job) else PublishedPolicy.cutoff(self, job)

    def _claim(self, job: ClientJob) -> ProgressClaim | None:
        # one that always runs is nobody's loss
        return None if job.always_runs else super()._claim(job)

    # -- what it expects ----------------------------------------------------------------------------------------------

    def look_ahead(self) -> RoundRobinOutcome:
        """Simulate what will run, unless nothing has happened since."""
        if self.outcome is not None:
            return self.outcome
        state = self.state
        alike = self._all_plain() and self._unlimited
        queue = [] if alike else [job for job in state.jobs if job.queued and not job.always_runs]
        self._packs = not alike and self._must_pack(queue)
        if self._packs:
            self.estimate()
        else:
            super().look_ahead()
            queue = [job for job in queue if job.gpu] if self.devices.gpus else []
        if self._packs or self.devices.gpus:
            self.outlook = simulate_devices(
                queue,
                queue_projects(state, self.memory.credit.recs, self.limits),
                self.devices,
                now=state.now,
                buffer_total=self.prefs.buffer_total,
                cpu_available=self.available(),
                gpu_available=gpu_available(state),
                half_life=state.preferences.rec_half_life,
                ram_bytes=self.watch.ram,
            )
            mark_endangered(state, queue, self.outlook)
        else:
            self.outlook = DevicesOutlook({}, set(), {})
        if self.outcome is None:
            self.outcome = found = self._on_cpus_alone(self.outlook)
            self.memory.misses, self.memory.shortfalls = found.misses, found.shortfalls
        return self.outcome

    def _must_pack(self, queue: Sequence[ClientJob]) -> bool:
        """Tell whether jobs may not fit in one by one on the processors that GPU jobs leave."""
        projects = self.state.projects
        if any(limits.limited for limits in self.limits):
            return True
        if any(not job.gpu and job.cpus not in (0.0, 1.0) for job in queue):
            return True
        if len({projects[job.project].description.priority_group for job in queue}) > 1:
            return True
        return self.watch.may_run_out(queue, self.devices)

    def _on_cpus_alone(self, outlook: DevicesOutlook) -> RoundRobinOutcome:
        """Return findings on CPU jobs in the form of the published simulation; a project lacks what is less than its share."""
        cpu, total, speed = outlook.devices[CPU], self.prefs.buffer_total, self.available()
        fair = total * self.ncpus / self.total_share if self.total_share > 0.0 else 0.0
        shortfalls: list[float] = []
        for i, project in enumerate(self.state.projects):
            held = float_sum([job.remaining for job in self.on_cpus(project.queue)]) / max(0.01, speed)
            missing = max(0.0, self.shares[i] * fair - held)
            if self.limits[i].limited:
                missing = min(missing, outlook.limit_shortfalls.get((i, CPU), 0.0))
            shortfalls.append(missing)
        misses = [outlook.misses.get((i, CPU), 0) for i in range(len(shortfalls))]
        dry = [cpu.saturated for _ in misses]
        return RoundRobinOutcome(misses, shortfalls, cpu.shortfall, dry, cpu.saturated)

    # -- what runs ----------------------------------------------------------------------------------------------------

    def schedule(self) -> list[ClientJob]:
        """Return the jobs that ought to run: first those that do not need CPUs alone."""
        state, memory = self.state, self.memory
        if self._all_plain() and self._unlimited:
            self.run_list, memory.packed, memory.gpu_cpus = RunList(), False, 0
            self._leave_cpus()
            return super().schedule()
        waiting = [job for job in state.jobs if job.runnable]
        runnable = self.watch.without_swap_hogs([job for job in waiting if state.ncpus or job.always_runs])
        self.watch.expect_all([job for job in runnable if job.start_order])
        self.look_ahead()
        beside = [job for job in runnable if not _on_cpu(job)]
        found = self._pack(beside, None) if beside and not self._packs else RunList[ClientJob]()
        memory.packed = self._packs or _cpus_of(found) >= state.ncpus
        if memory.packed:
            found = self._pack(runnable, self._cpu_order(runnable))
        memory.gpu_cpus = _cpus_of(found)
        self._leave_cpus()
        for job in waiting:
            if (memory.packed or not _on_cpu(job)) and id(job) not in found.instances and not job.must_quit:
                job.why = (found.waiting.get(id(job), NO_CPU),)
            elif not job.must_quit and job.why and job.why[0].code in PACKING:
                job.why = ()
        self.run_list = found
        return found.jobs if memory.packed else found.jobs + super().schedule()

    def _cpu_order(self, runnable: Sequence[ClientJob]) -> list[ClientJob]:
        """Return the jobs without GPU in the order of their projects' debts; those that will be late are last."""
        jobs, late = [job for job in runnable if not job.gpu], self.memory.unmeetable
        self.settle()
        order: list[ClientJob] = []
        for some in ([j for j in jobs if j.serial not in late], [j for j in jobs if j.serial in late]):
            order += make_run_list(
                some,
                ncpus=len(some),
                slice_seconds=self.state.slice,
                shares=self.shares,
                short_term_debts=self.debts.short,
                misses=None,
            )
        projects = self.state.projects
        return sorted(order, key=lambda job: -projects[job.project].description.priority_group)

    def _pack(self, jobs: list[ClientJob], cpu_order: Sequence[ClientJob] | None) -> RunList[ClientJob]:
        state, outlook = self.state, self.outlook
        late = {i for i, job in enumerate(jobs) if job.edf}
        return make_device_run_list(
            jobs,
            queue_projects(state, self.memory.credit.recs, self.limits),
            self.devices,
            replace(outlook, late=late),
            now=state.now,
            slice_seconds=state.slice,
            ram_bytes=self.watch.ram,
            available=self.available(),
            blocked=instances_being_left(state) if self.devices.gpus else {},
            cpu_order=cpu_order,
        )

    def enforce(self, wanted: Sequence[ClientJob]) -> Changes:
        """Return who starts and who gives way; what does not compute on CPUs alone changes only with a new run list."""
        found, self.run_list = self.run_list, None
        running = self.state.running
        if self.memory.packed:
            return Changes() if found is None else run_as_listed(running, wanted, found.instances)
        change = super().enforce([job for job in wanted if _on_cpu(job)])
        if found is None:
            return change
        others = run_as_listed(
            [job for job in running if not _on_cpu(job)],
            [job for job in wanted if not _on_cpu(job)],
            found.instances,
        )
        return Changes([*others.start, *change.start], [*others.preempt, *change.preempt], change.look_again)

    def reason(self, job: ClientJob) -> Why:
        """Return why a job is on the run list."""
        if job.always_runs:
            return why("run.always", job=job.id)
        if job.edf and (job.gpu or self.memory.packed):
            hours = (job.report_deadline - self.state.now) / 3600.0
            return why("run.edf", job=job.id, hours=hours, left=job.remaining / 3600.0)
        if job.gpu:
            return why("run.rec", job=job.id, rec=self.memory.credit.recs[job.project])
        return super().reason(job)

    # -- reports ------------------------------------------------------------------------------------------------------

    def report_due(self, job: ClientJob) -> Why | None:
        """Return why a finished job is to be reported now."""
        return report_times.why_now(self.state, job) or super().report_due(job)

    def next_wake(self) -> float:
        """Return when it wants to look at things: also when reports become due since a suspension comes."""
        at = report_times.before_suspension(self.state)
        return (
            min(super().next_wake(), at)
            if at > self.state.now and self.state.finished
            else super().next_wake()
        )

    # -- work fetch ---------------------------------------------------------------------------------------------------

    def fetch(self) -> PlannedFetch:
        """Return whom to ask for work, and when to look again."""
        plan, state = super().fetch(), self.state
        self.look_ahead()
        kinds = frozenset(gpu.name for gpu in self.devices.gpus)
        if not kinds and not any(p.description.non_cpu_intensive for p in state.projects):
            return plan
        low = max(MIN_BUFFER, self.prefs.buffer_min)
        cpus = DeviceOutlook(self.ncpus, saturated=math.inf)  # they have a plan of their own
        outlook = replace(self.outlook, devices={**self.outlook.devices, CPU: cpus})
        more = plan_device_fetch(
            [
                fetch_project(
                    state, i, supplies=kinds, rec=self.memory.credit.recs[i], dcf=1.0,
                    devices=self.devices, limits=self.limits[i],
                )
                for i in range(len(state.projects))
            ],
            outlook,
            devices=self.devices,
            settings=FetchSettings(
                buffer_min=low,
                buffer_total=max(low, self.prefs.buffer_total),
                minimal=state.preferences.fetch_minimal_work,
            ),
        )  # fmt: skip
        first = more.project
        requests = {} if first is None else self._in_time(first, as_told(more.requests, outlook))
        others = {i: self._in_time(i, as_told(each, outlook)) for i, each in more.others.items()}
        reasons = named(more.reasons, [p.description.id for p in state.projects])
        note_reasons(state, reasons)
        # where nobody can be asked nothing helps but an event, or a wait that ends
        wait = FETCH_PERIOD if requests else TROUBLE_PERIOD
        saturated = min([outlook.devices[kind].saturated for kind in kinds], default=low)
        wait = max(wait, 0.5 * gpu_available(state) * (saturated - low))
        look = max(state.now + wait, state.next_contact(state.now), first_supplier_of(state, kinds))
        state.next_fetch = min(state.next_fetch, look)
        return together(plan, PlannedFetch(first if requests else None, requests, others, reasons))

    def _in_time(self, i: int, requests: Mapping[str, ResourceRequest]) -> dict[str, ResourceRequest]:
        """Return a project's requests for GPU work, no larger than what can be in time."""
        found: dict[str, ResourceRequest] = {}
        for kind, request in requests.items():
            fitting = gpu_request_in_time(
                request,
                [job for job in self.state.jobs if job.project == i and job.gpu == kind],
                instances=self.limits[i].usable_count(self.devices, kind),
                idle=self.outlook.devices[kind].idle_now if kind in self.outlook.devices else 0.0,
                available=gpu_available(self.state),
                told=self.correction(i),
            )
            if fitting is not None:
                found[kind] = fitting
        return found

    def look_at_projects(self, long_debts: list[float]) -> list[FetchProject]:
        """Return the inputs of work fetch for CPUs."""
        state, rows = self.state, super().look_at_projects(long_debts)
        uploading = [job.project for job in state.finished if job.phase is Phase.UPLOADING]
        blocked = {job.project for job in state.jobs if job.stalled or job.suspended}
        for i, row in enumerate(rows):
            row.blocked, row.uploading = i in blocked, uploading.count(i)
            if self.limits[i].limited:
                self._mind_limit(i, row)
            if self.memory.gpu_cpus and self.memory.gpu_cpus >= state.ncpus:
                row.contactable = False
        groups = [project.description.priority_group for project in state.projects]
        top = max([group for group, row in zip(groups, rows, strict=True) if row.contactable], default=0)
        for group, row in zip(groups, rows, strict=True):
            row.contactable = row.contactable and group == top
        return rows

    def _mind_limit(self, i: int, row: FetchProject) -> None:
        """Let a project with a limit be asked only for what the limit lets run; what it keeps waiting is no work."""
        self.look_ahead()
        jobs = [job for job in self.state.jobs if job.project == i]
        full = self.outlook.limit_shortfalls.get((i, CPU), 0.0) <= 0.0
        if full or (row.share <= 0.0 and not all(job.running for job in jobs)):
            row.contactable = False
        row.queued = min(row.queued, len(self.on_cpus([job for job in jobs if job.running])))

    def ask(self, projects: list[FetchProject], outcome: RoundRobinOutcome) -> CpuPlan:
        """Return whom to ask for how much CPU work."""
        plan = super().ask(projects, outcome)
        if plan.project is None or not self.limits[plan.project].limited:
            return plan
        most = self.outlook.limit_shortfalls.get((plan.project, CPU), 0.0)
        return replace(plan, seconds=min(plan.seconds, most))

    def next_look(
        self, projects: list[FetchProject], outcome: RoundRobinOutcome, running: list[int], nobody: bool
    ) -> float:
        """Return after how many seconds fetch of CPU work may find something new."""
        wait = super().next_look(projects, outcome, running, nobody)
        if any(project.open and _for_cpus(project) for project in self.state.projects):
            return wait
        return max(wait, self.state.slice)


def _on_cpu(job: ClientJob) -> bool:
    """Return whether a job, when started, computes only on CPUs."""
    return not (job.gpu or job.always_runs)


def _width(job: ClientJob, most: int) -> int:
    """Return how many processors a job takes."""
    return min(most, max(1, math.ceil(job.cpus - _ROUNDING)))


def _for_cpus(project: ClientProject) -> bool:
    """Tell whether a project may have jobs for CPUs of which more than one is kept."""
    d = project.description
    return CPU in d.supplies and CPU not in d.forbidden and not d.non_cpu_intensive


def _cpus_of(found: RunList[ClientJob]) -> int:
    """Return how many processors the GPU jobs of a run list take."""
    return math.floor(
        float_sum([job.cpus for job in found.jobs if job.gpu and not job.always_runs]) + _ROUNDING
    )


def from_name(name: str, rng: random.Random) -> OwnOnDevices:
    """Make the policy of a name such as ``own CS3_WF3_WS2_JC2``.  Raises :class:`ConfigError` for what is no policy."""
    choice = PolicyChoice.parse(name.split(maxsplit=1)[1] if " " in name else "CS3_WF3_WS2_JC2")
    if choice.cpu_scheduling != 3:
        raise ConfigError(f"{name}: the policy own is CS3_WF3; write own, or own CS3_WF3_WSc_JCd")
    return OwnOnDevices(choice, rng)
