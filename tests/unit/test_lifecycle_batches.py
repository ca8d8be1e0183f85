"""State and progress of batches."""

from __future__ import annotations

import pytest
from tests.helpers.lifecycle_builders import a_workunit

from cobblestone.domain.errors import IllegalTransition
from cobblestone.domain.ids import ResultId
from cobblestone.domain.states import BatchState, WorkunitError
from cobblestone.policy.lifecycle.batches import (
    BATCH_TRANSITIONS,
    BatchCounts,
    batch_progress,
    change_batch_state,
    count_jobs,
)

CANCELLED = WorkunitError.CANCELLED


def test_every_job_is_counted_in_one_place():
    counts = count_jobs(
        [
            a_workunit(),
            a_workunit(canonical_result_id=ResultId(1)),
            a_workunit(canonical_result_id=ResultId(1)),
            a_workunit(error_mask=WorkunitError.TOO_MANY_ERROR_RESULTS),
            a_workunit(error_mask=CANCELLED),
            a_workunit(error_mask=CANCELLED | WorkunitError.TOO_MANY_TOTAL_RESULTS),
        ]
    )
    assert counts == BatchCounts(njobs=6, nsuccess=2, nerror=1, ncancelled=2)
    assert counts.nopen == 1


@pytest.mark.parametrize(
    ("state", "counts", "after", "fraction"),
    [
        (BatchState.INIT, BatchCounts(njobs=0), BatchState.INIT, 0.0),
        (BatchState.INIT, BatchCounts(njobs=2, nsuccess=2), BatchState.INIT, 1.0),
        (BatchState.IN_PROGRESS, BatchCounts(njobs=4, nsuccess=1, nerror=1), BatchState.IN_PROGRESS, 0.5),
        (BatchState.IN_PROGRESS, BatchCounts(njobs=2, nsuccess=1, nerror=1), BatchState.COMPLETE, 1.0),
        (BatchState.IN_PROGRESS, BatchCounts(njobs=0), BatchState.COMPLETE, 1.0),
        (BatchState.COMPLETE, BatchCounts(njobs=3, nsuccess=2), BatchState.IN_PROGRESS, 2 / 3),
        (BatchState.ABORTED, BatchCounts(njobs=4, nsuccess=1, ncancelled=3), BatchState.ABORTED, 1.0),
        (BatchState.RETIRED, BatchCounts(njobs=1, nsuccess=1), BatchState.RETIRED, 1.0),
    ],
)
def test_progress_follows_from_the_counts(
    state: BatchState, counts: BatchCounts, after: BatchState, fraction: float
):
    progress = batch_progress(state, counts)
    assert (progress.state, progress.fraction_done) == (after, pytest.approx(fraction))


def test_a_batch_is_retired_only_when_nothing_runs_any_more():
    assert change_batch_state(BatchState.COMPLETE, BatchState.RETIRED) is BatchState.RETIRED
    with pytest.raises(IllegalTransition, match="IN_PROGRESS cannot become RETIRED, only COMPLETE, ABORTED"):
        change_batch_state(BatchState.IN_PROGRESS, BatchState.RETIRED)
    with pytest.raises(IllegalTransition, match="only nothing"):
        change_batch_state(BatchState.RETIRED, BatchState.IN_PROGRESS)


def test_every_batch_state_has_its_row():
    assert set(BATCH_TRANSITIONS) == set(BatchState)
