"""Round-robin simulation of today's clients: per device type, with GPUs, fractional and multi-thread jobs
and concurrency limits.

In each step the jobs that would run are picked by project priority, GPUs first (see ``device_picks``), and time advances to
the next end of a job.  Source: BOINC's ``rr_sim``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heapreplace
from typing import NamedTuple

from cobblestone.policy.client.core.state import ClientJob
from cobblestone.policy.client.core.values import CPU
from cobblestone.policy.client.recent.picks import CROWD, STEP, Picks, QueueProject, Rundown
from cobblestone.policy.client.recent.rec import Devices

LONG_STEP = 36000.0
MAX_STEPS = 20_000


@dataclass(slots=True)
class DeviceOutlook:
    """The simulation's result for one device type."""

    instances: int
    shortfall: float = 0.0  #: instance-seconds missing within the buffer
    saturated: float = 0.0  #: seconds for which all instances are busy
    busy: float = 0.0  #: seconds until a new job without deadline trouble could start
    idle_now: float = 0.0  #: instances idle now
    booked: list[float] = field(default_factory=list[float])


@dataclass(slots=True)
class RoundRobinOutlook:
    """The outcome: per device type, and the jobs (by position) that would be late."""

    devices: dict[str, DeviceOutlook]
    late: set[int]
    misses: dict[tuple[int, str], int]  #: by project and device type
    limit_shortfalls: dict[tuple[int, str], float] = field(default_factory=dict[tuple[int, str], float])
    """Of projects with a limit on concurrent jobs, by project and device type: instance-seconds missing within
    the buffer, up to what the limit lets them use."""


def simulate_devices(
    jobs: Sequence[ClientJob],
    projects: Sequence[QueueProject],
    devices: Devices,
    *,
    now: float,
    buffer_total: float,
    cpu_available: float,
    gpu_available: float,
    half_life: float,
    ram_bytes: float = math.inf,
) -> RoundRobinOutlook:
    """Run the queue down.

    ``cpu_available`` and ``gpu_available`` are the believed fractions of time (0.01 to 1), the former with the CPU
    throttle in it.  A job that needs more than ``ram_bytes`` is never called late: hurrying would not help it.
    """
    cpu_speed = min(1.0, max(0.01, cpu_available))
    gpu_speed = min(1.0, max(0.01, gpu_available))
    kinds = {(job.project, job.cpus, job.gpu) for job in jobs}
    alike = [kind[1:] for kind in kinds] in ([], [(1.0, CPU)])
    few = len(jobs) <= CROWD * (devices.ncpus + len(projects))
    if alike and few and not (devices.gpus or any(each.limits.limited for each in projects)):
        return _run_down_in_turn(jobs, devices.ncpus, cpu_speed, now, buffer_total, ram_bytes)
    rundown = Rundown(jobs, cpu_speed, gpu_speed)
    picks = Picks(jobs, projects, devices, rundown)
    counts = picks.counts
    outlook = RoundRobinOutlook({k: DeviceOutlook(n, booked=[0.0] * n) for k, n in counts.items()}, set(), {})
    caps = limited_caps(jobs, projects, devices, counts)
    recs = [p.rec for p in projects]
    time = 0.0
    for number in range(MAX_STEPS):
        picks.settle(recs)
        if not number:
            for kind, found in outlook.devices.items():
                found.idle_now = max(0.0, counts[kind] - picks.used[kind])
        ended, ending = picks.relay(recs, half_life), None
        if ended:
            step = ended[-1][0]
        elif (end := rundown.next_end()) is not None:
            step, ending = _next_step(*end)
            steady = ending is None and picks.steady
            rundown.pass_time(step)
            while steady and ending is None and (end := rundown.next_end()) is not None:
                _book(outlook, picks, caps, time, step, buffer_total)
                time += step
                step, ending = _next_step(*end)
                rundown.pass_time(step)
            ended = [(step, ending)] if ending is not None else []
        else:
            break
        _book(outlook, picks, caps, time, step, buffer_total)
        if picks.contested and step:
            recs = picks.recs_after(recs, step, half_life)
        if ending is not None:
            picks.finish(ending)
        for after, position in ended:
            job = jobs[position]
            if now + (time + after) > job.cutoff and job.working_set <= ram_bytes:
                _book_late(outlook, job, position, gpu_speed if job.gpu else cpu_speed)
        time += step
    for found in outlook.devices.values():
        if time < buffer_total:
            found.shortfall += (buffer_total - time) * found.instances
        found.busy = min(found.booked) if found.booked else 0.0
    _book_limited(outlook, caps, None, time, math.inf, buffer_total)
    return outlook


