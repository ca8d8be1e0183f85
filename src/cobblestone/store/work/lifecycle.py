"""Database operations of transitioner, validator, assimilator, file deleter and purger, which change workunits.

What an effect changes is said once, in `cobblestone.policy.lifecycle.application`.  Here the columns that differ from what was
read are written, each row once, however many rules had their say in between.  Each verb takes a batch: rows shared by many
workunits are read once and written once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import count
from operator import attrgetter

from cobblestone.domain.errors import UnreadableRow
from cobblestone.domain.reasons import sayable
from cobblestone.domain.values import BatchId, ResultId, WorkunitId
from cobblestone.domain.work import (
    NO_CREDIT,
    AssimilateState,
    BatchState,
    CreditOfRows,
    FileDeleteState,
    Result,
    Workunit,
)
from cobblestone.policy.credit.history import day_of
from cobblestone.policy.lifecycle import states
from cobblestone.policy.lifecycle.application import apply_transition
from cobblestone.policy.lifecycle.deadlines import PARKED_UNTIL
from cobblestone.policy.validation.canonical import ValidationDecision, apply_decision
from cobblestone.store.catalog import files
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.engine import Parameters, Row
from cobblestone.store.engine.mapping import RowMapper
from cobblestone.store.engine.process_group import SHARDS, Shards
from cobblestone.store.work import job_results
from cobblestone.store.work.rows import WORKUNITS, add_reasons, results_of_workunits, workunits
from cobblestone.store.work.steps import DELETABLE, TO_ASSIMILATE, step

NO_PLACES: Mapping[WorkunitId, int] = {}
#: A workunit as it was read in this write, and as it shall be.  Results that follow those that were there are new.
Change = tuple[states.WorkunitView, states.WorkunitView]

# What rules change.  Numbers of states stand in the text of a statement, so that rows that take the same step share one.
_OF_WORKUNIT = ("need_validate", "error_mask", "assimilate_state", "file_delete_state")
_OF_WORKUNIT_VALUES = (
    "canonical_result_id",
    "hr_class",
    "app_version_id",
    "rules.target_nresults",
    "rules.min_quorum",
    "rules.max_total_results",
    "rules.max_success_results",
    "transition_time",
)
_OF_RESULT = ("server_state", "outcome", "validate_state", "file_delete_state", "checks")
_workunit_states, _workunit_values = attrgetter(*_OF_WORKUNIT), attrgetter(*_OF_WORKUNIT_VALUES)
_result_states = attrgetter(*_OF_RESULT)
_VALUE_COLUMNS = tuple(name.rpartition(".")[2] for name in _OF_WORKUNIT_VALUES)
_CREDITED = ("claimed_credit = ?", "granted_credit = granted_credit + ?")
_HANDLER_IS_DONE = ("retry_time = 0", "handler_failures = 0", "handler_problem = ''")


def save_changes(
    tx: Transaction,
    changes: Iterable[Change],
    *,
    places: Mapping[WorkunitId, int] = NO_PLACES,
    credit: CreditOfRows = NO_CREDIT,
    now: float,
) -> int:
    """Write changes of workunits that were read in this write; return the number of results created.

    ``places`` are those of finished workunits in the lists of their batches; ``credit`` is that of workunits and results among
    those that change.  Wakes the daemons that go on with the others.
    """
    updates: defaultdict[str, list[tuple[object, ...]]] = defaultdict(list)  # rows by statement
    new: list[tuple[object, ...]] = []
    for before, after in changes:
        workunit = after.workunit
        if workunit is not before.workunit:
            _note_workunit(tx, updates, before.workunit, workunit, places, credit, now=now)
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
    places: Mapping[WorkunitId, int],
    credit: CreditOfRows,
    *,
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
            if after.id in places:
                sets += ("completed_seq = ?",)
                values.append(places[after.id])
        else:
            tx.wake("assimilator")
    if after.id in credit.workunits:
        sets += ("canonical_credit = ?",)
        values.append(credit.workunits[after.id])
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


#: Characters that are kept of what a function said.
MAX_PROBLEM = 1000

_ASSIMILATED = step(states.Cause.ASSIMILATED, states.ASSIMILATE_TRANSITIONS)
_FILES_DELETED = step(states.Cause.FILES_DELETED, states.FILE_DELETE_TRANSITIONS)
_JOBS_FINISHED = step(states.Cause.JOBS_FINISHED, states.BATCH_TRANSITIONS)


def views(db: Database, ids: Sequence[int]) -> list[states.WorkunitView]:
    """Return workunits with all their results, in the order of ``ids``; missing ones are left out.

    In a write they belong to it until it ends: no other transaction changes them or their results.
    """
    db.lock("workunit", ids)
    db.ask_ahead(
        partial(workunits, ids=ids), partial(results_of_workunits, ids=ids), partial(in_escrow, ids=ids)
    )
    found = workunits(db, ids)
    results = results_of_workunits(db, ids)
    escrow = in_escrow(db, ids)
    in_batches = {each.batch_id for each in found.values() if each.batch_id is not None}
    keeping = {
        row[0]
        for row in db.query_in(
            f"SELECT id FROM batch WHERE state <> {BatchState.RETIRED} AND id IN (??)", sorted(in_batches)
        )
    }
    return [
        states.WorkunitView(
            workunit=found[id_],
            results=tuple(results[id_]),
            keeps_answer=found[id_].batch_id in keeping,
            in_escrow=id_ in escrow,
            audited=escrow.get(id_, False),
        )
        for id_ in map(WorkunitId, ids)
        if id_ in found
    ]


def readable_views(db: Database, ids: Sequence[int]) -> list[states.WorkunitView]:
    """Return what `views` does; workunits that cannot be read, or a result of which, are left out."""
    try:
        return views(db, ids)
    except UnreadableRow as error:
        if len(ids) == 1:
            db.leave_out(str(error))
            return []
    half = len(ids) // 2
    return readable_views(db, ids[:half]) + readable_views(db, ids[half:])


def in_escrow(db: Database, ids: Sequence[int]) -> dict[int, bool]:
    """Return those of the workunits with provisional credit, and whether a result of theirs is being audited."""
    sql = (
        "SELECT workunit_id, MAX(CASE WHEN audit = 1 THEN 1 ELSE 0 END) FROM escrow WHERE workunit_id IN (??)"
    )
    return {row[0]: bool(row[1]) for row in db.query_in(f"{sql} GROUP BY workunit_id", ids)}


def due_workunits(db: Database, *, now: float, limit: int) -> list[states.WorkunitView]:
    """Return workunits whose transition time has come, longest waiting first."""
    return views(db, ids_due(db, now=now, limit=limit))


def ids_due(db: Database, *, now: float, limit: int) -> list[WorkunitId]:
    """Return the ids of `due_workunits`."""
    rows = db.query(
        "SELECT id FROM workunit WHERE transition_time IS NOT NULL AND transition_time <= ?"
        f" ORDER BY transition_time LIMIT ?{db.claiming}",
        (now, limit),
    )
    return [WorkunitId(row[0]) for row in rows]


def put_off(tx: Transaction, workunit_id: WorkunitId, error: Exception, *, until: float) -> None:
    """Leave a workunit as it is until then: it cannot be handled, and others shall not wait for it."""
    tx.change("workunit", workunit_id, transition_time=until)
    problem = sayable(f"{type(error).__name__}: {error}"[:MAX_PROBLEM])
    tx.leave_out(f"Workunit {workunit_id} is left as it is, for now: {problem}")


def next_transition_time(db: Database) -> float | None:
    """Return when the next workunit becomes due, Unix seconds."""
    return db.value("SELECT min(transition_time) FROM workunit WHERE transition_time IS NOT NULL")


def apply_transitions(
    tx: Transaction, decided: Sequence[tuple[states.WorkunitView, states.Transition]], *, now: float
) -> int:
    """Apply the transitioner's decisions on workunits that were read in this write; return the number of results created.

    Raises:
        IllegalTransition: an effect does not fit; nothing is changed.
    """
    new_ids = ids_of_new_results()
    return save_changes(
        tx, [(view, apply_transition(view, each, now, new_ids)) for view, each in decided], now=now
    )


def ids_of_new_results() -> Iterator[ResultId]:
    """Yield temporary ids for results until the database assigns theirs."""
    return map(ResultId, count(-1, -1))


def ids_to_validate(db: Database, *, now: float, limit: int, shards: Shards = None) -> list[WorkunitId]:
    """Return workunits that a validator must look at, of some shards."""
    rows = _of_shards(
        db, "SELECT id FROM workunit WHERE need_validate = 1 AND retry_time <= ?", (now,), shards, limit
    )
    return [WorkunitId(row[0]) for row in rows]


def _of_shards(db: Database, sql: str, parameters: Parameters, shards: Shards, limit: int) -> list[Row]:
    """Return the first rows of a query for workunits, by id, that belong to some shards."""
    if shards is None:
        return db.query(f"{sql} ORDER BY id LIMIT ?", [*parameters, limit])
    return db.query_in(f"{sql} AND id % {SHARDS} IN (??) ORDER BY id LIMIT {limit}", shards, parameters)


def apply_decisions(
    tx: Transaction,
    decided: Sequence[tuple[states.WorkunitView, ValidationDecision]],
    credit: CreditOfRows,
    *,
    now: float,
) -> None:
    """Apply the validator's decisions on workunits that were read in this write, and record credit granted in it.

    Raises:
        IllegalTransition: an effect does not fit; nothing is changed.
    """
    changes = [(view, apply_decision(view, each, now)) for view, each in decided]
    save_changes(tx, changes, credit=credit, now=now)
    note_reasons(tx, decided)
    if any(decision.next_check is not None for _, decision in decided):
        tx.wake("transitioner")


def note_reasons(tx: Transaction, decided: Iterable[tuple[states.WorkunitView, ValidationDecision]]) -> None:
    """Store why results were found invalid, unusable, or not comparable."""
    for view, decision in decided:
        told = {*decision.newly_invalid, *decision.unusable, *decision.undecided}
        if not told:
            continue
        for result in view.results:
            if result.id in told:
                about = [entry for entry in decision.reasons if entry.values.get("result") == result.name]
                add_reasons(tx, result.id, about)


def postpone(tx: Transaction, workunit_id: WorkunitId, *, until: float, problem: str) -> None:
    """Retry the project's function on a workunit only after ``until``; count the failure, and store its message."""
    tx.execute(
        "UPDATE workunit SET retry_time = ?, handler_failures = handler_failures + 1, handler_problem = ? WHERE id = ?",
        (until, sayable(problem[:MAX_PROBLEM]), workunit_id),
    )


