"""Which jobs will be late whatever is done (CS3): those that need too long, those put on trial, those there are too many of."""

from __future__ import annotations

from collections.abc import Sequence

from cobblestone.policy.client.core.state import LONGEST, NEVER, ClientJob, CoreState
from cobblestone.policy.client.own.history import ProgressClaim
from cobblestone.policy.client.own.lateness import can_be_in_time
from cobblestone.policy.client.own.learning import Learning
from cobblestone.policy.client.own.memory import OwnMemory
from cobblestone.policy.dispatch.deadline_check import BookedJob, all_in_time, too_many


class LateJobs:
    """Finds the jobs that will be late."""

    def __init__(self, state: CoreState, memory: OwnMemory, learning: Learning) -> None:
        self._state = state
        self._memory = memory
        self._learning = learning

    def find(self, on_cpus: Sequence[ClientJob], ncpus: int) -> list[ClientJob]:
        """Return the jobs that alone would be late; the memory notes them and those for which there is no time beside others.

        ``on_cpus``: the jobs that take a processor, each as often as it needs one.
        """
        now, memory = self._state.now, self._memory
        stretch = memory.interruptions.wall_seconds(1.0)
        late = [
            job
            for job in self._state.jobs
            if job.report_deadline - now < job.remaining * stretch + memory.interval
            and not memory.outlooks[job.project].hopeless
            and (claim := self.claim(job)) is not None
            and (claim.certain or self._believes(job, claim))
        ]
        memory.unmeetable = {job.serial for job in late}
        memory.unmeetable |= self._too_many(on_cpus, ncpus)
        return late

    def claim(self, job: ClientJob) -> ProgressClaim | None:
        """Return what a job needs that would be late even with luck; None of one that has the benefit of the doubt."""
        if job.always_runs:
            return None  # no project loses anything by it
        left = self._last_report(job.report_deadline) - self._state.now
        if left <= 0.0:
            return ProgressClaim(LONGEST, LONGEST, certain=True)
        interruptions = self._memory.interruptions
        if can_be_in_time(job.remaining, left, interruptions):
            return None
        history = self._learning.history(job)
        need = history.need(estimate=job.raw, used=job.done, fraction=job.fraction_done).least
        if need <= 0.0 or can_be_in_time(need, left, interruptions):
            return None
        sizes = history.by_sizes(job.raw, job.done, job.fraction_done).least
        certain = sizes > 0.0 and not can_be_in_time(sizes, left, interruptions)
        return ProgressClaim(job.done + need, job.done + sizes, certain)

    def _last_report(self, deadline: float) -> float:
        """Return the last time before a deadline at which the client can be in contact; in the past if it cannot."""
        return deadline if self._state.next_contact(self._state.now) <= deadline else -NEVER

    def _believes(self, job: ClientJob, claim: ProgressClaim) -> bool:
        """Tell whether a job is late because its progress alone says so; it is put on trial while that is not believed."""
        memory = self._memory
        if job.serial in memory.unmeetable:
            return True
        trials = self._learning.history(job).trials
        if not trials.believed or job.serial in memory.claims:
            memory.claims.setdefault(job.serial, claim)
            return False
        self._learning.note_trials(job, trials.after_belief())
        return True

    def _too_many(self, on_cpus: Sequence[ClientJob], ncpus: int) -> set[int]:
        """Return the jobs not begun for which there is no time beside those that were: better some late than all."""
        memory = self._memory
        if not any(memory.misses):
            return set()
        now, late = self._state.now, memory.unmeetable
        wall = memory.interruptions.wall_seconds
        promised = [
            (job, BookedJob(job.report_deadline - now, wall(job.remaining)))
            for job in on_cpus
            if job.serial not in late and not memory.outlooks[job.project].hopeless
        ]
        if all_in_time([booked for _, booked in promised], ncpus=ncpus):
            return set()
        waiting = [(job.serial, booked) for job, booked in promised if job.done <= 0.0]
        begun = [booked for job, booked in promised if job.done > 0.0]
        excess = too_many(begun, [booked for _, booked in waiting], ncpus=ncpus)
        return {serial for (serial, _), late in zip(waiting, excess, strict=True) if late}
