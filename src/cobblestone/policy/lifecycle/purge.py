"""When the rows of a workunit may leave the database for the archive.

Source: BOINC's ``db_purge.cpp`` (facts only): files deleted, old enough, and the batch (if any) retired.  A
workunit thus disappears only after it was assimilated, all results are over and validated or abandoned, and
the files are gone.
"""

from __future__ import annotations

from cobblestone.domain.reasons import Reason, reason
from cobblestone.domain.states import AssimilateState, BatchState, FileDeleteState
from cobblestone.policy.lifecycle.effects import WorkunitView
from cobblestone.policy.lifecycle.states import awaits_validation, is_over

_BUSY = (FileDeleteState.READY, FileDeleteState.ERROR)
_NOT_GONE = (*_BUSY, FileDeleteState.INIT)


def why_not_purge(
    view: WorkunitView,
    *,
    now: float,
    min_age_seconds: float = 0.0,
    last_change: float | None = None,
    batch_state: BatchState | None = None,
) -> Reason | None:
    """Say why the rows of a workunit must stay; None when they may be archived and removed.

    Args:
        view: the workunit and all its results.
        now: Unix seconds.
        min_age_seconds: rows stay at least this long after the last change.
        last_change: Unix seconds; None = the newest time in the rows.
        batch_state: state of the workunit's batch, if it has one and the batch protects its jobs.

    """
    workunit, results = view.workunit, view.results
    if workunit.assimilate_state is not AssimilateState.DONE:
        return reason("not_assimilated", "the answer was not handed over yet")
    for result in results:
        if not is_over(result) or awaits_validation(result):
            return reason("result_open", "{result} is not over and validated", result=result.name)
        answer = result.id == workunit.canonical_result_id
        if result.file_delete_state in (_NOT_GONE if answer else _BUSY):
            return reason("outputs_exist", "the outputs of {result} are not deleted yet", result=result.name)
    if workunit.file_delete_state is not FileDeleteState.DONE:
        return reason("inputs_exist", "the input files are not deleted yet")
    if batch_state not in (None, BatchState.RETIRED):
        return reason("batch_not_retired", "its batch is not retired")
    changed = _newest_time(view) if last_change is None else last_change
    if now < changed + min_age_seconds:
        return reason(
            "too_young",
            "the last change was {age:.0f} s ago; rows stay for {min_age:.0f} s",
            age=now - changed,
            min_age=min_age_seconds,
        )
    return None


def _newest_time(view: WorkunitView) -> float:
    times = [view.workunit.create_time]
    for result in view.results:
        times += (result.create_time, result.sent_time or 0.0, result.received_time or 0.0)
    return max(times)
