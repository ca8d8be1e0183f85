"""When rows may leave the database."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.helpers.lifecycle_builders import (
    NOW,
    a_view,
    client_error,
    in_progress,
    no_reply,
    success,
    valid,
    with_files,
)

from cobblestone.domain.work import AssimilateState, BatchState, FileDeleteState
from cobblestone.policy.lifecycle.deadlines import why_not_purge
from cobblestone.policy.lifecycle.states import WorkunitView

FINISHED = a_view(
    with_files(valid(0), FileDeleteState.DONE),
    with_files(client_error(1), FileDeleteState.DONE),
    no_reply(2),
    canonical_result_id=100,
    assimilate_state=AssimilateState.DONE,
    file_delete_state=FileDeleteState.DONE,
)


def code(view: WorkunitView, **arguments: object) -> str | None:
    refusal = why_not_purge(view, now=NOW, **arguments)  # type: ignore[arg-type]  # arguments that exist
    return None if refusal is None else refusal.code


def test_a_finished_workunit_without_files_may_be_purged():
    assert code(FINISHED) is None


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        ({"assimilate_state": AssimilateState.READY}, "not_assimilated"),
        ({"file_delete_state": FileDeleteState.INIT}, "inputs_exist"),
        ({"file_delete_state": FileDeleteState.READY}, "inputs_exist"),
        ({"file_delete_state": FileDeleteState.ERROR}, "inputs_exist"),
    ],
)
def test_a_workunit_with_work_or_files_left_stays(changes: dict[str, object], refusal: str):
    assert code(replace(FINISHED, workunit=replace(FINISHED.workunit, **changes))) == refusal


@pytest.mark.parametrize(
    ("result", "refusal"),
    [
        (in_progress(3), "result_open"),
        (success(3), "result_open"),
        (with_files(valid(3), FileDeleteState.READY), "outputs_exist"),
        (with_files(valid(3), FileDeleteState.ERROR), "outputs_exist"),
    ],
)
def test_a_workunit_with_an_open_result_stays(result: object, refusal: str):
    assert code(replace(FINISHED, results=(*FINISHED.results, result))) == refusal


@pytest.mark.parametrize(
    ("state", "refusal"), [(BatchState.COMPLETE, "batch_not_retired"), (BatchState.RETIRED, None)]
)
def test_jobs_of_a_batch_stay_until_it_is_retired(state: BatchState, refusal: str | None):
    assert code(FINISHED, batch_state=state) == refusal


def test_rows_stay_for_their_minimal_age():
    assert code(FINISHED, min_age_seconds=10.0) is None, "the last result was received 10 s ago"
    assert code(FINISHED, min_age_seconds=11.0) == "too_young"


def test_rows_stay_while_the_answer_is_still_there():
    kept = (with_files(valid(0), FileDeleteState.INIT), *FINISHED.results[1:])
    assert code(replace(FINISHED, results=kept), batch_state=BatchState.RETIRED) == "outputs_exist"
