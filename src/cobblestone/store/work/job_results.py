"""Outcomes of jobs: failures and answers of a batch, late jobs, and daily counts of each app.

What the jobs of each app did on each day, since the first one: it stays when jobs are purged.

Jobs are counted in the write that ends them; credit and computers come from the ledger (`cobblestone.store.credit.history`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cobblestone.domain.values import AppId, HostId, ResultId, UserId, WorkunitId
from cobblestone.domain.work import Outcome, ValidateState
from cobblestone.policy.lifecycle.deadlines import Told, Turnaround
from cobblestone.policy.lifecycle.states import CLIENT_ERROR, COULDNT_SEND, NO_REPLY, SUCCESS, VALIDATE_ERROR
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.mapping import RowMapper
from cobblestone.store.work.batches import RUNNING
from cobblestone.store.work.steps import FOUND, IS_IN_PROGRESS, IS_NOT_LOST, IS_UNSENT, matching

_FAILED = matching(CLIENT_ERROR, NO_REPLY, VALIDATE_ERROR, row="r.")


def failed_so_far(db: Database, batch_id: int) -> tuple[int, ResultId | None]:
    """Return how many unfinished jobs of a batch have already failed on a host, and the newest such result."""
    row = db.one(
        "SELECT COUNT(DISTINCT w.id), MAX(r.id) FROM workunit w JOIN result r ON r.workunit_id = w.id"
        " WHERE w.batch_id = ? AND w.completed_seq IS NULL AND r.outcome = ?",
        (batch_id, int(Outcome.CLIENT_ERROR)),
    )
    if row is None or row[1] is None:
        return 0, None
    return int(row[0]), ResultId(row[1])


def last_of_failed_jobs(db: Database, batch_id: int) -> ResultId | None:
    """Return the last result that failed on a host, of the batch's job that was given up last."""
    found = db.value(
        "SELECT r.id FROM workunit w JOIN result r ON r.workunit_id = w.id WHERE w.batch_id = ? AND w.completed_seq IS NOT NULL"
        " AND w.error_mask <> 0 AND r.outcome = ? ORDER BY w.completed_seq DESC, r.id DESC LIMIT 1",
        (batch_id, int(Outcome.CLIENT_ERROR)),
    )
    return None if found is None else ResultId(found)


def exit_status(db: Database, result_id: ResultId) -> int:
    """Return the exit status of a result's program; 0 if unknown."""
    return int(db.value("SELECT exit_status FROM result WHERE id = ?", (result_id,)) or 0)


def last_exit_status(db: Database, host_id: HostId) -> int:
    """Return the exit status of the newest result that failed on a host; 0 if none did."""
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
        "SELECT w.id, w.min_quorum FROM workunit w WHERE w.id IN (SELECT o.id FROM workunit o JOIN result r"
        f" ON r.workunit_id = o.id WHERE o.batch_id = ? AND o.completed_seq IS NULL AND o.error_mask = 0 AND {_FAILED})"
        f" AND EXISTS (SELECT 1 FROM result r WHERE r.workunit_id = w.id AND {FOUND}r.{IS_UNSENT}) AND NOT {RUNNING}"
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
    """Return for each of these workunits the newest unsuccessful result; those without one are left out."""
    rows = db.query_in(
        f"SELECT {_FAILURES.columns}, workunit_id FROM result"
        f" WHERE {matching(COULDNT_SEND, CLIENT_ERROR, NO_REPLY, VALIDATE_ERROR)} AND workunit_id IN (??) ORDER BY id",
        workunit_ids,
    )
    return {WorkunitId(row[-1]): _FAILURES.load(row) for row in rows}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFacts:
    """The origin of a result, its cost and its credit."""

    id: ResultId
    name: str
    host_id: HostId | None
    elapsed_time: float  #: seconds
    granted_credit: float


_FACTS = RowMapper(ResultFacts)


def result_facts(db: Database, result_ids: Sequence[ResultId]) -> dict[ResultId, ResultFacts]:
    """Return the origin of these results."""
    return {each.id: each for each in db.load_in(_FACTS, "result WHERE id IN (??)", result_ids)}


MOST_RESULTS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class LateJob:
    """A result on a computer that will be late."""

    result_id: ResultId
    sent_time: float  #: Unix seconds
    report_deadline: float  #: Unix seconds, grace period included
    delay_bound: float  #: seconds
    before: Told | None  #: what its client said last


def late_jobs(db: Database, result_ids: Sequence[ResultId]) -> list[LateJob]:
    """Return those of the results that are on computers."""
    rows = db.query_in(
        "SELECT r.id, r.sent_time, r.report_deadline, w.delay_bound, r.told_remaining, r.told_time FROM result r"
        f" JOIN workunit w ON w.id = r.workunit_id WHERE {FOUND}r.{IS_IN_PROGRESS} AND r.sent_time IS NOT NULL AND r.id IN (??)",
        result_ids,
    )
    return [
        LateJob(
            result_id=ResultId(id_),
            sent_time=sent,
            report_deadline=deadline,
            delay_bound=bound,
            before=None if told_at is None else Told(remaining=remaining, time=told_at),
        )
        for id_, sent, deadline, bound, remaining, told_at in rows
    ]


