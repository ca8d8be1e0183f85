"""Batches: jobs that were submitted together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from cobblestone.domain.errors import Conflict
from cobblestone.domain.reasons import phrase
from cobblestone.domain.values import AppId, BatchId, ResultId, WorkunitId
from cobblestone.domain.work import (
    AssimilateState,
    BatchState,
    InputFile,
    JobLimits,
    JobState,
    OutputSpec,
    Recipients,
    ReplicationRules,
    WorkunitError,
)
from cobblestone.policy.dispatch.catalogue import BatchProgress, batch_weight, turns
from cobblestone.policy.lifecycle.states import BATCH_TRANSITIONS, RESULT_TRANSITIONS, Cause
from cobblestone.store.catalog import files
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.mapping import Column, RowMapper
from cobblestone.store.work import steps
from cobblestone.store.work.rows import JOB_PARTS, decode_outputs

#: Jobs that one transaction takes: about 15 ms, which is what a scheduler request may have to wait.
MAX_JOBS_PER_CALL = 1000
CANCEL_CHUNK = 1000

_UNFINISHED = f"{steps.matching(AssimilateState.INIT)} AND canonical_result_id IS NULL AND error_mask = 0"
_TO_RELEASE = (
    f"SELECT id, released_seq FROM batch WHERE {steps.TO_ARCHIVE} AND released_seq >= 0 ORDER BY id LIMIT 1"
)
_NOT_NEEDED = steps.step(Cause.NOT_NEEDED, RESULT_TRANSITIONS)
_JOBS_COMPLETE, _JOBS_FINISHED, _STOPPED, _OUTPUTS_RELEASED = (
    steps.step(cause, BATCH_TRANSITIONS)
    for cause in (Cause.JOBS_COMPLETE, Cause.JOBS_FINISHED, Cause.STOPPED, Cause.OUTPUTS_RELEASED)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRow:
    """A batch and how many of its jobs are finished."""

    id: BatchId
    name: str
    app_id: AppId
    state: BatchState
    create_time: float  #: Unix seconds
    complete_time: float | None = None  #: Unix seconds
    njobs: int = 0
    n_success: int = 0
    n_error: int = 0  #: failed or cancelled
    priority: int = 0
    token_id: int | None = None  #: token that it was submitted with
    request_key: str | None = None  #: makes a repeated submission harmless
    fair_weight: float = 1.0  #: see `cobblestone.policy.dispatch.catalogue`
    turn: float = 0.0  #: of its last job

    @property
    def finished(self) -> bool:
        """Return whether all jobs are finished."""
        return self.state is not BatchState.INIT and self.n_success + self.n_error >= self.njobs


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job to be stored."""

    label: str = ""  #: the submitter's own name of the job
    workunit_name: str = ""  #: empty: the app's, with the numbers of batch and job
    command_line: str = ""
    input_files: tuple[InputFile, ...] = ()
    output_specs: tuple[OutputSpec, ...] = ()
    limits: JobLimits = JobLimits()
    rules: ReplicationRules = ReplicationRules()
    priority: int = 0
    fixed_credit: float = 0.0  #: what it is worth, for apps with credit fixed per job
    target: Recipients = Recipients()
    size_class: int = -1


# -- making -------------------------------------------------------------------------------------------


_BATCHES = RowMapper(BatchRow)
_STORED_JOB = RowMapper(NewJob, JOB_PARTS).writer(without=("workunit_name", "priority"))
_INSERT_JOB = _STORED_JOB.insert(
    "workunit", "name", "app_id", "batch_id", "create_time", "transition_time", "priority", "turn"
)


def batch_by_id(db: Database, batch_id: int) -> BatchRow:
    """Return a batch.

    Raises:
        NotFound: there is no such batch.
    """
    db.lock("batch", [batch_id])
    missing = phrase("There is no batch {id}. See: cobblestone batch list", id=batch_id)
    return db.needed(_BATCHES, "batch WHERE id = ?", (batch_id,), missing)


