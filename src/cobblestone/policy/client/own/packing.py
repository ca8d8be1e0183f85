"""How jobs fit on this computer beside each other, by today's rules: GPUs, jobs of many CPUs, limits, memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from cobblestone.domain.values import float_sum
from cobblestone.policy.client.core.state import ClientJob, ClientProject, CoreState
from cobblestone.policy.client.core.values import CPU
from cobblestone.policy.client.own.memory import OwnMemory
from cobblestone.policy.client.published.round_robin import RoundRobinOutcome
from cobblestone.policy.client.recent.concurrency import MemoryWatch
from cobblestone.policy.client.recent.round_robin import RoundRobinOutlook, simulate_devices
from cobblestone.policy.client.recent.run_list import RunList, make_device_run_list
from cobblestone.policy.client.recent.state import (
    gpu_available,
    instances_being_left,
    mark_endangered,
    project_limits,
    queue_projects,
    usable_devices,
)

_ROUNDING = 1e-9


class Packing:
    """The devices, limits and memory of this computer, and the look ahead that knows them all."""

    def __init__(self, state: CoreState, memory: OwnMemory) -> None:
        self._state = state
        self._memory = memory
        self.outlook = nothing_ahead()  #: as of the last look ahead
        self.watch = MemoryWatch(state, memory.memory_of)
        self.devices = usable_devices(state)
        self.limits = project_limits(state)
        #: only processors can keep jobs waiting
        self.unlimited = (
            self.watch.ram == self.watch.swap == math.inf
            and not any(limits.limited for limits in self.limits)
            and len({project.description.priority_group for project in state.projects}) < 2
        )
        memory.credit.recs += [0.0] * (len(state.projects) - len(memory.credit.recs))

    def is_needed(self, queue: Sequence[ClientJob]) -> bool:
        """Tell whether jobs may not fit in one by one on the processors that GPU jobs leave."""
        projects = self._state.projects
        if any(limits.limited for limits in self.limits):
            return True
        if any(not job.gpu and job.cpus not in (0.0, 1.0) for job in queue):
            return True
        if len({projects[job.project].description.priority_group for job in queue}) > 1:
            return True
        return self.watch.may_run_out(queue, self.devices)

    def look_ahead(self, queue: Sequence[ClientJob], *, buffer_total: float, available: float) -> None:
        """Simulate what will run of these jobs, and mark those in deadline trouble."""
        state = self._state
        self.outlook = simulate_devices(
            queue,
            queue_projects(state, self._memory.credit.recs, self.limits),
            self.devices,
            now=state.now,
            buffer_total=buffer_total,
            cpu_available=available,
            gpu_available=gpu_available(state),
            half_life=state.preferences.rec_half_life,
            ram_bytes=self.watch.ram,
        )
        mark_endangered(state, queue, self.outlook)

    def cpu_outcome(self, missing: Sequence[float]) -> RoundRobinOutcome:
        """Return the CPUs' part of the look ahead as the published simulation has it.

        ``missing``: CPU seconds by which each project has less than its share of the buffer.
        """
        cpu, limits = self.outlook.devices[CPU], self.outlook.limit_shortfalls
        shortfalls = [
            min(seconds, limits.get((i, CPU), 0.0)) if self.limits[i].limited else seconds
            for i, seconds in enumerate(missing)
        ]
        misses = [self.outlook.misses.get((i, CPU), 0) for i in range(len(missing))]
        return RoundRobinOutcome(
            misses, shortfalls, cpu.shortfall, [cpu.saturated for _ in misses], cpu.saturated
        )

    def pack(
        self, jobs: list[ClientJob], cpu_order: Sequence[ClientJob] | None, *, available: float
    ) -> RunList:
        """Return the run list of these jobs; those without GPU come in ``cpu_order``."""
        state = self._state
        late = {i for i, job in enumerate(jobs) if job.edf}
        return make_device_run_list(
            jobs,
            queue_projects(state, self._memory.credit.recs, self.limits),
            self.devices,
            replace(self.outlook, late=late),
            now=state.now,
            slice_seconds=state.slice,
            ram_bytes=self.watch.ram,
            available=available,
            blocked=instances_being_left(state) if self.devices.gpus else {},
            cpu_order=cpu_order,
        )


def nothing_ahead() -> RoundRobinOutlook:
    """Return the outlook where no jobs were simulated."""
    return RoundRobinOutlook({}, set(), {})


def on_cpu(job: ClientJob) -> bool:
    """Tell whether a job computes on CPUs alone, when it is told to."""
    return not (job.gpu or job.always_runs)


def width(job: ClientJob, most: int) -> int:
    """Return how many processors a job takes, ``most`` at most."""
    return min(most, max(1, math.ceil(job.cpus - _ROUNDING)))


def for_cpus(project: ClientProject) -> bool:
    """Tell whether a project may have jobs for CPUs of which more than one is kept."""
    d = project.description
    return CPU in d.supplies and CPU not in d.forbidden and not d.non_cpu_intensive


def cpus_of_gpu_jobs(found: RunList) -> int:
    """Return how many processors the GPU jobs of a run list take."""
    return math.floor(
        float_sum([job.cpus for job in found.jobs if job.gpu and not job.always_runs]) + _ROUNDING
    )
