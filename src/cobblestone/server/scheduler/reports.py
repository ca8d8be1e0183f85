"""A host's report and its effects: details of results, later deadlines, kept files, mails to owners."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import structlog

from cobblestone.domain.hosts import Host, HostAppVersion, network_of
from cobblestone.domain.people import User
from cobblestone.domain.reasons import Reason, exit_advice, reason
from cobblestone.domain.values import form_of
from cobblestone.domain.work import Outcome
from cobblestone.ops.settings import SchedulerSection
from cobblestone.policy.credit.early_systems import counted_operations
from cobblestone.policy.dispatch.catalogue import Assignment, availability
from cobblestone.policy.dispatch.limits import is_throttled
from cobblestone.policy.dispatch.reports import AcceptedReport
from cobblestone.policy.lifecycle.deadlines import Told, extended_deadline, will_be_late
from cobblestone.policy.storage import StorageRecord, StorageRules, answered, asked, contacted, next_challenge
from cobblestone.server.core.context import ServerContext
from cobblestone.server.scheduler.work_request import STICKY_PRESENT
from cobblestone.service.languages import chosen, translate_reason, use_language
from cobblestone.service.languages import gettext as _
from cobblestone.store.catalog import kept_files
from cobblestone.store.engine.database import Transaction
from cobblestone.store.operation import audit
from cobblestone.store.people import mails
from cobblestone.store.work import job_results
from cobblestone.store.work.dispatch import JobInProgress
from cobblestone.wire.scheduler.reply import FileChallenge, SchedulerReply
from cobblestone.wire.scheduler.report import ReportedResult
from cobblestone.wire.scheduler.request import SchedulerRequest
from cobblestone.wire.text.reader import Lenience, LenienceKind

log = structlog.get_logger(__name__)


def report_details(
    message: SchedulerRequest, item: ReportedResult, reasons: Sequence[Reason]
) -> dict[str, object]:
    """Return a JSON-ready form of a report's details."""
    return {
        "client_message": item.error_message,
        "client_version": message.client_version_text,
        "reasons": [entry.as_json() for entry in (*reasons, *refused_figures(message, item))],
        "peak_working_set_size": item.final_peak_working_set_size,
        "peak_disk_usage": item.final_peak_disk_usage,
        "fpops_cumulative": item.fpops_cumulative,
        "fpops_per_cpu_sec": item.fpops_per_cpu_sec,
        "intops_cumulative": item.intops_cumulative,
        "intops_per_cpu_sec": item.intops_per_cpu_sec,
    }


def counted_fpops(item: ReportedResult, cpu_time: float) -> float:
    """Return the floating-point operations that the program counted."""
    return counted_operations(
        cumulative=item.fpops_cumulative, per_cpu_second=item.fpops_per_cpu_sec, cpu_time=cpu_time
    )


def counted_intops(item: ReportedResult, cpu_time: float) -> float:
    """Return the integer operations that the program counted."""
    return counted_operations(
        cumulative=item.intops_cumulative, per_cpu_second=item.intops_per_cpu_sec, cpu_time=cpu_time
    )


def refused_figures(message: SchedulerRequest, report: ReportedResult) -> tuple[Reason, ...]:
    """Return why figures of a report and of its host were rejected: they were not usable numbers."""
    of_host = (
        note
        for note in message.leniences
        if note.where.startswith("coproc") or note.where.rpartition("/")[2] in message.unsaid
    )
    return tuple(
        _refused(note) for note in (*report.leniences, *of_host) if note.kind is LenienceKind.BAD_NUMBER
    )


def _refused(note: Lenience) -> Reason:
    return reason(
        "number_refused",
        "{name} was sent as {value}: not a usable number, so it counts as not reported.",
        name=note.where,
        value=note.detail,
    )


