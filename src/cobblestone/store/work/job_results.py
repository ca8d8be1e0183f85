"""What hosts made of the jobs of a batch: who failed at which, and where an answer comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cobblestone.domain.ids import HostId, ResultId, UserId, WorkunitId
from cobblestone.domain.states import Outcome, ValidateState
from cobblestone.policy.lifecycle.states import CLIENT_ERROR, COULDNT_SEND, NO_REPLY, SUCCESS, VALIDATE_ERROR
from cobblestone.store.engine.database import Database
from cobblestone.store.engine.mapping import RowMapper
from cobblestone.store.work.batches import RUNNING
from cobblestone.store.work.steps import IS_NOT_LOST, IS_UNSENT, matching

_FAILED = matching(CLIENT_ERROR, NO_REPLY, VALIDATE_ERROR, row="r.")


def failed_so_far(db: Database, batch_id: int) -> tuple[int, ResultId | None]:
    """Return how many unfinished jobs of a batch failed on a host already, and the newest such result."""
    row = db.one(
        "SELECT COUNT(DISTINCT w.id), MAX(r.id) FROM workunit w JOIN result r ON r.workunit_id = w.id"
        " WHERE w.batch_id = ? AND w.completed_seq IS NULL AND r.outcome = ?",
        (batch_id, int(Outcome.CLIENT_ERROR)),
    )
    if row is None or row[1] is None:
        return 0, None
    return int(row[0]), ResultId(row[1])


def last_of_failed_jobs(db: Database, batch_id: int) -> ResultId | None:
    """Return the last result that failed on a host, of the job of a batch that was given up last."""
    found = db.value(
        "SELECT r.id FROM workunit w JOIN result r ON r.workunit_id = w.id WHERE w.batch_id = ? AND w.completed_seq IS NOT NULL"
        " AND w.error_mask <> 0 AND r.outcome = ? ORDER BY w.completed_seq DESC, r.id DESC LIMIT 1",
        (batch_id, int(Outcome.CLIENT_ERROR)),
    )
    return None if found is None else ResultId(found)


def exit_status(db: Database, result_id: ResultId) -> int:
    """Return how the program of a result ended; 0 where nothing is known."""
    return int(db.value("SELECT exit_status FROM result WHERE id = ?", (result_id,)) or 0)


def last_exit_status(db: Database, host_id: HostId) -> int:
    """Return how the program of the newest result that failed on a host ended; 0 where none did."""
    found = db.value(
        f"SELECT exit_status FROM result WHERE host_id = ? AND {matching(CLIENT_ERROR)} ORDER BY id DESC LIMIT 1",
        (host_id,),
    )
    return int(found or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingJob:
    """A job that failed somewhere, is on no computer, and waits for another one."""

    workunit_id: WorkunitId
    needed: int  #: answers that are missing for its quorum
    users: frozenset[UserId]  #: who had a result of it
    hosts: frozenset[HostId]


def waiting_after_failure(db: Database, batch_id: int, *, limit: int) -> list[WaitingJob]:
    """Return jobs of a batch that failed somewhere and wait to be sent again, at most ``limit``."""
    rows = db.query(
        "SELECT w.id, w.min_quorum FROM workunit w WHERE w.batch_id = ? AND w.completed_seq IS NULL AND w.error_mask = 0"
        f" AND EXISTS (SELECT 1 FROM result r WHERE r.workunit_id = w.id AND {_FAILED})"
        f" AND EXISTS (SELECT 1 FROM result r WHERE r.workunit_id = w.id AND r.{IS_UNSENT}) AND NOT {RUNNING}"
        " ORDER BY w.id LIMIT ?",
        (batch_id, limit),
    )
    sent = db.query_in(
        f"SELECT workunit_id, user_id, host_id, CASE WHEN {matching(SUCCESS)} AND"
        f" NOT {matching(ValidateState.INVALID)} THEN 1 ELSE 0 END FROM result"
        f" WHERE host_id IS NOT NULL AND workunit_id IN (??) AND {IS_NOT_LOST}",
        [row[0] for row in rows],
    )
    of_job: dict[int, list[tuple[int, int, int]]] = {}
    for id_, user, host, good in sent:
        of_job.setdefault(id_, []).append((user, host, good))
    return [
        WaitingJob(
            workunit_id=WorkunitId(id_),
            needed=quorum - sum(good for _, _, good in of_job.get(id_, ())),
            users=frozenset(UserId(user) for user, _, _ in of_job.get(id_, ())),
            hosts=frozenset(HostId(host) for _, host, _ in of_job.get(id_, ())),
        )
        for id_, quorum in rows
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedResult:
    """The last result of a failed job that ended with an error."""

    result_id: ResultId
    name: str
    outcome: Outcome
    exit_status: int
    host_id: int | None


_FAILURES = RowMapper(FailedResult, {"result_id": "id"})


def last_failures(db: Database, workunit_ids: Sequence[int]) -> dict[WorkunitId, FailedResult]:
    """Return for each of these workunits the newest result that did not succeed; those without one are left out."""
    rows = db.query_in(
        f"SELECT {_FAILURES.columns}, workunit_id FROM result"
        f" WHERE {matching(COULDNT_SEND, CLIENT_ERROR, NO_REPLY, VALIDATE_ERROR)} AND workunit_id IN (??) ORDER BY id",
        workunit_ids,
    )
    return {WorkunitId(row[-1]): _FAILURES.load(row) for row in rows}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFacts:
    """Where a result comes from, and what it took and earned."""

    id: ResultId
    name: str
    host_id: HostId | None
    elapsed_time: float  #: seconds
    granted_credit: float


_FACTS = RowMapper(ResultFacts)


def result_facts(db: Database, result_ids: Sequence[ResultId]) -> dict[ResultId, ResultFacts]:
    """Return where these results come from."""
    rows = db.query_in(f"SELECT {_FACTS.columns} FROM result WHERE id IN (??)", result_ids)
    return {each.id: each for each in map(_FACTS.load, rows)}