def batch_by_key(db: Database, request_key: str) -> BatchRow | None:
    """Return the batch created by a request with this key, or None."""
    return db.first(_BATCHES, "batch WHERE request_key = ?", (request_key,))


def list_batches(
    db: Database, *, limit: int = 100, before: int | None = None, token_id: int | None = None
) -> list[BatchRow]:
    """Return batches, newest first: only those with ids smaller than ``before``, and only of one submitter, if that is given."""
    wanted = {"id < ?": before, "token_id = ?": token_id}
    given = {condition: value for condition, value in wanted.items() if value is not None}
    where = f"WHERE {' AND '.join(given)} " if given else ""
    return db.load(_BATCHES, f"batch {where}ORDER BY id DESC LIMIT ?", [*given.values(), limit])


def progress(db: Database, batch_ids: Collection[BatchId]) -> dict[BatchId, BatchProgress]:
    """Return the progress of batches."""
    rows = db.query_in(
        "SELECT id, njobs - n_success - n_error, turn, fair_weight FROM batch WHERE id IN (??)",
        list(batch_ids),
    )
    return {
        BatchId(row[0]): BatchProgress(unfinished=int(row[1]), last_turn=row[2], fair_weight=row[3] or 1.0)
        for row in rows
    }


def create_batch(
    tx: Transaction,
    *,
    name: str,
    app_id: AppId,
    now: float,
    priority: int = 0,
    token_id: int | None = None,
    request_key: str | None = None,
) -> BatchRow:
    """Create an empty, open batch.

    Raises:
        Conflict: a request with this key made a batch already (see :func:`batch_by_key`).
    """
    if request_key is not None and batch_by_key(tx, request_key) is not None:
        raise Conflict("This request has already been carried out.")
    batch_id = tx.insert(
        "INSERT INTO batch (name, app_id, token_id, request_key, state, create_time, priority, fair_weight)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            name,
            app_id,
            token_id,
            request_key,
            int(BatchState.INIT),
            now,
            priority,
            _weight_of_next_batch(tx, token_id),
        ),
    )
    return batch_by_id(tx, batch_id)


def _weight_of_next_batch(db: Database, token_id: int | None) -> float:
    if token_id is None:
        return 1.0
    share = db.value("SELECT share FROM api_token WHERE id = ?", (token_id,))
    running = db.value(f"SELECT COUNT(*) FROM batch WHERE token_id = ? AND {steps.OPEN_BATCH}", (token_id,))
    return batch_weight(1.0 if share is None else float(share), int(running or 0))


def _turns(db: Database, batch: BatchRow, jobs: Sequence[NewJob], served: float) -> list[float]:
    """Return the places in the queue for jobs added to a batch."""
    if not served:
        # Nothing was sent since the server started: what waits longest will be next.
        waiting = db.value(
            f"SELECT turn FROM result WHERE {steps.IS_UNSENT} AND priority = ? ORDER BY turn LIMIT 1",
            (batch.priority,),
        )
        served = float(waiting or 0.0)
    operations = [job.limits.rsc_fpops_est * job.rules.target_nresults for job in jobs]
    return turns(operations, weight=batch.fair_weight, served=served, last=batch.turn)


def add_jobs(
    tx: Transaction,
    batch: BatchRow,
    app_name: str,
    jobs: Sequence[NewJob],
    *,
    served: float = 0.0,
    now: float,
) -> BatchRow:
    """Store jobs at the end of an open batch: the workunits, and a reference on each input file.

    ``batch`` must have been read in this transaction.  ``served`` is the turn that was sent last among results of its
    priority (`cobblestone.store.work.candidates.CandidateQueue.served`); 0: not known.

    Raises:
        Conflict: the batch is not open any more.
        NotFound: an input file is not in the store.
    """
    if batch.state is not BatchState.INIT:
        raise Conflict(f"Batch {batch.id} is closed: no jobs can be added. Submit a new batch.")
    files.add_references(tx, Counter(file.name for job in jobs for file in job.input_files))
    places = _turns(tx, batch, jobs, served)
    tx.execute_many(
        _INSERT_JOB,
        [
            (
                *_STORED_JOB.values(job),
                job.workunit_name or f"{app_name}_{batch.id}_{index}",
                batch.app_id,
                batch.id,
                now,
                now,
                batch.priority + job.priority,
                turn,
            )
            for index, (job, turn) in enumerate(zip(jobs, places, strict=True), start=batch.njobs)
        ],
    )
    tx.execute(
        "UPDATE batch SET njobs = njobs + ?, turn = ? WHERE id = ?",
        (len(jobs), places[-1] if places else batch.turn, batch.id),
    )
    tx.wake("transitioner")
    return batch_by_id(tx, batch.id)


