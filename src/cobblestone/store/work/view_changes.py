"""What became of workunits, written as the difference to what was read.

What an effect changes is said once, in `cobblestone.policy.lifecycle.application`.  Here the columns that differ are written,
each row once, however many rules had their say in between.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import lru_cache
from operator import attrgetter

from cobblestone.domain.ids import WorkunitId
from cobblestone.domain.states import AssimilateState, FileDeleteState
from cobblestone.domain.work import NO_CREDIT, CreditOfRows, Result, Workunit
from cobblestone.policy.lifecycle.effects import WorkunitView
from cobblestone.store.engine.database import Transaction

NO_PLACES: Mapping[WorkunitId, int] = {}
Change = tuple[WorkunitView, WorkunitView]
"""A workunit as it was read in this write, and as it shall be.  Results that follow those that were there are new."""

# What rules change.  Numbers of states stand in the text of a statement, so that rows that take the same step share one.
_OF_WORKUNIT = ("need_validate", "error_mask", "assimilate_state", "file_delete_state")
_OF_WORKUNIT_VALUES = (
    "canonical_result_id",
    "hr_class",
    "app_version_id",
    "rules.target_nresults",
    "transition_time",
)
_OF_RESULT = ("server_state", "outcome", "validate_state", "file_delete_state")
_workunit_states, _workunit_values = attrgetter(*_OF_WORKUNIT), attrgetter(*_OF_WORKUNIT_VALUES)
_result_states = attrgetter(*_OF_RESULT)
_VALUE_COLUMNS = tuple(name.rpartition(".")[2] for name in _OF_WORKUNIT_VALUES)
_CREDITED = ("claimed_credit = ?", "granted_credit = granted_credit + ?")
_HANDLER_IS_DONE = ("retry_time = 0", "handler_failures = 0", "handler_problem = ''")


def save(
    tx: Transaction,
    changes: Iterable[Change],
    *,
    places: Mapping[WorkunitId, int] = NO_PLACES,
    credit: CreditOfRows = NO_CREDIT,
    now: float,
) -> int:
    """Write changes of workunits that were read in this write; return the number of results created.

    ``places`` are those of finished workunits in the lists of their batches; ``credit`` is that of workunits and results among
    those that change.  Wakes whoever goes on with the others.
    """
    updates: defaultdict[str, list[tuple[object, ...]]] = defaultdict(list)  # rows by statement
    new: list[tuple[object, ...]] = []
    for before, after in changes:
        workunit = after.workunit
        if workunit is not before.workunit:
            _note_workunit(
                tx,
                updates,
                before.workunit,
                workunit,
                place=places.get(workunit.id),
                credit=credit.workunits.get(workunit.id),
                now=now,
            )
        n = len(before.results)
        for old, result in zip(before.results, after.results[:n], strict=True):
            if result is not old:
                _note_result(tx, updates, old, result, credit.results.get(result.id))
        new += (
            (
                each.name,
                workunit.id,
                workunit.app_id,
                each.priority,
                workunit.turn,
                now,
                int(each.server_state),
                int(each.outcome),
            )
            for each in after.results[n:]
        )
    for statement, rows in updates.items():
        tx.execute_many(statement, rows)
    if new:
        tx.execute_many(
            "INSERT INTO result (name, workunit_id, app_id, priority, turn, create_time, server_state, outcome)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            new,
        )
        tx.wake("candidates")
    return len(new)


def _note_workunit(
    tx: Transaction,
    updates: defaultdict[str, list[tuple[object, ...]]],
    before: Workunit,
    after: Workunit,
    *,
    place: int | None,
    credit: float | None,
    now: float,
) -> None:
    sets = _differing(_OF_WORKUNIT, _workunit_states(before), _workunit_states(after))
    values: list[object] = []
    for column, old, new in zip(
        _VALUE_COLUMNS, _workunit_values(before), _workunit_values(after), strict=True
    ):
        if new != old:
            sets += (f"{column} = ?",)
            values.append(new)
    if after.assimilate_state is not before.assimilate_state:
        sets += _HANDLER_IS_DONE
        if after.assimilate_state is AssimilateState.DONE:
            sets += ("completed_time = ?",)
            values.append(now)
            if place is not None:
                sets += ("completed_seq = ?",)
                values.append(place)
        else:
            tx.wake("assimilator")
    if credit is not None:
        sets += ("canonical_credit = ?",)
        values.append(credit)
    if sets:
        updates[_update("workunit", sets)].append((*values, after.id))
    if after.need_validate and not before.need_validate:
        tx.wake("validator")
    if after.file_delete_state is FileDeleteState.READY:
        tx.wake("file_deleter")


def _note_result(
    tx: Transaction,
    updates: defaultdict[str, list[tuple[object, ...]]],
    before: Result,
    after: Result,
    credit: tuple[float, float] | None,
) -> None:
    sets = _differing(_OF_RESULT, _result_states(before), _result_states(after))
    if credit is not None:
        updates[_update("result", (*sets, *_CREDITED))].append((*credit, after.id))
    elif sets:
        updates[_update("result", sets)].append((after.id,))
    if after.file_delete_state is FileDeleteState.READY:
        tx.wake("file_deleter")


@lru_cache(1024)
def _differing(columns: tuple[str, ...], before: tuple[int, ...], after: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(
        f"{column} = {int(new)}"
        for column, old, new in zip(columns, before, after, strict=True)
        if new != old
    )


@lru_cache(1024)
def _update(table: str, sets: tuple[str, ...]) -> str:
    return f"UPDATE {table} SET {', '.join(sets)} WHERE id = ?"
