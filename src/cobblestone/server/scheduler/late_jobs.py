"""Jobs that make progress but will be late get a later deadline, as their clients say how much is left to do."""

from __future__ import annotations

from collections.abc import Sequence

from cobblestone.domain.hosts import Host
from cobblestone.ops.settings import SchedulerSection
from cobblestone.policy.estimate.speed import availability
from cobblestone.policy.lifecycle.deadlines import Told, extended_deadline, will_be_late
from cobblestone.store.engine.database import Transaction
from cobblestone.store.work import late_jobs
from cobblestone.store.work.dispatch import JobInProgress
from cobblestone.wire.scheduler_request import SchedulerRequest


def extend_deadlines(
    tx: Transaction,
    message: SchedulerRequest,
    host: Host,
    in_progress: Sequence[JobInProgress],
    *,
    settings: SchedulerSection,
    now: float,
) -> None:
    """Extend deadlines on our side; the client goes on in any case, and does not learn of it.

    Nothing is stored of jobs that will be in time.
    """
    said = {job.name: job.time_remaining for job in message.in_progress_results}
    factor, grace_period = settings.longest_deadline, settings.grace_period
    if not said or factor <= 1:
        return
    available = availability(host.description)
    late = {
        job.result_id: Told(remaining=said[job.name], time=now)
        for job in in_progress
        if job.undisputed
        and job.name in said
        and job.report_deadline is not None
        and will_be_late(
            Told(remaining=said[job.name], time=now),
            deadline=job.report_deadline - grace_period,
            available=available,
        )
    }
    if not late:
        return
    tx.lock("workunit", [job.workunit_id for job in in_progress if job.result_id in late])
    for row in late_jobs.late_jobs(tx, list(late)):
        told = late[row.result_id]
        later = extended_deadline(
            told,
            row.before,
            sent=row.sent_time,
            deadline=row.report_deadline - grace_period,
            delay_bound=row.delay_bound,
            available=available,
            factor=factor,
        )
        deadline = row.report_deadline if later is None else later + grace_period
        late_jobs.note_told(tx, row.result_id, told, report_deadline=deadline)
