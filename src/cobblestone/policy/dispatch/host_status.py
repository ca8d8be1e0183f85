"""How a host stands with the project: what holds it back, and how much it is trusted.  For its owner and for operators.

The same values are shown on pages, sent as notices and printed by ``cobblestone explain host``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cobblestone.domain.apps import App, AppVersion
from cobblestone.domain.hosts import Host, HostAppVersion
from cobblestone.domain.ids import AppId
from cobblestone.domain.reasons import Reason, reason
from cobblestone.policy.dispatch import quota
from cobblestone.policy.dispatch.explain import Code, explain
from cobblestone.policy.dispatch.limits import DispatchLimits
from cobblestone.policy.dispatch.missing_runtime import lacks_interpreter
from cobblestone.policy.dispatch.reliability import is_reliable
from cobblestone.policy.validation.adaptive_replication import spot_check_probability


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionStatus:
    """How a host stands with one app version."""

    app: str  #: what volunteers call it
    version_num: int  #: 100 * major + minor
    plan_class: str
    jobs_per_day: int  #: before it is multiplied by processors; 1 after many bad results
    full_quota: int
    sent_today: int
    bad_results: int  #: more than valid ones since
    next_quota_seconds: float  #: until more may be sent, if today's are used up
    throttled: bool  #: bad results leave it one task a day, or less
    reliable: bool  #: gets tasks that others failed to return
    valid_in_a_row: int
    check_probability: float  #: adaptive replication: of its tasks that others compute too; 1 for other apps


@dataclass(frozen=True, slots=True, kw_only=True)
class HostStatus:
    """How a host stands with the project."""

    versions: tuple[VersionStatus, ...] = ()
    problems: tuple[Reason, ...] = ()  #: what its owner should know, most important first; empty: all is well


def host_status(
    host: Host,
    records: Iterable[HostAppVersion],
    versions: Iterable[AppVersion],
    apps: Mapping[AppId, App],
    *,
    limits: DispatchLimits,
    now: float,
) -> HostStatus:
    """How a host stands, from its records; versions that are not in use any more are left out."""
    known = {version.id: version for version in versions}
    found: list[VersionStatus] = []
    problems: list[Reason] = []
    if host.blocked_reason:
        problems.append(explain(Code.BLOCKED, why=host.blocked_reason))
    if lacks_interpreter(host, now=now):
        problems.append(
            reason(
                Code.NO_PYTHON,
                "The project's applications that run on every system need Python 3.6 or newer, and a task found none on "
                "this computer. Install Python 3 so that it is in the search path, then say so on the computer's page of "
                "this project; without that the project tries again in a week.",
            )
        )
    for record in records:
        version = known.get(record.app_version_id)
        app = None if version is None else apps.get(version.app_id)
        if version is None or app is None or app.deprecated or version.deprecated:
            continue
        status = _version_status(record, version, app, limits, now)
        found.append(status)
        if status.throttled:
            problems.append(
                reason(
                    "host_throttled",
                    "{bad} tasks of {app} failed on this computer, were wrong or came too late, so it gets one a day, or "
                    "less, until one is right. Look at the failed tasks: their messages say what is wrong.",
                    app=app.title,
                    bad=record.bad_results,
                )
            )
    return HostStatus(versions=tuple(found), problems=tuple(problems))


def _version_status(
    record: HostAppVersion, version: AppVersion, app: App, limits: DispatchLimits, now: float
) -> VersionStatus:
    full = limits.daily_quota
    initial = app.dispatch.max_jobs_per_day_init or limits.daily_quota_init
    today = quota.for_today(record, daily_quota=full, initial=initial, now=now)
    return VersionStatus(
        app=app.title,
        version_num=version.version_num,
        plan_class=version.plan_class,
        jobs_per_day=quota.jobs_per_day(today, full),
        full_quota=full,
        sent_today=today.n_jobs_today,
        bad_results=today.bad_results,
        next_quota_seconds=quota.seconds_to_next_quota(today, daily_quota=full, now=now),
        throttled=quota.is_throttled(today, full),
        reliable=is_reliable(today, rules=limits.retries, daily_quota=full),
        valid_in_a_row=today.consecutive_valid,
        check_probability=spot_check_probability(today.consecutive_valid) if app.dispatch.adaptive else 1.0,
    )