def extend_deadlines(
    tx: Transaction,
    message: SchedulerRequest,
    host: Host,
    in_progress: Sequence[JobInProgress],
    *,
    settings: SchedulerSection,
    now: float,
) -> None:
    """Extend deadlines on our side; the client continues in any case, and is not told.

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
    for row in job_results.late_jobs(tx, list(late)):
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
        job_results.note_told(tx, row.result_id, told, report_deadline=deadline)


STORAGE_RULES = StorageRules()
#: A computer that was asked shall call again by then, if it has nothing else to say.
ANSWER_SECONDS = 6 * 3600.0


def take_kept_files(
    tx: Transaction, message: SchedulerRequest, reply: SchedulerReply, host: Host, *, address: str, now: float
) -> None:
    """Record which files the computer keeps and its answers; perhaps ask it; tell it which files are no longer needed."""
    held = {file.name: file for file in message.sticky_files if file.status == STICKY_PRESENT}
    before = kept_files.record_of(tx, host.id)
    if before is None and not held:
        return
    record = before or StorageRecord()
    listed = kept_files.listed(tx, host.id, held.keys(), user_id=host.user_id, network=network_of(address))
    record = contacted(record, listed.counted, now=now, rules=STORAGE_RULES)
    question = record.challenge
    if question is not None and question.file_name in held:
        file = held[question.file_name]
        record = answered(record, file.nonce, file.answer, now=now)
        if record.answer:
            tx.wake("storage")
    if message.client_cap_file_challenge:
        challenge = next_challenge(
            record,
            listed.counted,
            since=before.seen if before else 0.0,
            now=now,
            rng=secrets.SystemRandom(),
            rules=STORAGE_RULES,
        )
        if challenge is not None:
            record = asked(record, challenge)
            reply.file_challenge = form_of(FileChallenge, challenge)
    kept_files.save(tx, host.id, record)
    reply.delete_files += listed.unneeded
    if listed.new:
        tx.wake("storage")


def next_storage_contact(reply: SchedulerReply, delay: float) -> float:
    """Return the seconds until the client must call in any case (0: no wish), if the project asks for ``delay``."""
    if reply.file_challenge is None:
        return delay
    return min(delay or ANSWER_SECONDS, ANSWER_SECONDS)


def ask_to_keep(tx: Transaction, assignments: Sequence[Assignment], *, host: Host) -> None:
    """Record which files a computer is asked to keep with the jobs that it is sent."""
    files = {
        file.name: file.nbytes
        for assignment in assignments
        for file in assignment.candidate.input_files
        if file.sticky
    }
    if files:
        kept_files.ask(tx, host.id, files.items())


SAID_AGAIN_SECONDS = 3600.0
MOST_SAID = 1000


def log_failure(
    ctx: ServerContext, report: AcceptedReport, before: HostAppVersion, after: HostAppVersion, *, now: float
) -> None:
    """Log what an operator would want to know of a failed task, once an hour: a version that fails, a computer put back."""
    if report.outcome is not Outcome.CLIENT_ERROR:
        return
    version, host, quota = after.app_version_id, after.host_id, ctx.settings.scheduler.daily_result_quota
    events = [(f"version {version} {report.exit_status}", "tasks_fail", {"exit_status": report.exit_status})]
    if is_throttled(after, quota) and not is_throttled(before, quota):
        events.append((f"host {host} {version}", "host_put_back", {"bad_results": after.bad_results}))
    for key, event, values in events:
        if abs(now - ctx.said.get(key, 0.0)) >= SAID_AGAIN_SECONDS:
            if len(ctx.said) >= MOST_SAID:
                ctx.said.clear()
            ctx.said[key] = now
            log.info(event, app_version=version, host=host, **values)


def tell_owner(
    tx: Transaction, ctx: ServerContext, user: User, host: Host, problems: Sequence[Reason], *, now: float
) -> None:
    """Tell a computer's owner what is wrong with it, unless that was done recently or is not wanted."""
    # One mail is enough for a week; the client's notices come all the time.  It is remembered as a creating request is: mails
    # are found by no name, and a computer that fails may call often.
    key = f"mail: computer {host.id} fails"
    if not problems or not user.send_email or audit.recall_reply(tx, key, "", now=now) is not None:
        return
    audit.remember_reply(tx, key, "", "", now=now)
    status = job_results.last_exit_status(tx, host.id)
    said = (*problems, exit_advice(status)) if status else problems
    with use_language(chosen(user.language)):
        subject, body = _mail(ctx, user, host, said)
    mails.post(tx, recipient=user.email_addr, subject=subject, body=body, now=now)


def _mail(ctx: ServerContext, user: User, host: Host, problems: Sequence[Reason]) -> tuple[str, str]:
    """Return subject and text, in the current language."""
    project = ctx.settings.project
    subject = _("your computer %(id)d fails") % {"id": host.id}
    paragraphs = [
        _("Hello %(name)s,") % {"name": user.name},
        *(translate_reason(problem) for problem in problems),
        _("The computer and its tasks: %(page)s")
        % {"page": ctx.url(f"show_host_detail.php?hostid={host.id}")},
        _("If you do not want such mails, turn them off here: %(page)s") % {"page": ctx.url("account.php")},
        project.name,
    ]
    return f"{project.name}: {subject}", "\n\n".join(paragraphs) + "\n"