def try_again(tx: Transaction, workunit_id: int) -> bool:
    """Retry the project's function at once on a workunit that waits for it; return whether one did."""
    found = tx.execute(
        "UPDATE workunit SET retry_time = 0, handler_failures = 0, handler_problem = '' WHERE id = ? AND retry_time > 0",
        (workunit_id,),
    )
    if found:
        tx.wake("validator", "assimilator")
    return bool(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class HandlerFailure:
    """A failed call of the project's function for a workunit."""

    n_failures: int
    problem: str  #: what it said last
    retry_time: float  #: Unix seconds

    @property
    def parked(self) -> bool:
        """Return whether it is no longer retried."""
        return self.retry_time >= PARKED_UNTIL


_FAILURES = RowMapper(HandlerFailure, {"n_failures": "handler_failures", "problem": "handler_problem"})


def handler_failure(db: Database, workunit_id: int) -> HandlerFailure | None:
    """Return how the project's function failed on a workunit; None if it did not."""
    failed = "workunit WHERE id = ? AND handler_failures > 0 AND retry_time > 0"
    return db.first(_FAILURES, failed, (workunit_id,))


def handler_failures(db: Database, workunit_id: int) -> int:
    """Return how often the project's function failed on a workunit."""
    return db.number("SELECT handler_failures FROM workunit WHERE id = ?", (workunit_id,))


@dataclass(frozen=True, slots=True, kw_only=True)
class ToAssimilate:
    """A finished workunit to be passed to the project."""

    view: states.WorkunitView
    label: str  #: the submitter's own name of the job


def workunits_to_assimilate(
    db: Database, *, now: float, limit: int, shards: Shards = None
) -> list[ToAssimilate]:
    """Return workunits of some shards whose answer, or failure, is ready for the project."""
    rows = _of_shards(
        db, f"SELECT id, label FROM workunit WHERE {TO_ASSIMILATE} AND retry_time <= ?", (now,), shards, limit
    )
    labels = dict(rows)
    return [
        ToAssimilate(view=view, label=labels[view.workunit.id]) for view in readable_views(db, list(labels))
    ]


def mark_assimilated(tx: Transaction, assimilated: Sequence[states.WorkunitView], *, now: float) -> None:
    """Record that the project has these answers; count them in their batches and give them their place in the list."""
    ids = [view.workunit.id for view in assimilated]
    tx.lock("workunit", ids)
    waiting = {
        row[0] for row in tx.query_in(f"SELECT id FROM workunit WHERE {TO_ASSIMILATE} AND id IN (??)", ids)
    }
    fresh = [view for view in assimilated if view.workunit.id in waiting]
    places = count_assimilated(tx, fresh, now=now)
    tx.execute_many(
        _ASSIMILATED.update("workunit", also="transition_time = ?, completed_time = ?, completed_seq = ?"),
        [(now, now, places.get(view.workunit.id), view.workunit.id) for view in fresh],
    )
    if fresh:
        tx.wake("transitioner")


def count_assimilated(
    tx: Transaction, views: Sequence[states.WorkunitView], *, now: float
) -> dict[WorkunitId, int]:
    """Count workunits whose answers the project has, in their batches and apps; return their places in the batches' lists."""
    by_batch: defaultdict[BatchId, list[states.WorkunitView]] = defaultdict(list)
    for view in views:
        if view.workunit.batch_id is not None:
            by_batch[view.workunit.batch_id].append(view)
    tx.lock("batch", by_batch)
    tx.ask_ahead(*(partial(_count_of_batch, batch_id=batch_id) for batch_id in by_batch))
    places: dict[WorkunitId, int] = {}
    for batch_id, members in by_batch.items():
        places |= _count_in_batch(tx, batch_id, members, now=now)
    _count_by_app(tx, views, now=now)
    if views:
        tx.wake("results", "webhooks")
    return places


def _count_by_app(tx: Transaction, ended: Sequence[states.WorkunitView], *, now: float) -> None:
    failed = Counter(view.workunit.app_id for view in ended if view.workunit.error_mask)
    total = Counter(view.workunit.app_id for view in ended)
    job_results.count_jobs(
        tx, {app_id: (n - failed[app_id], failed[app_id]) for app_id, n in total.items()}, day=day_of(now)
    )


def _count_of_batch(db: Database, batch_id: BatchId) -> Row | None:
    return db.one("SELECT n_success, n_error, njobs FROM batch WHERE id = ?", (batch_id,))


def _count_in_batch(
    tx: Transaction, batch_id: BatchId, members: Sequence[states.WorkunitView], *, now: float
) -> dict[WorkunitId, int]:
    row = _count_of_batch(tx, batch_id)
    if row is None:
        return {}
    n_success, n_error, njobs = row
    places = {view.workunit.id: place for place, view in enumerate(members, start=n_success + n_error + 1)}
    good = sum(1 for view in members if not view.workunit.error_mask)
    n_success += good
    n_error += len(members) - good
    tx.execute_many(
        "UPDATE batch SET n_success = ?, n_error = ? WHERE id = ?", [(n_success, n_error, batch_id)]
    )
    if n_success + n_error >= njobs:
        tx.execute_many(_JOBS_FINISHED.update("batch", also="complete_time = ?"), [(now, batch_id)])
    return places


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesToDelete:
    """Files that are no longer needed."""

    workunits: tuple[tuple[WorkunitId, tuple[str, ...]], ...]  #: with the names of their input files
    results: tuple[ResultId, ...]  #: whose outputs may go


def files_to_delete(db: Database, *, limit: int) -> FilesToDelete:
    """Return workunits and results whose files can be deleted.  Canonical outputs stay until their batch is retired."""
    rows = db.query(
        f"SELECT {WORKUNITS.columns} FROM workunit WHERE {DELETABLE} ORDER BY id LIMIT ?", (limit,)
    )
    outputs = db.query(
        "SELECT r.id FROM result r JOIN workunit w ON w.id = r.workunit_id LEFT JOIN batch b ON b.id = w.batch_id"
        f" WHERE r.{DELETABLE} AND NOT (w.canonical_result_id = r.id AND b.id IS NOT NULL AND b.state <> {BatchState.RETIRED})"
        " ORDER BY r.id LIMIT ?",
        (limit,),
    )
    return FilesToDelete(
        workunits=tuple(
            (each.id, tuple(file.name for file in each.input_files))
            for each in db.readable(WORKUNITS.load, rows)
        ),
        results=tuple(ResultId(row[0]) for row in outputs),
    )


def mark_files_deleted(tx: Transaction, gone: FilesToDelete, *, now: float) -> None:
    """Record that files are gone: one reference less on each input."""
    tx.lock("workunit", [id_ for id_, _ in gone.workunits])
    released: Counter[str] = Counter()
    changed = tx.execute_each(_FILES_DELETED.update("workunit"), [(id_,) for id_, _ in gone.workunits])
    for (_, names), n in zip(gone.workunits, changed, strict=True):
        if n:
            released.update(names)
    files.release_references(tx, released, now=now)
    tx.execute_many(_FILES_DELETED.update("result"), [(id_,) for id_ in gone.results])
