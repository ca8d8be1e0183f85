"""State and progress of a batch, from the counts of its jobs.

Source: the batch functions of BOINC's remote job submission (facts only): the fraction done is the share of
jobs that have an answer or failed; a batch is complete when that is all of them.  Known difference: a
complete batch that gets more jobs is in progress again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cobblestone.domain.errors import IllegalTransition
from cobblestone.domain.states import BatchState, WorkunitError
from cobblestone.domain.work import Workunit


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCounts:
    """How many jobs of a batch stand where; each job is counted in one place."""

    njobs: int
    nsuccess: int = 0  #: with a canonical result and without an error
    nerror: int = 0  #: failed, cancelled ones not included
    ncancelled: int = 0

    @property
    def nopen(self) -> int:
        """Jobs that are still to be done."""
        return self.njobs - self.nsuccess - self.nerror - self.ncancelled


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchProgress:
    """Where a batch stands."""

    state: BatchState
    fraction_done: float  #: 0 to 1
    counts: BatchCounts


BATCH_TRANSITIONS: Mapping[BatchState, frozenset[BatchState]] = {
    BatchState.INIT: frozenset({BatchState.IN_PROGRESS, BatchState.ABORTED}),
    BatchState.IN_PROGRESS: frozenset({BatchState.COMPLETE, BatchState.ABORTED}),
    BatchState.COMPLETE: frozenset({BatchState.IN_PROGRESS, BatchState.RETIRED}),
    BatchState.ABORTED: frozenset({BatchState.RETIRED}),
    BatchState.RETIRED: frozenset(),
}
"""Which state may follow which."""


def count_jobs(workunits: Iterable[Workunit]) -> BatchCounts:
    """Count the jobs of a batch."""
    njobs = nsuccess = nerror = ncancelled = 0
    for workunit in workunits:
        njobs += 1
        if workunit.error_mask & WorkunitError.CANCELLED:
            ncancelled += 1
        elif workunit.error_mask:
            nerror += 1
        elif workunit.canonical_result_id is not None:
            nsuccess += 1
    return BatchCounts(njobs=njobs, nsuccess=nsuccess, nerror=nerror, ncancelled=ncancelled)


def batch_progress(state: BatchState, counts: BatchCounts) -> BatchProgress:
    """Say where a batch stands, from its stored state and the counts of its jobs.

    INIT (jobs are still being added), ABORTED and RETIRED are decisions of people and stay.  A batch
    without jobs that is not being filled any more is complete.
    """
    done = counts.nopen == 0
    if state in (BatchState.IN_PROGRESS, BatchState.COMPLETE):
        state = BatchState.COMPLETE if done else BatchState.IN_PROGRESS
    complete = state is BatchState.COMPLETE
    fraction = (counts.njobs - counts.nopen) / counts.njobs if counts.njobs else float(complete)
    return BatchProgress(state=state, fraction_done=fraction, counts=counts)


def change_batch_state(state: BatchState, after: BatchState) -> BatchState:
    """Return ``after`` if a batch may go there from ``state``.

    Raises:
        IllegalTransition: it may not; for instance a batch is retired only when it is complete or aborted.

    """
    if after not in BATCH_TRANSITIONS[state]:
        possible = ", ".join(each.name for each in sorted(BATCH_TRANSITIONS[state])) or "nothing"
        raise IllegalTransition(f"a batch that is {state.name} cannot become {after.name}, only {possible}")
    return after
