"""How jobs fit on this computer beside each other: GPUs, jobs of many CPUs, limits, memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cobblestone.policy.client.core.state import ClientJob, CoreState
from cobblestone.policy.client.recent.concurrency import MemoryWatch
from cobblestone.policy.client.recent.rec import RecMemory
from cobblestone.policy.client.recent.round_robin import RoundRobinOutlook, simulate_devices
from cobblestone.policy.client.recent.run_list import RunList, make_device_run_list
from cobblestone.policy.client.recent.state import (
    instances_being_left,
    mark_endangered,
    project_limits,
    queue_projects,
    usable_devices,
)


class Packing:
    """The devices, limits and memory of this computer, and the look ahead that knows them all."""

    def __init__(self, state: CoreState, credit: RecMemory, memory_of: dict[str, float]) -> None:
        self._state = state
        self._credit = credit
        self.outlook = nothing_ahead()  #: as of the last look ahead
        self.watch = MemoryWatch(state, memory_of)
        self.devices = usable_devices(state)
        self.limits = project_limits(state)
        credit.recs += [0.0] * (len(state.projects) - len(credit.recs))

    def look_ahead(
        self, queue: Sequence[ClientJob], *, buffer_total: float, available: float, gpu_available: float
    ) -> RoundRobinOutlook:
        """Simulate what will run of these jobs, and mark those in deadline trouble."""
        state = self._state
        self.outlook = simulate_devices(
            queue,
            queue_projects(state, self._credit.recs, self.limits),
            self.devices,
            now=state.now,
            buffer_total=buffer_total,
            cpu_available=available,
            gpu_available=gpu_available,
            half_life=state.preferences.rec_half_life,
            ram_bytes=self.watch.ram,
        )
        mark_endangered(state, queue, self.outlook)
        return self.outlook

    def pack(
        self, jobs: list[ClientJob], cpu_order: Sequence[ClientJob] | None, *, available: float
    ) -> RunList:
        """Return the run list of these jobs; those without GPU come in ``cpu_order``."""
        state = self._state
        late = {i for i, job in enumerate(jobs) if job.edf}
        return make_device_run_list(
            jobs,
            queue_projects(state, self._credit.recs, self.limits),
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
