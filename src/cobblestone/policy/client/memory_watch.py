"""What tasks need of memory and swap space, and which have to go when it runs out (today's family).

Before a job has run, the largest working set of its app version stands for it, before that its project's bound.  When tasks use
more swap space than they may, those quit that lose least by it; they come back when they fit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from heapq import nlargest

from cobblestone.domain.sums import float_sum
from cobblestone.policy.client.concurrency import expected_working_set
from cobblestone.policy.client.core.reasons import why
from cobblestone.policy.client.core.state import ClientState, Job, Phase
from cobblestone.policy.client.rec import Devices


def version_key(state: ClientState, job: Job) -> str:
    """Return the name under which figures of a job's app version are kept."""
    project = state.projects[job.project].description.id
    return f"{project}|{job.app_name}|{job.version}"


class MemoryWatch:
    """``largest``: bytes by :func:`version_key`, kept up to date here."""

    def __init__(self, state: ClientState, largest: dict[str, float]) -> None:
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

    def expect(self, job: Job) -> None:
        """Set the working set that a job is expected to need."""
        self.expect_all((job,))

    def expect_all(self, jobs: Iterable[Job]) -> None:
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
        return self.swap < math.inf and self._swap_used() > self.swap

    def _swap_used(self) -> float:
        return float_sum([job.swap for job in self.state.jobs if job.running or job.phase is Phase.IN_MEMORY])

    def may_run_out(self, queue: Sequence[Job], devices: Devices) -> bool:
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

    def without_swap_hogs(self, runnable: Sequence[Job]) -> list[Job]:
        """Return the jobs without those that have to quit, and mark these."""
        if self.swap == math.inf:
            return list(runnable)
        used = 0.0
        kept: list[Job] = []
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


def _has_process(job: Job) -> bool:
    return job.running or job.phase is Phase.IN_MEMORY
