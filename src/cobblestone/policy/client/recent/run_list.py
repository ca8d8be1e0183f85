"""The jobs to run on CPUs and GPUs (today's BOINC).

Jobs in deadline trouble come first, by earliest deadline, then projects by priority.  That is the *preference*.  Running jobs
keep their place against it until their time slice is over and they have checkpointed since.  Source: BOINC's ``cpu_sched``
of today; ours are three rules that its users ask for:

* **calm**: a job takes the place of another in its time slice only if it could not be in time after waiting for the end of the
  slice;
* **patience ends**: a job that has been preferred for a whole slice and was kept out by others' slices, be it that it needs many
  CPUs and they never came free together, goes before them;
* **nearly done**: a job with less than five minutes left is not halted, unless another cannot wait so long.

Of thousands of jobs that wait for their project's turn only those are looked at that may get it: the order of preference is
made as far as it is asked for, which is until no processor is left.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import chain

from cobblestone.domain.values import float_sum, value
from cobblestone.policy.client.core.reasons import Why, why
from cobblestone.policy.client.core.state import ClientJob
from cobblestone.policy.client.core.values import CPU
from cobblestone.policy.client.recent.concurrency import Together
from cobblestone.policy.client.recent.picks import QueueProject
from cobblestone.policy.client.recent.rec import Devices, picked_bump, priority_terms
from cobblestone.policy.client.recent.round_robin import RoundRobinOutlook

#: Time slices to spare below which a job does not wait for the end of another's: run lists are made once a slice.
CANNOT_WAIT = 1.5
#: Seconds of estimated computing that make a running job nearly done.
NEARLY_DONE = 300.0
NO_CPU = why("wait.cpus")
#: Stands for all projects where their jobs are in one order.
ALL = -1


@dataclass(slots=True)
class RunList:
    """The jobs that should run, the GPU instances that each gets, and why the others wait."""

    jobs: list[ClientJob] = field(default_factory=list[ClientJob])
    instances: dict[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])  #: by id()
    waiting: dict[int, Why] = field(default_factory=dict[int, Why])
    """Why others wait, by id(); those that are in neither wait for a processor."""


def make_device_run_list(
    jobs: Sequence[ClientJob],
    projects: Sequence[QueueProject],
    devices: Devices,
    outlook: RoundRobinOutlook,
    *,
    now: float,
    slice_seconds: float,
    ram_bytes: float = math.inf,
    available: float = 1.0,
    blocked: Mapping[str, Sequence[int]] | None = None,
    cpu_order: Sequence[ClientJob] | None = None,
) -> RunList:
    """Return the jobs that should run now.

    Their use never exceeds the GPU instances that each may use, the volunteer's limits on concurrent jobs and the memory,
    nor the CPUs, but for GPU jobs' parts of up to one CPU and for one job of several CPUs that nothing else fits beside.
    ``blocked`` are GPU instances that other tasks are still leaving; ``available`` is the part of the time in which the
    host is expected to compute.  ``cpu_order`` are all jobs without a GPU in the order in which their turn comes, where that
    is not by their projects' credit.
    """
    late = {id(jobs[position]) for position in outlook.late}
    limits = [p.limits for p in projects]
    kinds = {CPU, *(g.name for g in devices.gpus)}
    all_jobs, jobs = jobs, [job for job in jobs if job.gpu in kinds]
    crowd = _Crowd.of(jobs)
    preference = _Preference(jobs, projects, devices, late, cpu_order)
    together = Together(limits, devices, ram_bytes=ram_bytes)
    preferred = _fit(preference, together, devices, crowd).instances
    _count_waits(jobs, preferred, now)
    precedence = _Precedence(now, slice_seconds, available, late, set(preferred))
    always = [job for job in jobs if job.always_runs]
    first = precedence.of_all([job for job in jobs if not job.always_runs])
    rank = preference.ranks([*always, *(job for _, job in first)])
    always.sort(key=lambda job: rank[id(job)])
    first.sort(key=lambda each: (each[0], 0.0 if id(each[1]) in late else -each[1].cpus, rank[id(each[1])]))
    # hundreds of jobs just wait for their project's turn
    others: Iterable[ClientJob] = (job for job in preference if id(job) not in rank)
    if not crowd.equally_wide:
        others = sorted(others, key=lambda job: -job.cpus)
    together = Together(limits, devices, ram_bytes=ram_bytes, blocked=blocked)
    found = _fit(chain(always, [job for _, job in first], others), together, devices, crowd)
    found.waiting.update((id(job), why("wait.gpu", gpu=job.gpu)) for job in all_jobs if job.gpu not in kinds)
    return found


@value()
class _Precedence:
    """Jobs with precedence regardless of turns: by id() those in deadline trouble and preferred ones."""

    now: float
    slice_seconds: float
    available: float
    late: set[int]
    preferred: set[int]

    def of_all(self, jobs: Sequence[ClientJob]) -> list[tuple[tuple[bool, ...], ClientJob]]:
        """Return the jobs that go before others for any reason, each with what decides among them (false is first)."""
        notable = self.late | self.preferred
        found = [(self._of(job), job) for job in jobs if job.running or job.gpu or id(job) in notable]
        return [each for each in found if not all(each[0])]

    def _of(self, job: ClientJob) -> tuple[bool, ...]:
        endangered = id(job) in self.late
        spare = (job.cutoff - self.now) * self.available - job.remaining
        cannot_wait = id(job) in self.preferred and -job.remaining < spare <= CANNOT_WAIT * self.slice_seconds
        urgent = endangered if job.running else cannot_wait
        patient = job.preferred_since is None or self.now - job.preferred_since < self.slice_seconds
        keeps = job.running and _keeps_place(job, self.now, self.slice_seconds)
        return not urgent, not job.gpu, patient, not keeps, not endangered


@value()
class _Crowd:
    """Summary of all jobs, made before each of them is considered."""

    narrowest: float  #: CPUs without which none of the CPU jobs runs, at most one
    equally_wide: bool  #: all CPU jobs need as many
    beside: int  #: jobs that may run though no CPU is free: those on GPUs, and those that always run

    @classmethod
    def of(cls, jobs: Sequence[ClientJob]) -> _Crowd:
        widths: set[float] = set()
        beside = 0
        for job in jobs:
            if job.gpu or job.always_runs:
                beside += 1
            else:
                widths.add(job.cpus)
        return cls(min([1.0, *(width or 1.0 for width in widths)]), len(widths) < 2, beside)


def _keeps_place(job: ClientJob, now: float, slice_seconds: float) -> bool:
    """Tell whether a running job is in its slice, has not checkpointed since, or is nearly done."""
    end = job.run_start + slice_seconds
    if now < end or job.remaining <= NEARLY_DONE:
        return True
    return job.checkpointed_at is None or job.checkpointed_at < end


def _count_waits(jobs: Sequence[ClientJob], preferred: Mapping[int, object], now: float) -> None:
    for job in jobs:
        if job.running or id(job) not in preferred:
            job.preferred_since = None
        elif job.preferred_since is None:
            job.preferred_since = now


_Rank = tuple[int, int, float, int, int]


class _Preference:
    """The jobs in order of preference: endangered ones by deadline, then by project priority, each pick lowering its project's.

    Picks of a project do not touch the priorities of others.  So each project's jobs have ranks of their own, and the order is
    made by merging them, as far as it is asked for.
    """

    def __init__(
        self,
        jobs: Sequence[ClientJob],
        projects: Sequence[QueueProject],
        devices: Devices,
        late: set[int],
        cpu_order: Sequence[ClientJob] | None,
    ) -> None:
        endangered = [job for job in jobs if id(job) in late]
        self._late = sorted(
            endangered, key=lambda job: (job.report_deadline, job.start_order == 0, job.remaining)
        )
        self._queues = _queues([job for job in jobs if id(job) not in late] if late else jobs)
        self._one_line = cpu_order is not None  #: CPU jobs are in an order of all projects together
        if cpu_order is not None:
            self._queues[CPU] = {ALL: [job for job in cpu_order if id(job) not in late]}
        self._projects, self._devices = projects, devices
        self._kinds = [*(g.name for g in devices.gpus), CPU]
        recs = [p.rec for p in projects]
        self._rec_sum = float_sum(recs) or 1.0
        share_sum = float_sum(p.share for p in projects)
        self._terms = [priority_terms(p.share, share_sum) for p in projects]
        self._total_peak = devices.peak
        #: by device type and project, the recent credit before the first pick
        self._recs: dict[tuple[str, int], float] = {}
        for kind in self._kinds:
            for p, queue in self._queues.get(kind, {}).items():
                self._recs[kind, p] = 0.0 if p == ALL else recs[p]
                if kind != CPU:
                    for job in queue:
                        recs[p] += self._bump(job)

    def __iter__(self) -> Iterator[ClientJob]:
        """Go through the jobs."""
        yield from self._late
        for number, kind in enumerate(self._kinds, 1):
            turns = [self._turns(number, kind, p) for p in self._queues.get(kind, {})]
            for turn in merge(*turns):
                yield self._queues[kind][turn[3]][turn[4]]

    def ranks(self, jobs: Sequence[ClientJob]) -> dict[int, _Rank]:
        """Return the ranks of jobs, by id()."""
        wanted = set(map(id, jobs))
        found: dict[int, _Rank] = {
            id(job): (0, 0, 0.0, 0, i) for i, job in enumerate(self._late) if id(job) in wanted
        }
        left = Counter([self._queue_of(job) for job in jobs if id(job) not in found])
        for kind, p in left:
            turns = self._turns(1 + self._kinds.index(kind), kind, p)
            for job, rank in zip(self._queues[kind][p], turns, strict=False):
                if id(job) in wanted:
                    found[id(job)] = rank
                    left[kind, p] -= 1
                    if not left[kind, p]:
                        break
        return found

    def _queue_of(self, job: ClientJob) -> tuple[str, int]:
        return job.gpu, ALL if self._one_line and not job.gpu else job.project

    def _turns(self, number: int, kind: str, p: int) -> Iterator[_Rank]:
        """Return the ranks of a project's jobs for the device type of that number."""
        if p == ALL:
            yield from ((number, 0, 0.0, p, k) for k in range(len(self._queues[kind][p])))
            return
        weight, offset = self._terms[p]
        rec, rec_sum, group = self._recs[kind, p], self._rec_sum, -self._projects[p].group
        for k, job in enumerate(self._queues[kind][p]):
            yield number, group, rec / rec_sum * weight + offset, p, k
            rec += self._bump(job)

    def _bump(self, job: ClientJob) -> float:
        peak = self._devices.job_peak(cpus=job.cpus, gpu=job.gpu, gpus=job.gpus)
        return picked_bump(peak, total_peak=self._total_peak, rec_sum=self._rec_sum)


