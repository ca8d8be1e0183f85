"""How many jobs may run side by side: limits of the volunteer, memory and swap space, and what stops when memory runs out.

How many jobs may run side by side: limits of the volunteer on projects, apps and GPUs, and memory.

Source: BOINC's ``max_concurrent`` (of an app), ``project_max_concurrent`` and ``exclude_gpu``; expected memory as
in its ``cpu_sched``.  Round-robin simulation and run list ask the same object, so they agree.

What tasks need of memory and swap space, and which have to go when it runs out (today's family).

Before a job has run, the largest working set of its app version stands for it, before that its project's bound.  When tasks use
more swap space than they may, those quit that lose least by it; they come back when they fit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from heapq import nlargest

from cobblestone.domain.values import float_sum, value
from cobblestone.policy.client.core.reasons import why
from cobblestone.policy.client.core.state import ClientJob, CoreState, Phase
from cobblestone.policy.client.core.values import CPU, GpuExclusion
from cobblestone.policy.client.recent.rec import Devices, GpuType

_ROUNDING = 1e-9


@value(kw_only=True)
class ProjectLimits:
    """The volunteer's limits on one project; 0 or absent = none."""

    max_concurrent: int = 0
    app_max_concurrent: Mapping[str, int] = field(default_factory=dict[str, int])
    exclusions: tuple[GpuExclusion, ...] = ()

    @property
    def limited(self) -> bool:
        """Return whether there is a limit on the number of jobs."""
        return self.max_concurrent > 0 or any(self.app_max_concurrent.values())

    def usable(self, gpu: GpuType, app: str | None = None) -> list[int]:
        """Return the GPU instances that the project may use (for one app, if it is named)."""
        mine = [e for e in self.exclusions if e.gpu == gpu.name and (not e.app or e.app == app)]
        return [n for n in gpu.usable if not any(e.instance is None or e.instance == n for e in mine)]

    def usable_count(self, devices: Devices, kind: str) -> int:
        """Return how many instances of a device type the project may use."""
        if kind == CPU:
            return devices.ncpus
        return sum(len(self.usable(gpu)) for gpu in devices.gpus if gpu.name == kind)


