"""What should run on CPUs and GPUs (today's family).

Jobs in deadline trouble come first, by earliest deadline, then projects by priority.  That is the *preference*.  Running jobs
keep their place against it until their time slice is over and they have checkpointed since.  Source: BOINC's ``cpu_sched``
of today; ours are three rules that its users ask for:

* **calm**: a job takes the place of another in its time slice only if it could not be in time after waiting for the end of the
  slice;
* **patience ends**: a job that has been preferred for a whole slice and was kept out by others' slices, be it that it needs many
  CPUs and they never came free together, goes before them;
* **nearly done**: a job with less than five minutes left is not halted, unless another cannot wait so long.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace
from typing import Generic, Protocol, TypeVar

from cobblestone.policy.client.concurrency import Together
from cobblestone.policy.client.core.reasons import Why, why
from cobblestone.policy.client.device_picks import QueuedJob, QueueProject
from cobblestone.policy.client.device_round_robin import Outlook
from cobblestone.policy.client.rec import Devices, picked_bump, priority

#: Time slices to spare below which a job does not wait for the end of another's: run lists are made once a slice.
CANNOT_WAIT = 1.5
#: Seconds of estimated computing that make a running job nearly done.
NEARLY_DONE = 300.0
_NO_CPU = why("wait.cpus")


class DeviceJob(QueuedJob, Protocol):
    """What scheduling looks at besides what the simulation needs."""

    preferred_since: float | None  #: since when it has been preferred and kept out by running jobs

    @property
    def report_deadline(self) -> float: ...
    @property
    def start_order(self) -> int: ...
    @property
    def running(self) -> bool: ...
    @property
    def run_start(self) -> float: ...
    @property
    def checkpointed_at(self) -> float | None: ...
    @property
    def always_runs(self) -> bool: ...  #: uses next to no CPU, or computes when it likes


JobT = TypeVar("JobT", bound=DeviceJob)


@dataclass(slots=True)
class RunList(Generic[JobT]):
    """The jobs that should run, the GPU instances that each gets, and why the others wait."""

    jobs: list[JobT] = field(default_factory=list[JobT])
    instances: dict[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])  #: by id()
    waiting: dict[int, Why] = field(default_factory=dict[int, Why])  #: by id()


def make_device_run_list(
    jobs: Sequence[JobT],
    projects: Sequence[QueueProject],
    devices: Devices,
    outlook: Outlook,
    *,
    now: float,
    slice_seconds: float,
    edf: bool = True,
    ram_bytes: float = math.inf,
    available: float = 1.0,
    blocked: Mapping[str, Sequence[int]] | None = None,
) -> RunList[JobT]:
    """Return the jobs that should run now.

    Their use never exceeds the GPU instances that each may use, the volunteer's limits on concurrent jobs and the memory,
    nor the CPUs, but for GPU jobs' parts of up to one CPU and for one job of several CPUs that nothing else fits beside.
    ``blocked`` are GPU instances that other tasks are still leaving; ``available`` is the part of the time in which the
    host is expected to compute.
    """
    late = {id(jobs[position]) for position in outlook.late} if edf else set[int]()
    order = _preference(jobs, projects, devices, late)
    limits = [p.limits for p in projects]
    preferred = _fit(order, Together(limits, devices, ram_bytes=ram_bytes), devices).instances
    _count_waits(order, preferred, now)
    rank = {id(job): i for i, job in enumerate(order)}

    def key(job: JobT) -> tuple[bool, bool, bool, bool, bool, float, int]:
        if id(job) in plain:
            return (True, True, True, True, True, -job.cpus, rank[id(job)])
        endangered = id(job) in late
        spare = (job.cutoff - now) * available - job.remaining
        cannot_wait = id(job) in preferred and -job.remaining < spare <= CANNOT_WAIT * slice_seconds
        urgent = endangered if job.running else cannot_wait
        patient = job.preferred_since is None or now - job.preferred_since < slice_seconds
        return (
            not urgent,
            not job.gpu,
            patient,
            not (job.running and _keeps_place(job, now, slice_seconds)),
            not endangered,
            0.0 if endangered else -job.cpus,
            rank[id(job)],
        )

    # hundreds of jobs just wait for their project's turn
    plain = {
        id(job) for job in order if not (job.running or job.gpu or id(job) in late or id(job) in preferred)
    }
    candidates = [job for job in order if job.always_runs]
    candidates += sorted([job for job in order if not job.always_runs], key=key)
    return _fit(candidates, Together(limits, devices, ram_bytes=ram_bytes, blocked=blocked), devices)


def _keeps_place(job: DeviceJob, now: float, slice_seconds: float) -> bool:
    """Tell whether a running job is in its slice, has not checkpointed since, or is nearly done."""
    end = job.run_start + slice_seconds
    if now < end or job.remaining <= NEARLY_DONE:
        return True
    return job.checkpointed_at is None or job.checkpointed_at < end


def _count_waits(order: Sequence[DeviceJob], preferred: Mapping[int, object], now: float) -> None:
    for job in order:
        if job.running or id(job) not in preferred:
            job.preferred_since = None
        elif job.preferred_since is None:
            job.preferred_since = now


def _preference(
    jobs: Sequence[JobT], projects: Sequence[QueueProject], devices: Devices, late: set[int]
) -> list[JobT]:
    """Order the jobs: endangered ones by deadline, then by project priority, each pick lowering its
    project's.
    """
    endangered = [job for job in jobs if id(job) in late]
    chosen = sorted(endangered, key=lambda job: (job.report_deadline, job.start_order == 0, job.remaining))
    recs = [p.rec for p in projects]
    rec_sum = sum(recs) or 1.0
    share_sum = sum(p.share for p in projects)
    total_peak = devices.peak

    def turn(p: int) -> tuple[int, float, int]:
        return -projects[p].group, -priority(recs[p], projects[p].share, share_sum, rec_sum), p

    for kind in (*(g.name for g in devices.gpus), ""):
        queues: dict[int, list[JobT]] = {}
        for job in jobs:
            if job.gpu == kind and id(job) not in late:
                queues.setdefault(job.project, []).append(job)
        for queue in queues.values():
            queue.sort(key=lambda job: (not job.running, job.start_order == 0, job.start_order))
            queue.reverse()
        turns = [turn(p) for p in queues]
        heapify(turns)
        while turns:
            best = turns[0][2]
            if len(turns) == 1 and not kind:
                chosen += reversed(queues[best])  # nobody is left to take turns with
                break
            job = queues[best].pop()
            chosen.append(job)
            peak = devices.job_peak(cpus=job.cpus, gpu=job.gpu, gpus=job.gpus)
            recs[best] += picked_bump(peak, total_peak=total_peak, rec_sum=rec_sum)
            if queues[best]:
                heapreplace(turns, turn(best))
            else:
                heappop(turns)
    return chosen


def _fit(candidates: Sequence[JobT], together: Together, devices: Devices) -> RunList[JobT]:
    """Take the candidates that fit beside those before them.

    The parts of CPUs that GPU jobs use are rounded down: they may come on top of all CPUs, up to one.
    """
    found: RunList[JobT] = RunList()
    waiting = found.waiting
    cpus = gpu_cpus = 0.0
    too_wide: list[JobT] = []
    for job in candidates:
        on_gpu, always = bool(job.gpu), job.always_runs
        # a job that says that it needs no CPU, and has no GPU, is charged for one
        use = 0.0 if always else job.cpus or (0.0 if on_gpu else 1.0)
        total = cpus + use + (gpu_cpus if on_gpu else math.floor(gpu_cpus + 1e-9))
        if not always and total > devices.ncpus + (1.0 if on_gpu else 1e-9):
            waiting[id(job)] = _NO_CPU
            if use > 1.0 and not on_gpu:
                too_wide.append(job)
        elif _take(found, together, job):
            if on_gpu:
                gpu_cpus += use
            else:
                cpus += use
    for job in too_wide:
        # rather share the CPUs than leave one idle
        if cpus + gpu_cpus <= devices.ncpus - 1.0 + 1e-9 and _take(found, together, job):
            cpus += job.cpus
    return found


def _take(found: RunList[JobT], together: Together, job: JobT) -> bool:
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
