"""When a finished job is reason enough to contact its project (today's family).

Source: BOINC's ``scheduler_op`` of today (``find_project_with_overdue_results``).
"""

from __future__ import annotations

from collections.abc import Sequence

from cobblestone.policy.client.core.reasons import Why, why
from cobblestone.policy.client.core.state import NEVER, ClientState, Job, Phase, Project

#: Seconds after which a finished job is reported in any case.
REPORT_AFTER = 3600.0
#: Seconds before its deadline from which it is reported at once.
BEFORE_DEADLINE = 86400.0
#: Seconds before the network or computing is suspended from which everything is reported.
BEFORE_SUSPENSION = 1800.0
#: So many finished jobs are reported at once.
MANY = 64
#: Seconds for which an upload that has begun holds other contacts with its project back: one will do for both.
YOUNG_UPLOAD = 300.0


def report_time(state: ClientState, job: Job) -> float:
    """Return the time from which on a finished job is due; other jobs and suspensions may make it due before."""
    prefs = state.preferences
    at_once = job.report_immediately or prefs.report_at_once or prefs.connection_interval > 0.0
    usual = job.completed_at if at_once else job.completed_at + REPORT_AFTER
    usual = max(usual, state.projects[job.project].upload_since + YOUNG_UPLOAD)
    return min(job.report_deadline - max(BEFORE_DEADLINE, prefs.buffer_min), usual)


def earliest_report(state: ClientState, job: Job) -> float:
    """Return when a finished job is due, with suspensions that are known to come."""
    return max(job.completed_at, min(job.report_at, before_suspension(state)))


def why_now(state: ClientState, job: Job) -> Why | None:
    """Return why a finished job is to be reported at once whatever the policy, None if that is left to it."""
    if job.report_immediately or state.preferences.report_at_once:
        return why("report.at_once", job=job.id)
    if state.projects[job.project].description.no_new_work:
        return why("report.no_new_work", job=job.id)
    return why("report.suspension", job=job.id) if state.now >= before_suspension(state) - 1e-6 else None


def before_suspension(state: ClientState) -> float:
    """Return when everything is to be reported since a suspension is known to come; infinite if none is."""
    allowed = state.permission
    ends = [end - BEFORE_SUSPENSION for end in (allowed.cpu_ends, allowed.network_ends) if end is not None]
    return min(ends, default=NEVER)


def why_report(state: ClientState, project: Project, job: Job, ready: Sequence[Job]) -> Why | None:
    """Return why a finished job of a project is to be reported now, None if it is not."""
    now = state.now
    if now - project.upload_since >= YOUNG_UPLOAD:
        if project.description.no_new_work:
            return why("report.no_new_work", job=job.id)
        if sum(other.project == job.project for other in ready) >= MANY:
            return why("report.many", job=job.id, count=MANY)
    if now < earliest_report(state, job) - 1e-6:
        return None
    if job.report_immediately or state.preferences.report_at_once:
        return why("report.at_once", job=job.id)
    if state.preferences.connection_interval > 0.0:
        return why("report.sporadic", job=job.id)
    if now >= job.report_deadline - max(BEFORE_DEADLINE, state.preferences.buffer_min):
        return why("report.deadline", job=job.id)
    if now >= job.completed_at + REPORT_AFTER - 1e-6:
        return why("report.hour", job=job.id)
    return why("report.suspension", job=job.id)


def ready_to_report(state: ClientState) -> list[Job]:
    """Return the finished jobs whose files have gone."""
    return [job for job in state.finished if job.phase is Phase.REPORTABLE]