def close_batch(tx: Transaction, batch_id: int, *, now: float) -> BatchRow:
    """Close a batch: no more jobs follow; repeating it changes nothing.

    Raises:
        NotFound: there is no such batch.
    """
    batch = batch_by_id(tx, batch_id)
    if batch.state is not BatchState.INIT:
        return batch
    steps.take(tx, _JOBS_COMPLETE, _JOBS_COMPLETE.update("batch"), [(batch_id,)])
    if batch.n_success + batch.n_error >= batch.njobs:
        steps.take(
            tx, _JOBS_FINISHED, _JOBS_FINISHED.update("batch", also="complete_time = ?"), [(now, batch_id)]
        )
    tx.wake("results")
    return batch_by_id(tx, batch_id)


# -- asking -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """A job of a batch, as its submitter sees it."""

    workunit_id: WorkunitId
    name: str  #: of the workunit
    label: str
    completed_seq: int | None  #: position in the batch's list of finished jobs, from 1
    completed_time: float | None  #: Unix seconds
    error_mask: WorkunitError
    canonical_result_id: ResultId | None
    output_specs: tuple[OutputSpec, ...]
    input_files: tuple[InputFile, ...]
    command_line: str
    running: bool  #: a result of it is on a host

    @property
    def status(self) -> JobState:
        """Return the job's state."""
        if self.completed_seq is None and not self.error_mask:
            return JobState.RUNNING if self.running else JobState.WAITING
        if self.error_mask & WorkunitError.CANCELLED:
            return JobState.CANCELLED
        return JobState.FAILED if self.error_mask else JobState.DONE


#: Condition on workunits ``w``: a result of it is on a host.
RUNNING = f"EXISTS (SELECT 1 FROM result r WHERE r.workunit_id = w.id AND r.{steps.IS_IN_PROGRESS})"
_OPEN = "w.completed_seq IS NULL AND w.error_mask = 0"
#: Conditions on workunits ``w``, by the state of the job.
JOB_CONDITIONS = {
    JobState.WAITING: f"{_OPEN} AND NOT {RUNNING}",
    JobState.RUNNING: f"{_OPEN} AND {RUNNING}",
    JobState.DONE: "w.completed_seq IS NOT NULL AND w.error_mask = 0",
    JobState.FAILED: f"w.error_mask <> 0 AND w.error_mask & {int(WorkunitError.CANCELLED)} = 0",
    JobState.CANCELLED: f"w.error_mask & {int(WorkunitError.CANCELLED)} <> 0",
}
#: How the fields of a `Job` are read from workunits ``w``.
JOB_COLUMNS: Mapping[str, str | Column] = {
    "workunit_id": "id",
    "output_specs": Column(decode=decode_outputs),
    "running": RUNNING,
}
_JOBS = RowMapper(JobRow, JOB_COLUMNS)


def finished_jobs(db: Database, batch_id: int, *, after: int, limit: int) -> list[JobRow]:
    """Return finished jobs with a ``completed_seq`` greater than ``after``, in that order."""
    return db.load(
        _JOBS,
        "workunit w WHERE w.batch_id = ? AND w.completed_seq > ? ORDER BY w.completed_seq LIMIT ?",
        (batch_id, after, limit),
    )