class Together:
    """The jobs that run together so far, and whether one more may join them.

    ``ram_bytes`` is the memory that jobs may use (infinite: not looked at); ``blocked`` are GPU instances, by type, that
    other tasks are still leaving.
    """

    __slots__ = ("_apps", "_devices", "_gpus", "_jobs", "_limits", "_used", "ram_left")

    def __init__(
        self,
        limits: Sequence[ProjectLimits],
        devices: Devices,
        *,
        ram_bytes: float = math.inf,
        blocked: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        self._limits = limits
        self._devices = devices
        self._jobs = [0] * len(limits)
        self._apps: dict[tuple[int, str], int] = {}
        self._gpus = {gpu.name: gpu for gpu in devices.gpus}
        #: per GPU type, the part of each instance that is in use
        self._used = {gpu.name: [0.0] * gpu.count for gpu in devices.gpus}
        for name, instances in (blocked or {}).items():
            for n in instances:
                if name in self._used and n < len(self._used[name]):
                    self._used[name][n] = 1.0
        self.ram_left = ram_bytes

    def refusal(self, job: ClientJob) -> str | None:
        """Return why a job may not join: ``project``, ``app``, ``gpu`` or ``memory``; None if it may."""
        limits = self._limits[job.project]
        if limits.max_concurrent and self._jobs[job.project] >= limits.max_concurrent:
            return "project"
        most = limits.app_max_concurrent.get(job.app_name, 0)
        if most and self._apps.get((job.project, job.app_name), 0) >= most:
            return "app"
        if job.gpu and not self.place(job):
            return "gpu"
        if job.working_set > self.ram_left:
            return "memory"
        return None

    def place(self, job: ClientJob) -> tuple[int, ...]:
        """Return the GPU instances that a job would get, none if there are not enough.

        It keeps those that it had.  A part of an instance is taken from one that is in use in part, so that whole ones stay
        free for those who need them.
        """
        gpu = self._gpus.get(job.gpu)
        if gpu is None:
            return ()
        used = self._used[job.gpu]
        allowed = self._limits[job.project].usable(gpu, job.app_name)
        before = job.instances
        if job.gpus < 1.0:
            room = [n for n in allowed if used[n] + job.gpus <= 1.0 + _ROUNDING]
            return (min(room, key=lambda n: (n not in before, used[n] == 0.0, n)),) if room else ()
        free = sorted((n for n in allowed if used[n] == 0.0), key=lambda n: (n not in before, n))
        whole = math.ceil(job.gpus - _ROUNDING)
        return tuple(sorted(free[:whole])) if len(free) >= whole else ()

    def instances_full(self, kind: str, least: float) -> float:
        """Return how many instances of a GPU type are in use; those without room for another ``least`` count in full."""
        return float_sum(
            [1.0 if part + least > 1.0 + _ROUNDING and part else part for part in self._used[kind]]
        )

    def add(self, job: ClientJob) -> tuple[int, ...]:
        """Count a job that joins; returns the GPU instances that it gets."""
        instances = self.place(job) if job.gpu else ()
        for n in instances:
            self._used[job.gpu][n] += min(1.0, job.gpus)
        self._jobs[job.project] += 1
        key = (job.project, job.app_name)
        self._apps[key] = self._apps.get(key, 0) + 1
        self.ram_left -= job.working_set
        return instances


def expected_working_set(
    *, smoothed: float = 0.0, largest_of_version: float = 0.0, memory_bound: float, strict: bool = False
) -> float:
    """Return the bytes that a job is expected to need.

    Its own smoothed working set; before it has run, the largest of the same app version; before that, the
    project's bound.  ``strict``: never less than the bound.
    """
    found = smoothed or largest_of_version or memory_bound
    return max(found, memory_bound) if strict else found


def version_key(state: CoreState, job: ClientJob) -> str:
    """Return the name under which figures of a job's app version are kept."""
    project = state.projects[job.project].description.id
    return f"{project}|{job.app_name}|{job.version}"


class MemoryWatch:
    """``largest``: bytes by :func:`version_key`, kept up to date here."""

    def __init__(self, state: CoreState, largest: dict[str, float]) -> None:
        self.state = state
        self._largest = largest
        allowed = state.permission
        self.ram = math.inf if allowed.ram_bytes is None else allowed.ram_bytes
        self.swap = math.inf if allowed.swap_bytes is None else allowed.swap_bytes
        if self.swap == math.inf:
            for job in state.jobs:
                job.must_quit = False

    def measure(self) -> None:
        """Take over what the running tasks were seen to need."""
        outgrown: set[tuple[int, str, str]] = set()
        for job in self.state.running:
            if job.measured > 0.0:
                key = version_key(self.state, job)
                if job.largest > self._largest.get(key, 0.0):
                    self._largest[key] = job.largest
                    outgrown.add((job.project, job.app_name, job.version))
                self.expect(job)
        if outgrown:
            self.expect_all(
                [job for job in self.state.jobs if (job.project, job.app_name, job.version) in outgrown]
            )

    def expect(self, job: ClientJob) -> None:
        """Set the working set that a job is expected to need."""
        self.expect_all((job,))

    def expect_all(self, jobs: Iterable[ClientJob]) -> None:
        """Set the working sets that jobs are expected to need."""
        largest: dict[tuple[int, str, str], float] = {}
        for job in jobs:
            version = (job.project, job.app_name, job.version)
            known = largest.get(version)
            if known is None:
                known = self._largest.get(version_key(self.state, job), 0.0) if self._largest else 0.0
                largest[version] = known
            job.working_set = expected_working_set(
                smoothed=job.measured,
                largest_of_version=known,
                memory_bound=job.memory_bound,
                strict=job.strict_memory_bound,
            )

    def pressing(self) -> bool:
        """Tell whether the tasks have outgrown what they may use."""
        if self.ram < math.inf and float_sum([job.working_set for job in self.state.running]) > self.ram:
            return True
        used = (job.swap for job in self.state.jobs if _has_process(job))
        return self.swap < math.inf and float_sum(list(used)) > self.swap

    def may_run_out(self, queue: Sequence[ClientJob], devices: Devices) -> bool:
        """Tell whether as many of these jobs as the devices hold, with those that always run, might need too much."""
        jobs = self.state.jobs
        if self.swap < math.inf and float_sum([job.swap for job in jobs]) > self.swap:
            return True
        if self.ram == math.inf:
            return False
        need = float_sum([job.working_set for job in jobs if job.always_runs])
        need += float_sum(nlargest(devices.ncpus, [job.working_set for job in queue if not job.gpu]))
        on_gpus = [job for job in queue if job.gpu]
        least = min([min(1.0, job.gpus) for job in on_gpus if job.gpus > 0.0], default=1.0)
        most = math.ceil(sum([gpu.count for gpu in devices.gpus]) / max(least, 0.01))
        return need + float_sum(nlargest(most, [job.working_set for job in on_gpus])) > self.ram

    def without_swap_hogs(self, runnable: Sequence[ClientJob]) -> list[ClientJob]:
        """Return the jobs without those that have to quit, and mark these."""
        if self.swap == math.inf:
            return list(runnable)
        used = 0.0
        kept: list[ClientJob] = []
        # what would be lost by quitting decides who stays; a job without a process needs what it needed last
        for job in sorted(
            runnable, key=lambda job: (not _has_process(job), job.checkpoint_elapsed - job.done)
        ):
            job.must_quit = used + job.swap > self.swap and job.swap > 0.0
            if job.must_quit:
                job.why = (why("wait.swap"),)
            else:
                used += job.swap
                kept.append(job)
        order = {id(job): i for i, job in enumerate(runnable)}
        return sorted(kept, key=lambda job: order[id(job)])


def _has_process(job: ClientJob) -> bool:
    return job.running or job.phase is Phase.IN_MEMORY
