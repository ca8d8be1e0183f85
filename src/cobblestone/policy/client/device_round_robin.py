"""Round-robin simulation of today's clients: per device type, with GPUs, fractional and multi-thread jobs
and concurrency limits.

In each step the jobs that would run are picked by project priority, GPUs first, and time advances to the
next end of a job.  Source: BOINC's ``rr_sim``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from cobblestone.policy.client.concurrency import LimitedJob, ProjectLimits, Together
from cobblestone.policy.client.core.values import CPU
from cobblestone.policy.client.rec import Devices, picked_bump, priority

LONG_STEP = 36000.0
STEP = 3600.0
MAX_STEPS = 20_000


class QueuedJob(LimitedJob, Protocol):
    """What the simulation looks at in a (nearly) runnable job."""

    @property
    def cutoff(self) -> float: ...  #: computation deadline
    @property
    def remaining(self) -> float: ...  #: estimated elapsed seconds left


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueProject:
    """What the simulation looks at in a project."""

    share: float
    rec: float
    limits: ProjectLimits = ProjectLimits()
    group: int = 0  #: projects of a higher group come first


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
    limit_shortfalls: dict[tuple[int, str], float] = field(default_factory=dict[tuple[int, str], float])
    """Of projects with a limit on concurrent jobs, by project and device type: instance-seconds missing within
    the buffer, up to what the limit lets them use."""


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
    ram_bytes: float = math.inf,
) -> Outlook:
    """Run the queue down.

    ``cpu_available`` and ``gpu_available`` are the believed fractions of time (0.01 to 1), the former with the CPU
    throttle in it.  A job that needs more than ``ram_bytes`` is never called late: hurrying would not help it.
    """
    cpu_speed = min(1.0, max(0.01, cpu_available))
    gpu_speed = min(1.0, max(0.01, gpu_available))
    kinds = [*(g.name for g in devices.gpus), CPU]
    counts = {g.name: len(g.usable) for g in devices.gpus} | {CPU: devices.ncpus}
    outlook = Outlook({k: DeviceOutlook(counts[k], booked=[0.0] * counts[k]) for k in kinds}, set(), {})
    queues: dict[str, dict[int, list[int]]] = {k: {} for k in kinds}
    left = [job.remaining for job in jobs]
    for position, job in enumerate(jobs):
        if job.gpu in queues:
            queues[job.gpu].setdefault(job.project, []).append(position)
    recs = [p.rec for p in projects]
    caps = _limited_caps(jobs, projects, devices, counts)
    time = 0.0
    first = True
    for _ in range(MAX_STEPS):
        picked, used, used_by = _pick(jobs, projects, devices, queues, recs, kinds, counts)
        if first:
            for kind in kinds:
                outlook.devices[kind].idle_now = max(0.0, counts[kind] - used[kind])
            first = False
        if not picked:
            break
        step, ending = _next_step(jobs, picked, left, cpu_speed, gpu_speed)
        _book(outlook, counts, used, time, step, buffer_total)
        _book_limited(outlook, caps, used_by, time, step, buffer_total)
        for position in picked:
            left[position] -= step * (gpu_speed if jobs[position].gpu else cpu_speed)
        time += step
        if ending is not None:
            _finish(outlook, jobs, ending, now + time, queues, cpu_speed, gpu_speed, ram_bytes)
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
    _book_limited(outlook, caps, {}, time, math.inf, buffer_total)
    return outlook


def _limited_caps(
    jobs: Sequence[QueuedJob], projects: Sequence[QueueProject], devices: Devices, counts: dict[str, int]
) -> dict[tuple[int, str], float]:
    """Return, for projects with a limit on concurrent jobs, the instances that each can keep busy at most.

    Where only some apps are limited the project may have jobs of others too, so all instances count, unless it has sent so
    many jobs of limited apps that more of them would be a flood.
    """
    caps: dict[tuple[int, str], float] = {}
    for i, project in enumerate(projects):
        limits = project.limits
        if not limits.limited:
            continue
        for kind, count in counts.items():
            mine = [job for job in jobs if job.project == i and job.gpu == kind]
            usage = max([job.gpus if kind else job.cpus for job in mine], default=1.0)
            apps = {job.app_name for job in mine}
            most = float(limits.usable_count(devices, kind))
            if limits.max_concurrent:
                most = min(most, limits.max_concurrent * usage)
            if apps and all(limits.app_max_concurrent.get(app) for app in apps):
                together = sum(limits.app_max_concurrent[app] for app in apps)
                if len(mine) >= together + count:
                    most = min(most, together * usage)
            caps[i, kind] = most
    return caps


def _book_limited(
    outlook: Outlook,
    caps: dict[tuple[int, str], float],
    used_by: dict[tuple[int, str], float],
    time: float,
    step: float,
    buffer_total: float,
) -> None:
    if time >= buffer_total:
        return
    length = min(time + step, buffer_total) - time
    for key, cap in caps.items():
        missing = max(0.0, cap - used_by.get(key, 0.0))
        outlook.limit_shortfalls[key] = outlook.limit_shortfalls.get(key, 0.0) + missing * length


def _pick(
    jobs: Sequence[QueuedJob],
    projects: Sequence[QueueProject],
    devices: Devices,
    queues: dict[str, dict[int, list[int]]],
    recs: Sequence[float],
    kinds: Sequence[str],
    counts: dict[str, int],
) -> tuple[list[int], dict[str, float], dict[tuple[int, str], float]]:
    """Choose what runs together, GPUs first.

    Returns positions, and the instances used per device type and per project and device type.
    """
    share_sum = sum(p.share for p in projects)
    rec_sum = sum(recs) or 1.0
    total_peak = devices.peak
    trial = list(recs)
    used = dict.fromkeys(kinds, 0.0)
    used_by: dict[tuple[int, str], float] = {}
    together = Together([p.limits for p in projects], devices)
    picked: list[int] = []
    for kind in kinds:
        pending = {p: iter(q) for p, q in queues[kind].items() if q}
        while pending and used[kind] < counts[kind]:
            best = max(
                pending,
                key=lambda p: (
                    projects[p].group,
                    priority(trial[p], projects[p].share, share_sum, rec_sum),
                    -p,
                ),
            )
            position = next(pending[best], None)
            if position is None:
                del pending[best]
                continue
            job = jobs[position]
            refusal = together.refusal(job)
            if refusal is not None:
                if refusal != "app":  # another app of the project may still have room
                    del pending[best]
                continue
            picked.append(position)
            together.add(job)
            used[CPU] += job.cpus
            key = (best, kind)
            used_by[key] = used_by.get(key, 0.0) + (job.gpus if kind else job.cpus)
            if job.gpu:
                used[job.gpu] += job.gpus
            trial[best] += picked_bump(
                devices.job_peak(cpus=job.cpus, gpu=job.gpu, gpus=job.gpus),
                total_peak=total_peak,
                rec_sum=rec_sum,
            )
    for gpu in devices.gpus:
        least = min((job.gpus for job in jobs if job.gpu == gpu.name), default=1.0)
        used[gpu.name] = together.instances_full(gpu.name, least)
    return picked, used, used_by


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
    ram_bytes: float,
) -> None:
    job = jobs[position]
    queues[job.gpu][job.project].remove(position)
    if at <= job.cutoff or job.working_set > ram_bytes:
        return
    outlook.late.add(position)
    key = (job.project, job.gpu)
    outlook.misses[key] = outlook.misses.get(key, 0) + 1
    booked = outlook.devices[job.gpu].booked
    speed = gpu_speed if job.gpu else cpu_speed
    for _ in range(min(len(booked), int(job.gpus if job.gpu else job.cpus))):
        least = booked.index(min(booked))
        booked[least] += job.remaining / speed
