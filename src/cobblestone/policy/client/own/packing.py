"""How jobs fit on this computer beside each other, by today's rules: GPUs, jobs of many CPUs, limits, memory."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cobblestone.domain.values import float_sum
from cobblestone.policy.client.core.state import ClientJob, ClientProject, CoreState
from cobblestone.policy.client.core.values import CPU
from cobblestone.policy.client.own.memory import OwnMemory
from cobblestone.policy.client.published.round_robin import RoundRobinOutcome
from cobblestone.policy.client.recent.packing import Packing
from cobblestone.policy.client.recent.run_list import RunList

_ROUNDING = 1e-9


class OwnPacking(Packing):
    """Tells where packing is needed, and what it means for the processors."""

    def __init__(self, state: CoreState, memory: OwnMemory) -> None:
        super().__init__(state, memory.credit, memory.memory_of)
        #: only processors can keep jobs waiting
        self.unlimited = (
            self.watch.ram == self.watch.swap == math.inf
            and not any(limits.limited for limits in self.limits)
            and len({project.description.priority_group for project in state.projects}) < 2
        )

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
