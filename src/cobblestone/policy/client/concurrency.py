"""How many jobs may run side by side: limits of the volunteer on projects, apps and GPUs, and memory.

Source: BOINC's ``max_concurrent`` (of an app), ``project_max_concurrent`` and ``exclude_gpu``; expected memory as
in its ``cpu_sched``.  Round-robin simulation and run list ask the same object, so they agree.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from cobblestone.policy.client.rec import Devices

CPU = ""
_ROUNDING = 1e-9


class LimitedJob(Protocol):
    """What the limits look at in a job."""

    @property
    def project(self) -> int: ...
    @property
    def app_name(self) -> str: ...
    @property
    def cpus(self) -> float: ...
    @property
    def gpu(self) -> str: ...
    @property
    def gpus(self) -> float: ...
    @property
    def working_set(self) -> float: ...  #: bytes that it is expected to need


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectLimits:
    """The volunteer's limits on one project; 0 or absent = none."""

    max_concurrent: int = 0
    app_max_concurrent: Mapping[str, int] = field(default_factory=dict[str, int])
    excluded_gpus: Mapping[str, int] = field(default_factory=dict[str, int])  #: instances per GPU type

    @property
    def limited(self) -> bool:
        """Whether there is a limit on the number of jobs."""
        return self.max_concurrent > 0 or any(self.app_max_concurrent.values())

    def usable(self, kind: str, count: int) -> int:
        """Return the instances of a device type, of ``count``, that the project may use."""
        return max(0, count - self.excluded_gpus.get(kind, 0))

    def most_instances(self, kind: str, count: int, usage: float) -> float:
        """Return the most instances that the project can keep busy with jobs of ``usage`` instances each."""
        limits = [n for n in (self.max_concurrent, *self.app_max_concurrent.values()) if n > 0]
        least = min(limits, default=0)
        most = float(self.usable(kind, count))
        return min(most, least * usage) if least else most


class Together:
    """The jobs that run together so far, and whether one more may join them.

    ``ram_bytes`` is the memory that jobs may use (infinite: not looked at).
    """

    __slots__ = ("_apps", "_counts", "_gpus", "_jobs", "_limits", "ram_left")

    def __init__(
        self, limits: Sequence[ProjectLimits], devices: Devices, *, ram_bytes: float = math.inf
    ) -> None:
        self._limits = limits
        self._counts = {g.name: g.count for g in devices.gpus}
        self._jobs = [0] * len(limits)
        self._apps: dict[tuple[int, str], int] = {}
        self._gpus: dict[tuple[int, str], float] = {}
        self.ram_left = ram_bytes

    def refusal(self, job: LimitedJob) -> str | None:
        """Return why a job may not join: ``project``, ``app``, ``gpu`` or ``memory``; None if it may."""
        limits = self._limits[job.project]
        if limits.max_concurrent and self._jobs[job.project] >= limits.max_concurrent:
            return "project"
        most = limits.app_max_concurrent.get(job.app_name, 0)
        if most and self._apps.get((job.project, job.app_name), 0) >= most:
            return "app"
        if job.gpu:
            usable = limits.usable(job.gpu, self._counts.get(job.gpu, 0))
            if self._gpus.get((job.project, job.gpu), 0.0) + job.gpus > usable + _ROUNDING:
                return "gpu"
        if job.working_set > self.ram_left:
            return "memory"
        return None

    def add(self, job: LimitedJob) -> None:
        """Count a job that joins."""
        self._jobs[job.project] += 1
        key = (job.project, job.app_name)
        self._apps[key] = self._apps.get(key, 0) + 1
        if job.gpu:
            kind = (job.project, job.gpu)
            self._gpus[kind] = self._gpus.get(kind, 0.0) + job.gpus
        self.ram_left -= job.working_set


def expected_working_set(
    *,
    smoothed: float = 0.0,
    largest_of_version: float = 0.0,
    memory_bound: float,
    strict: bool = False,
) -> float:
    """Return the bytes that a job is expected to need.

    Its own smoothed working set; before it has run, the largest of the same app version; before that, the
    project's bound.  ``strict``: never less than the bound.
    """
    found = smoothed or largest_of_version or memory_bound
    return max(found, memory_bound) if strict else found
