"""Round-robin simulation of today's clients: per device type, with GPUs, fractional and multi-thread jobs
and concurrency limits.

In each step the jobs that would run are picked by project priority, GPUs first, and time advances to the
next end of a job.  Source: BOINC's ``rr_sim``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from cobblestone.policy.client.rec import Devices, picked_bump, priority

CPU = ""
LONG_STEP = 36000.0
STEP = 3600.0
MAX_STEPS = 20_000


class QueuedJob(Protocol):
    """What the simulation looks at in a (nearly) runnable job."""

    @property
    def project(self) -> int: ...
    @property
    def cutoff(self) -> float: ...  #: computation deadline
    @property
    def remaining(self) -> float: ...  #: estimated elapsed seconds left
    @property
    def cpus(self) -> float: ...
    @property
    def gpu(self) -> str: ...
    @property
    def gpus(self) -> float: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueProject:
    """What the simulation looks at in a project."""

    share: float
    rec: float
    max_concurrent: int = 0  #: 0 = no limit


@dataclass(slots=True)
class DeviceOutlook:
    """What the simulation found for one device type."""

    instances: int
    shortfall: float = 0.0  #: instance-seconds missing within the buffer
    saturated: float = 0.0  #: seconds for which all instances are busy
    busy: float = 0.0  #: seconds until a new job without deadline trouble could start
    idle_now: float = 0.0  #: instances idle now
    booked: list[float] = field(default_factory=list[float])


@dataclass(slots=True)
class Outlook:
    """The outcome: per device type, and the jobs (by position) that would be late."""

    devices: dict[str, DeviceOutlook]
    late: set[int]
    misses: dict[tuple[int, str], int]  #: by project and device type


def simulate_devices(
    jobs: Sequence[QueuedJob],
    projects: Sequence[QueueProject],
    devices: Devices,
    *,
    now: float,
    buffer_total: float,
    cpu_available: float,
    gpu_available: float,
    half_life: float,
) -> Outlook:
    """Run the queue down.  ``cpu_available`` and ``gpu_available`` are the believed fractions of time (0.01
    to 1).
    """
    cpu_speed = min(1.0, max(0.01, cpu_available))
    gpu_speed = min(1.0, max(0.01, gpu_available))
    kinds = [*(g.name for g in devices.gpus), CPU]
    counts = {g.name: g.count for g in devices.gpus} | {CPU: devices.ncpus}
    outlook = Outlook({k: DeviceOutlook(counts[k], booked=[0.0] * counts[k]) for k in kinds}, set(), {})
    queues: dict[str, dict[int, list[int]]] = {k: {} for k in kinds}
    left = [job.remaining for job in jobs]
    for position, job in enumerate(jobs):
        if job.gpu in queues:
            queues[job.gpu].setdefault(job.project, []).append(position)
    recs = [p.rec for p in projects]
    time = 0.0
    first = True
    for _ in range(MAX_STEPS):
        picked, used = _pick(jobs, projects, devices, queues, recs, kinds, counts)
        if first:
            for kind in kinds:
                outlook.devices[kind].idle_now = max(0.0, counts[kind] - used[kind])
            first = False
        if not picked:
            break
        step, ending = _next_step(jobs, picked, left, cpu_speed, gpu_speed)
        _book(outlook, counts, used, time, step, buffer_total)
        for position in picked:
            left[position] -= step * (gpu_speed if jobs[position].gpu else cpu_speed)
        time += step
        if ending is not None:
            _finish(outlook, jobs, ending, now + time, queues, cpu_speed, gpu_speed)
        fade = 0.5 ** (step / half_life)
        recs = [r * fade for r in recs]
        for position in picked:
            job = jobs[position]
            recs[job.project] += (
                (1.0 - fade) * devices.job_peak(cpus=job.cpus, gpu=job.gpu, gpus=job.gpus) * 200.0 / 1e9
            )
    for kind in kinds:
        found = outlook.devices[kind]
        if time < buffer_total:
            found.shortfall += (buffer_total - time) * counts[kind]
        found.busy = min(found.booked) if found.booked else 0.0
    return outlook


def _pick(
    jobs: Sequence[QueuedJob],
    projects: Sequence[QueueProject],
    devices: Devices,
    queues: dict[str, dict[int, list[int]]],
    recs: Sequence[float],
    kinds: Sequence[str],
    counts: dict[str, int],
) -> tuple[list[int], dict[str, float]]:
    """Choose what runs together, GPUs first; returns positions and instances used per device type."""
    share_sum = sum(p.share for p in projects)
    rec_sum = sum(recs) or 1.0
    total_peak = devices.peak
    trial = list(recs)
    used = dict.fromkeys(kinds, 0.0)
    running = [0] * len(projects)
    picked: list[int] = []
    for kind in kinds:
        pending = {p: iter(q) for p, q in queues[kind].items() if q}
        while pending and used[kind] < counts[kind]:
            best = max(pending, key=lambda p: (priority(trial[p], projects[p].share, share_sum, rec_sum), -p))
            limit = projects[best].max_concurrent
            position = next(pending[best], None) if not limit or running[best] < limit else None
            if position is None:
                del pending[best]
                continue
            job = jobs[position]
            picked.append(position)
            running[best] += 1
            used[CPU] += job.cpus
            if job.gpu:
                used[job.gpu] += job.gpus
            trial[best] += picked_bump(
                devices.job_peak(cpus=job.cpus, gpu=job.gpu, gpus=job.gpus),
                total_peak=total_peak,
                rec_sum=rec_sum,
            )
    return picked, used


def _next_step(
    jobs: Sequence[QueuedJob],
    picked: Sequence[int],
    left: Sequence[float],
    cpu_speed: float,
    gpu_speed: float,
) -> tuple[float, int | None]:
    """Return the length of the next step and the job that ends with it, if one does."""
    step, ending = min((left[p] / (gpu_speed if jobs[p].gpu else cpu_speed), p) for p in picked)
    if step > LONG_STEP:
        return step / 10.0, None
    if step > STEP:
        return STEP, None
    return max(0.0, step), ending


def _book(
    outlook: Outlook,
    counts: dict[str, int],
    used: dict[str, float],
    time: float,
    step: float,
    buffer_total: float,
) -> None:
    for kind, count in counts.items():
        found = outlook.devices[kind]
        idle = count - used[kind]
        if idle > 0.0:
            if time < buffer_total:
                found.shortfall += idle * (min(time + step, buffer_total) - time)
        else:
            found.saturated = time + step


def _finish(
    outlook: Outlook,
    jobs: Sequence[QueuedJob],
    position: int,
    at: float,
    queues: dict[str, dict[int, list[int]]],
    cpu_speed: float,
    gpu_speed: float,
) -> None:
    job = jobs[position]
    queues[job.gpu][job.project].remove(position)
    if at <= job.cutoff:
        return
    outlook.late.add(position)
    key = (job.project, job.gpu)
    outlook.misses[key] = outlook.misses.get(key, 0) + 1
    booked = outlook.devices[job.gpu].booked
    speed = gpu_speed if job.gpu else cpu_speed
    for _ in range(min(len(booked), int(job.gpus if job.gpu else job.cpus))):
        least = booked.index(min(booked))
        booked[least] += job.remaining / speed
