"""What should run on CPUs and GPUs (today's clients).

First the jobs in deadline trouble, earliest deadline first, then projects by priority; running jobs whose
time slice is not over keep their place. Source: BOINC's ``cpu_sched`` of today.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol, TypeVar

from cobblestone.policy.client.concurrency import Together
from cobblestone.policy.client.device_round_robin import Outlook, QueuedJob, QueueProject
from cobblestone.policy.client.rec import Devices, picked_bump, priority


class DeviceJob(QueuedJob, Protocol):
    """What scheduling looks at besides what the simulation needs."""

    @property
    def report_deadline(self) -> float: ...
    @property
    def start_order(self) -> int: ...
    @property
    def running(self) -> bool: ...
    @property
    def run_start(self) -> float: ...


JobT = TypeVar("JobT", bound=DeviceJob)


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
) -> list[JobT]:
    """Return the jobs that should run now.

    Their use never exceeds the GPUs (of each project: those that it may use), the volunteer's limits on concurrent
    jobs and the memory, nor the CPUs but for GPU jobs' parts of up to one CPU.
    """
    order = _preference(jobs, projects, devices, outlook, edf)
    late = {id(jobs[position]) for position in outlook.late} if edf else set[int]()
    rank = {id(job): i for i, job in enumerate(order)}
    candidates = order + [job for job in jobs if id(job) not in rank]
    candidates.sort(
        key=lambda job: (
            id(job) not in late,
            not job.gpu,
            not (job.running and now - job.run_start < slice_seconds),
            -job.cpus,
            rank.get(id(job), len(rank)),
        )
    )
    return _fit(candidates, projects, devices, ram_bytes)


def _preference(
    jobs: Sequence[JobT], projects: Sequence[QueueProject], devices: Devices, outlook: Outlook, edf: bool
) -> list[JobT]:
    """Order the jobs: endangered ones by deadline, then by project priority, each pick lowering its
    project's.
    """
    chosen: list[JobT] = []
    if edf:
        endangered = [jobs[position] for position in sorted(outlook.late)]
        chosen = sorted(
            endangered, key=lambda job: (job.report_deadline, job.start_order == 0, job.remaining)
        )
    taken = {id(job) for job in chosen}
    recs = [p.rec for p in projects]
    rec_sum = sum(recs) or 1.0
    share_sum = sum(p.share for p in projects)
    for kind in (*(g.name for g in devices.gpus), ""):
        queues: dict[int, list[JobT]] = {}
        for job in jobs:
            if job.gpu == kind and id(job) not in taken:
                queues.setdefault(job.project, []).append(job)
        for queue in queues.values():
            queue.sort(key=lambda job: (not job.running, job.start_order == 0, job.start_order))
            queue.reverse()
        while queues:
            best = max(queues, key=lambda p: (priority(recs[p], projects[p].share, share_sum, rec_sum), -p))
            job = queues[best].pop()
            if not queues[best]:
                del queues[best]
            chosen.append(job)
            recs[best] += picked_bump(
                devices.job_peak(cpus=job.cpus, gpu=job.gpu, gpus=job.gpus),
                total_peak=devices.peak,
                rec_sum=rec_sum,
            )
    return chosen


def _fit(
    candidates: Sequence[JobT], projects: Sequence[QueueProject], devices: Devices, ram_bytes: float
) -> list[JobT]:
    free = {g.name: float(g.count) for g in devices.gpus}
    cpus = 0.0
    together = Together([p.limits for p in projects], devices, ram_bytes=ram_bytes)
    chosen: list[JobT] = []
    for job in candidates:
        if together.refusal(job) is not None:
            continue
        if job.gpu:
            if free.get(job.gpu, 0.0) + 1e-9 < job.gpus or cpus + job.cpus > devices.ncpus + 1:
                continue
            free[job.gpu] -= job.gpus
        elif cpus >= devices.ncpus or (
            cpus > 0.0 and job.cpus <= 1.0 and cpus + job.cpus > devices.ncpus + 1e-9
        ):
            continue
        cpus += job.cpus
        together.add(job)
        chosen.append(job)
    return chosen
