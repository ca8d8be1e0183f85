"""What clients said of running jobs that will be late, and the run times of an app's good results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cobblestone.domain.ids import AppId, ResultId
from cobblestone.policy.lifecycle.deadlines import Told, Turnaround
from cobblestone.policy.lifecycle.states import SUCCESS
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.work.steps import IS_IN_PROGRESS, matching

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
        f" JOIN workunit w ON w.id = r.workunit_id WHERE r.{IS_IN_PROGRESS} AND r.sent_time IS NOT NULL AND r.id IN (??)",
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
    """Keep what a client says of a job, and its deadline, which may be a later one.

    The transitioner looks at the workunit at the deadline before, and then again at this one.
    """
    tx.execute(
        f"UPDATE result SET told_remaining = ?, told_time = ?, report_deadline = ? WHERE id = ? AND {IS_IN_PROGRESS}",
        (told.remaining, told.time, report_deadline, result_id),
    )


def turnarounds(db: Database, app_id: AppId) -> list[Turnaround]:
    """Return what the newest good results of an app took."""
    rows = db.query(
        f"SELECT elapsed_time, received_time - sent_time FROM result WHERE app_id = ? AND {matching(SUCCESS)}"
        " AND elapsed_time > 0 AND received_time > sent_time ORDER BY id DESC LIMIT ?",
        (app_id, MOST_RESULTS),
    )
    return [Turnaround(run_time=row[0], total=row[1]) for row in rows]