def list_jobs(
    db: Database,
    batch_id: int,
    *,
    after: int = 0,
    limit: int = 100,
    status: JobState | None = None,
    text: str = "",
) -> list[JobRow]:
    """Return jobs of a batch in the order of their workunit ids, those greater than ``after``.

    Optionally only those of one state, or with ``text`` in their name.
    """
    wanted = "1 = 1" if status is None else JOB_CONDITIONS[status]
    pattern = "%" + re.sub(r"([%_\\])", r"\\\1", text) + "%"
    named = " OR ".join(f"{name} LIKE ? ESCAPE '\\'" for name in ("lower(w.label)", "w.label", "w.name"))
    return db.load(
        _JOBS,
        f"workunit w WHERE w.batch_id = ? AND w.id > ? AND {wanted} AND ({named}) ORDER BY w.id LIMIT ?",
        (batch_id, after, pattern.lower(), pattern, pattern, limit),
    )


def job_of_batch(db: Database, batch_id: int, workunit_id: int) -> JobRow:
    """Return one job of a batch.

    Raises:
        NotFound: the batch has no such job.
    """
    missing = f"Batch {batch_id} has no job {workunit_id}."
    return db.needed(_JOBS, "workunit w WHERE w.id = ? AND w.batch_id = ?", (workunit_id, batch_id), missing)


def batch_of_job(db: Database, workunit_id: int) -> int:
    """Return the batch of a job; 0: there is no such job, or it belongs to none."""
    return int(db.value("SELECT batch_id FROM workunit WHERE id = ?", (workunit_id,)) or 0)


def count_running(db: Database, batch: BatchRow) -> int:
    """Return how many unfinished jobs of a batch are on a host now."""
    unfinished = batch.njobs - batch.n_success - batch.n_error
    # The shorter way: over those jobs, or over what is on hosts of all batches.
    wanted = "w.batch_id = ? AND w.completed_seq IS NULL"
    if _counts_to(db, steps.IS_IN_PROGRESS, unfinished):
        return db.number(f"SELECT COUNT(*) FROM workunit w WHERE {wanted} AND {RUNNING}", (batch.id,))
    return db.number(
        "SELECT COUNT(DISTINCT w.id) FROM result r CROSS JOIN workunit w"
        f" WHERE r.{steps.IS_IN_PROGRESS} AND w.id = r.workunit_id AND {wanted}",
        (batch.id,),
    )


def many_unsent(db: Database, most: int) -> bool:
    """Return whether ``most`` or more results are unsent."""
    return _counts_to(db, steps.IS_UNSENT, most)


def _counts_to(db: Database, state: str, most: int) -> bool:
    """Return whether ``most`` or more results are in a state, without counting further."""
    counted = f"SELECT COUNT(*) FROM (SELECT 1 FROM result WHERE {state} LIMIT ?) found"
    return db.number(counted, (most,)) >= most


def count_unsent(db: Database) -> int:
    """Return how many results are unsent."""
    return db.number(f"SELECT COUNT(*) FROM result WHERE {steps.IS_UNSENT}")


# -- ending -------------------------------------------------------------------------------------------


def abort_batch(tx: Transaction, batch_id: int) -> BatchRow:
    """Mark a batch as cancelled; then call :func:`cancel_jobs`.  Repeating it is harmless.

    Raises:
        NotFound: there is no such batch.
        Conflict: it is retired.
    """
    batch = batch_by_id(tx, batch_id)
    if batch.state is BatchState.RETIRED:
        raise Conflict(phrase("Batch {id} is retired; there is nothing left to cancel.", id=batch_id))
    if batch.state in (BatchState.INIT, BatchState.IN_PROGRESS):
        steps.take(tx, _STOPPED, _STOPPED.update("batch"), [(batch_id,)])
        tx.wake("results")
    return batch_by_id(tx, batch_id)