def _queues(jobs: Sequence[ClientJob]) -> dict[str, dict[int, list[ClientJob]]]:
    """Return the jobs by device type and project: first those that run, then those that have run, then the others."""
    begun = [job for job in jobs if job.running or job.start_order]
    begun.sort(key=lambda job: (not job.running, job.start_order == 0, job.start_order))
    found: dict[str, dict[int, list[ClientJob]]] = {}
    for job in chain(begun, [job for job in jobs if not (job.running or job.start_order)]):
        found.setdefault(job.gpu, {}).setdefault(job.project, []).append(job)
    return found


def _fit(candidates: Iterable[ClientJob], together: Together, devices: Devices, crowd: _Crowd) -> RunList:
    """Take the candidates that fit beside those before them; the rest is not looked at when no processor is left.

    The parts of CPUs that GPU jobs use are rounded down: they may come on top of all CPUs, up to one.
    """
    found: RunList = RunList()
    waiting = found.waiting
    cpus = gpu_cpus = 0.0
    too_wide: list[ClientJob] = []
    beside = crowd.beside
    for job in candidates:
        on_gpu, always = bool(job.gpu), job.always_runs
        # a job that says that it needs no CPU, and has no GPU, is charged for one
        use = 0.0 if always else job.cpus or (0.0 if on_gpu else 1.0)
        total = cpus + use + (gpu_cpus if on_gpu else math.floor(gpu_cpus + 1e-9))
        if not always and total > devices.ncpus + (1.0 if on_gpu else 1e-9):
            waiting[id(job)] = NO_CPU
            if use > 1.0 and not on_gpu:
                too_wide.append(job)
        elif _take(found, together, job):
            if on_gpu:
                gpu_cpus += use
            else:
                cpus += use
        beside -= on_gpu or always
        if not beside and cpus + crowd.narrowest + math.floor(gpu_cpus + 1e-9) > devices.ncpus + 1e-9:
            break
    for job in too_wide:
        # rather share the CPUs than leave one idle
        if cpus + gpu_cpus <= devices.ncpus - 1.0 + 1e-9 and _take(found, together, job):
            cpus += job.cpus
    return found


def _take(found: RunList, together: Together, job: ClientJob) -> bool:
    refusal = together.refusal(job)
    if refusal is not None:
        values: dict[str, str | float] = {}
        if refusal == "memory":
            values = {"needs": job.working_set, "left": together.ram_left}
        elif refusal == "gpu":
            values = {"gpu": job.gpu}
        found.waiting[id(job)] = why(f"wait.{refusal}", **values)
        return False
    found.instances[id(job)] = together.add(job)
    found.waiting.pop(id(job), None)
    found.jobs.append(job)
    return True