def note_told(tx: Transaction, result_id: ResultId, told: Told, *, report_deadline: float) -> None:
    """Store a client's report on a job in progress, and its deadline, which may be later.

    The transitioner looks at the workunit at the deadline before, and then again at this one.
    """
    tx.execute_many(
        f"UPDATE result SET told_remaining = ?, told_time = ?, report_deadline = ? WHERE id = ? AND {FOUND}{IS_IN_PROGRESS}",
        [(told.remaining, told.time, report_deadline, result_id)],
    )


def turnarounds(db: Database, app_id: AppId) -> list[Turnaround]:
    """Return the turnaround times of the newest good results of an app."""
    rows = db.query(
        f"SELECT elapsed_time, received_time - sent_time FROM result WHERE app_id = ? AND {matching(SUCCESS)}"
        " AND elapsed_time > 0 AND received_time > sent_time ORDER BY id DESC LIMIT ?",
        (app_id, MOST_RESULTS),
    )
    return [Turnaround(run_time=row[0], total=row[1]) for row in rows]


def cost_lately(db: Database, app_id: AppId) -> tuple[float, float]:
    """Return the CPU seconds of the 200 newest valid results of an app, and the operations that were estimated for them."""
    rows = [row for row in _valid_lately(db, app_id) if row[4] > 0]
    return sum(row[4] for row in rows), sum(row[1] for row in rows)


def cost_of_batch(db: Database, batch_id: int) -> float | None:
    """Return the CPU seconds of a batch's finished jobs with their repetitions, on average of the newest 200; None: none is."""
    row = db.one(
        "SELECT SUM(r.cpu_time), COUNT(DISTINCT w.id) FROM (SELECT id FROM workunit WHERE batch_id = ? AND completed_seq > 0"
        " ORDER BY completed_seq DESC LIMIT 200) w JOIN result r ON r.workunit_id = w.id",
        (batch_id,),
    )
    return None if row is None or not row[1] else float(row[0] or 0.0) / row[1]


def paid_lately(db: Database, app_id: AppId) -> list[tuple[float, float]]:
    """Return credit and ``rsc_fpops_est`` of the 200 newest valid results of an app."""
    return [(row[0], row[1]) for row in _valid_lately(db, app_id)]


def counted_lately(db: Database, app_id: AppId) -> list[float]:
    """Return instructions per estimated operation of those that have counted, of the 200 newest valid results of an app."""
    rows = [(max(row[2], row[3]), row[1]) for row in _valid_lately(db, app_id)]
    return [count / estimate for count, estimate in rows if count > 0 and estimate > 0]


def _valid_lately(db: Database, app_id: AppId) -> Sequence[Sequence[float]]:
    return db.query(
        "SELECT r.granted_credit, w.rsc_fpops_est, r.fpops_counted, r.intops_counted, r.cpu_time"
        " FROM result r JOIN workunit w ON w.id = r.workunit_id"
        f" WHERE r.app_id = ? AND r.validate_state = {ValidateState.VALID} ORDER BY r.id DESC LIMIT 200",
        (app_id,),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AppDay:
    """An app's jobs on one day."""

    day: int  #: days since 1970, UTC
    n_success: int = 0  #: jobs done
    n_error: int = 0  #: jobs given up
    n_unsent: int = 0  #: tasks to do, when they were last counted on that day
    n_in_progress: int = 0
    n_results: int = 0  #: tasks that were credited
    granted: float = 0.0
    n_hosts: int = 0  #: computers that were credited


_DAYS = RowMapper(AppDay)


def count_jobs(tx: Transaction, ended: Mapping[AppId, tuple[int, int]], *, day: int) -> None:
    """Add finished and given-up jobs, by app, to the figures of a day."""
    tx.execute_many(
        "INSERT INTO app_day (app_id, day, n_success, n_error) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (app_id, day) DO UPDATE SET n_success = app_day.n_success + excluded.n_success,"
        " n_error = app_day.n_error + excluded.n_error",
        [(app_id, day, *counts) for app_id, counts in sorted(ended.items())],
    )


def count_tasks(db: Database) -> list[tuple[AppId, int, int]]:
    """Return how many tasks of each app in use are unsent and in progress: of millions that takes tenths of a second."""
    # The + keeps SQLite from walking the whole index by app for the sake of the grouping.
    unsent = dict(db.query(f"SELECT +app_id, count(*) FROM result WHERE {IS_UNSENT} GROUP BY 1"))
    running = dict(db.query(f"SELECT +app_id, count(*) FROM result WHERE {IS_IN_PROGRESS} GROUP BY 1"))
    apps = [row[0] for row in db.query("SELECT id FROM app WHERE deprecated = 0 ORDER BY id")]
    return [(app_id, unsent.get(app_id, 0), running.get(app_id, 0)) for app_id in apps]


def note_tasks(tx: Transaction, counts: Iterable[tuple[AppId, int, int]], *, day: int) -> None:
    """Record the numbers of tasks (`count_tasks`), as the last figures of a day."""
    tx.execute_many(
        "INSERT INTO app_day (app_id, day, n_unsent, n_in_progress) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (app_id, day) DO UPDATE SET n_unsent = excluded.n_unsent, n_in_progress = excluded.n_in_progress",
        [(app_id, day, unsent, running) for app_id, unsent, running in counts],
    )


def app_days(db: Database, app_id: AppId) -> list[AppDay]:
    """Return the days of an app with data, since the first one."""
    return db.load(_DAYS, "app_day WHERE app_id = ? ORDER BY day", (app_id,))