def cancel_jobs(
    tx: Transaction, batch_id: int, *, after: int = 0, now: float, limit: int = CANCEL_CHUNK
) -> int | None:
    """Cancel up to ``limit`` jobs of a batch that have no answer yet.

    Returns the workunit id to go on after, or None when all are cancelled: a large batch must not hold up the
    writer, so each call belongs into a transaction of its own.

    Their unsent results are not sent any more, the transitioner closes them, and hosts that compute one are
    told to stop.
    """
    rows = tx.query(
        f"SELECT id FROM workunit WHERE batch_id = ? AND completed_seq IS NULL AND {_UNFINISHED} AND id > ?"
        " ORDER BY id LIMIT ?",
        (batch_id, after, limit),
    )
    cancel_workunits(tx, [row[0] for row in rows], now=now)
    return rows[-1][0] if len(rows) == limit else None


def open_jobs_named(db: Database, batch_id: int, names: Sequence[str]) -> list[WorkunitId]:
    """Return the workunits of a batch that have these names and no answer yet."""
    rows = db.query_in(
        f"SELECT id FROM workunit WHERE batch_id = ? AND completed_seq IS NULL AND {_UNFINISHED} AND name IN (??)",
        names,
        (batch_id,),
    )
    return [WorkunitId(row[0]) for row in rows]


def jobs_named(db: Database, names: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Return batch and workunit id of jobs, by workunit name; missing ones are left out."""
    rows = db.query_in("SELECT name, batch_id, id FROM workunit WHERE name IN (??)", names)
    return {row[0]: (row[1], row[2]) for row in rows if row[1] is not None}


def cancel_workunits(tx: Transaction, ids: Sequence[int], *, now: float) -> None:
    """Cancel workunits that have no answer yet; see :func:`cancel_jobs`."""
    tx.lock("workunit", ids)
    tx.execute_many(_NOT_NEEDED.update("result", key="workunit_id"), [(id_,) for id_ in ids])
    tx.execute_many(
        f"UPDATE workunit SET error_mask = error_mask | {WorkunitError.CANCELLED}, transition_time = ?,"
        " need_validate = 0 WHERE id = ?",
        [(now, id_) for id_ in ids],
    )
    if ids:
        tx.wake("transitioner")


def retire_batch(tx: Transaction, batch_id: int) -> BatchRow:
    """Retire a batch: its outputs are deleted, and the jobs move to the archive.

    Raises:
        NotFound: there is no such batch.
        Conflict: it still has jobs to do.
    """
    batch = batch_by_id(tx, batch_id)
    if batch.state in (BatchState.INIT, BatchState.IN_PROGRESS):
        raise Conflict(
            phrase("Batch {id} is not finished. Wait, or stop it: cobblestone batch cancel {id}", id=batch_id)
        )
    if batch.state is not BatchState.RETIRED:
        empty = "archived = CASE njobs WHEN 0 THEN 1 ELSE 0 END"  # it has nothing to archive
        steps.take(tx, _OUTPUTS_RELEASED, _OUTPUTS_RELEASED.update("batch", also=empty), [(batch_id,)])
    tx.wake("file_deleter", "results")
    return batch_by_id(tx, batch_id)


def answers_to_release(db: Database) -> bool:
    """Return whether `release_answers` has something to do."""
    return db.one(_TO_RELEASE) is not None


def release_answers(tx: Transaction, *, now: float, limit: int) -> int:
    """Have the transitioner process jobs of a retired batch, whose outputs are no longer needed; return how many.

    A batch may have a million of them, so it goes on from where it was when it is called again.
    """
    batch = tx.one(_TO_RELEASE)
    if batch is None:
        return 0
    rows = tx.query(
        "SELECT id, completed_seq FROM workunit WHERE batch_id = ? AND completed_seq > ? ORDER BY completed_seq LIMIT ?",
        (*batch, limit),
    )
    tx.lock("workunit", [row[0] for row in rows])
    tx.execute_many("UPDATE workunit SET transition_time = ? WHERE id = ?", [(now, row[0]) for row in rows])
    last = rows[-1][1] if len(rows) == limit else -1
    tx.change("batch", batch[0], released_seq=last)
    tx.wake("transitioner")
    return len(rows) or 1