def _run_down_in_turn(
    jobs: Sequence[ClientJob], ncpus: int, speed: float, now: float, buffer_total: float, ram_bytes: float
) -> RoundRobinOutlook:
    """Run a few jobs down that just follow each other: of one project, each on a CPU, without limits.

    It is what most hosts have; all figures are equal to the last bit, in a sixth of the time.
    """
    device = DeviceOutlook(ncpus, booked=[0.0] * ncpus)
    outlook = RoundRobinOutlook({CPU: device}, set(), {})
    ends = [(job.remaining, position) for position, job in enumerate(jobs[:ncpus])]
    heapify(ends)
    device.idle_now = float(ncpus - len(ends))
    follower = len(ends)
    time = progress = 0.0
    while ends:
        end, position = ends[0]
        delay = (end - progress) / speed
        ends_now = delay <= STEP
        step = max(0.0, delay) if ends_now else delay / 10.0 if delay > LONG_STEP else STEP
        if len(ends) == ncpus:
            device.saturated = time + step
        elif time < buffer_total:
            device.shortfall += (ncpus - len(ends)) * (min(time + step, buffer_total) - time)
        progress += step * speed
        if ends_now:
            progress = end  # without the rounding of its steps
            job = jobs[position]
            if now + (time + step) > job.cutoff and job.working_set <= ram_bytes:
                _book_late(outlook, job, position, speed)
            if follower < len(jobs):
                heapreplace(ends, (progress + jobs[follower].remaining, follower))
                follower += 1
            else:
                heappop(ends)
        time += step
    if time < buffer_total:
        device.shortfall += (buffer_total - time) * ncpus
    device.busy = min(device.booked)
    return outlook


class Cap(NamedTuple):
    """The capacity of one device type that a limit on concurrent jobs leaves to a project."""

    most: float  #: instances that it can keep busy
    jobs: float  #: jobs of all types that may run together
    usage: float  #: instances of the type that one of its jobs takes

    def missing(self, used: float, running: int) -> float:
        """Return the instances that more jobs could use beside ``used`` ones, while ``running`` of its jobs run, of any type."""
        return max(0.0, min(self.most - used, (self.jobs - running) * self.usage))


def limited_caps(
    jobs: Sequence[ClientJob], projects: Sequence[QueueProject], devices: Devices, counts: dict[str, int]
) -> dict[tuple[int, str], Cap]:
    """Return, for projects with a limit on concurrent jobs, the instances that each can keep busy at most.

    Where only some apps are limited the project may have jobs of others too, so all instances count, unless it has sent so
    many jobs of limited apps that more of them would be a flood.
    """
    caps: dict[tuple[int, str], Cap] = {}
    for i, project in enumerate(projects):
        limits = project.limits
        if not limits.limited:
            continue
        for kind, count in counts.items():
            mine = [job for job in jobs if job.project == i and job.gpu == kind]
            usage = max([job.gpus if kind else job.cpus for job in mine], default=1.0)
            apps = {job.app_name for job in mine}
            most = float(limits.usable_count(devices, kind))
            if apps and all(limits.app_max_concurrent.get(app) for app in apps):
                together = sum(limits.app_max_concurrent[app] for app in apps)
                if len(mine) >= together + count:
                    most = min(most, together * usage)
            caps[i, kind] = Cap(most, limits.max_concurrent or math.inf, usage)
    return caps


def _book_limited(
    outlook: RoundRobinOutlook,
    caps: dict[tuple[int, str], Cap],
    picks: Picks | None,
    time: float,
    step: float,
    buffer_total: float,
) -> None:
    if time >= buffer_total:
        return
    length = min(time + step, buffer_total) - time
    for key, cap in caps.items():
        missing = cap.missing(picks.used_by(*key), picks.running_of(key[0])) if picks else cap.missing(0.0, 0)
        outlook.limit_shortfalls[key] = outlook.limit_shortfalls.get(key, 0.0) + missing * length


def _next_step(delay: float, ending: int) -> tuple[float, int | None]:
    """Return the length of the next step and the job that ends with it, if one does."""
    if delay > LONG_STEP:
        return delay / 10.0, None
    if delay > STEP:
        return STEP, None
    return delay, ending


def _book(
    outlook: RoundRobinOutlook,
    picks: Picks,
    caps: dict[tuple[int, str], Cap],
    time: float,
    step: float,
    buffer_total: float,
) -> None:
    for kind, found in outlook.devices.items():
        idle = found.instances - picks.used[kind]
        if idle > 0.0:
            if time < buffer_total:
                found.shortfall += idle * (min(time + step, buffer_total) - time)
        else:
            found.saturated = time + step
    if caps:
        _book_limited(outlook, caps, picks, time, step, buffer_total)


def _book_late(outlook: RoundRobinOutlook, job: ClientJob, position: int, speed: float) -> None:
    outlook.late.add(position)
    key = (job.project, job.gpu)
    outlook.misses[key] = outlook.misses.get(key, 0) + 1
    booked = outlook.devices[job.gpu].booked
    for _ in range(min(len(booked), int(job.gpus if job.gpu else job.cpus))):
        least = booked.index(min(booked))
        booked[least] += job.remaining / speed
