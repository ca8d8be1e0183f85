"""What holds a host back, why computers do not take a job, and whether there are enough people for its quorum.

How a host stands with the project: what holds it back, and how much it is trusted.  For its owner and for operators.

The same values are shown on pages, sent as notices and printed by ``cobblestone explain host``.

Whether the people at hand are enough for the quorum of a job.

Each result of a job goes to another person (or another computer, as the project's rules say), and with homogeneous
redundancy or one version for all, only to computers that compute alike.  So a quorum may be out of reach though computers
wait for work.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from cobblestone.domain.apps import App, AppVersion
from cobblestone.domain.hosts import Host, HostAppVersion, VersionStatus
from cobblestone.domain.reasons import Reason, reason
from cobblestone.domain.values import HostId, UserId, value
from cobblestone.policy.dispatch import limits as quota
from cobblestone.policy.dispatch.catalogue import Catalogue
from cobblestone.policy.dispatch.explain import PASSING, Code, explain
from cobblestone.policy.dispatch.limits import DispatchLimits, is_reliable, spot_check_probability
from cobblestone.policy.dispatch.versions import lacks_interpreter


@dataclass(frozen=True, slots=True, kw_only=True)
class HostStatus:
    """The state of a host at the project."""

    versions: tuple[VersionStatus, ...] = ()
    problems: tuple[Reason, ...] = ()  #: what its owner should know, most important first; empty: all is well


def host_status(
    host: Host, records: Iterable[HostAppVersion], catalogue: Catalogue, *, limits: DispatchLimits, now: float
) -> HostStatus:
    """Return the state of a host, from its records; versions no longer in use are left out."""
    found: list[VersionStatus] = []
    problems: list[Reason] = []
    if host.blocked_reason:
        problems.append(explain(Code.BLOCKED, why=host.blocked_reason))
    if lacks_interpreter(host, now=now):
        problems.append(
            reason(
                Code.NO_PYTHON,
                "The project's applications that run on every system need Python 3.6 or newer, and a "
                "task found none on this computer. Install Python 3 in the search path, then confirm "
                "it on this computer's page at the project. Otherwise the project tries again in a "
                "week.",
            )
        )
    for record in records:
        version = catalogue.version_of.get(record.app_version_id)
        app = None if version is None else catalogue.apps.get(version.app_id)
        if version is None or app is None or app.deprecated or version.deprecated:
            continue
        status = _version_status(record, version, app, limits, now)
        found.append(status)
        if status.throttled:
            problems.append(
                reason(
                    "host_throttled",
                    "{bad} {bad:task|tasks} of {app} failed on this computer, {bad:was|were} wrong or came too late, so it "
                    "gets at most one a day until one is right. Look at the failed tasks: their "
                    "messages say what is wrong.",
                    app=app.title,
                    version=version.id,
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
        valid_in_a_row=today.statistics.consecutive_valid,
        check_probability=spot_check_probability(today.statistics.consecutive_valid)
        if app.dispatch.adaptive and not quota.failed_lately(today)
        else 1.0,
    )


#: The code of a computer that the job is not meant for.
OTHER_TARGET = "other_target"

_BUSY = "they have reached their limit of tasks for now; they can take it later"
_FAILING = "too many tasks of this app failed on them, so they get few; they can take it later"
_OTHER_WORK = "they want other work, or none, at the moment; they can take it later"

SENTENCES: dict[str, str] = {
    **dict.fromkeys(map(str, PASSING), _BUSY),
    **dict.fromkeys((Code.QUOTA_PAUSED, Code.QUOTA_FAILING), _FAILING),
    **dict.fromkeys((Code.NOT_REQUESTED, Code.TYPE_NOT_REQUESTED), _OTHER_WORK),
    Code.TOO_RECENT: "they asked a moment ago; they can take it later",
    Code.UNPROVEN: "they are new to the app's version and hold as much as new computers may; they can take it later",
    OTHER_TARGET: "the job is for another computer, user or team",
    Code.DEADLINE: "they would be late for now: extend the deadline (--delay-bound)",
    Code.DEADLINE_OF_OTHERS: "they have too much other work to be in time; they can take it later",
    Code.RETRY_RESERVED: "an earlier result failed or was not returned, so it is reserved for proven computers for a "
    "while; they can take it later",
    Code.NOT_ROLLED_OUT: "the app's newest version is sent to a part of the computers first; they can take it later",
    Code.BLOCKED: "the project has blocked them",
    Code.ANONYMOUS_PLATFORM: "their clients bring their own applications, none for this app",
    Code.NO_APPS: "the app has no version that can be sent",
    Code.PLATFORM: "the app has no version for their kind of computer: cobblestone app version add",
    Code.APP_PLATFORM: "the app has no version for their kind of computer: cobblestone app version add",
    Code.DISK: "they leave less disk to the client than the job may use ({need_gb} GB): lower the app's --disk",
    Code.MEMORY: "they have less memory for the client than the job needs ({need_mb} MB): lower the app's --memory",
    Code.BANDWIDTH: "their connection is slower than the app requires ({need_kb} kB/s)",
    Code.ALREADY_AT_USER: "their owner has, or had, a result of this job; each must come from another person",
    Code.ALREADY_AT_HOST: "they have, or had, a result of this job; each must come from another computer",
    Code.HR_CLASS: "they differ from the computer that has the job's first result (--homogeneous)",
    Code.HR_UNKNOWN: "their kind of processor is not known, so they cannot be compared with others (--homogeneous)",
    Code.PREFERENCES_EXCLUDE: "their owners do not allow {subject} work",
    Code.GPU_MISSING: "they have no GPU of type {wanted}",
    Code.GPU_COUNT: "they have too few GPUs of type {wanted} ({need} are needed)",
    Code.GPU_MEMORY: "their GPU has too little memory ({need_mb} MB are needed)",
    Code.GPU_DRIVER: "their GPU driver is older than {need}",
    Code.BROWSER_TIME: "they are browsers, for which the job would take too long: use smaller jobs, or a smaller "
    "--flops-est",
    Code.BROWSER_ALONE: "they are browsers, which are never trusted alone: the app's --quorum must be 2 or more",
    Code.AT_A_BROWSER: "they are browsers, and one of them or their owner has, or had, a result of this job",
    Code.NETWORK_SHARE: "they are browsers in a network that holds half of the jobs already",
    Code.NO_PYTHON: "they have no Python 3.6 or newer",
    Code.CPU_FEATURE: "their processor lacks {wanted}",
    Code.CPU_COUNT: "they have fewer than {need} processors for the client",
    Code.CPU_VENDOR: "the plan class requires another make of processor",
    Code.OPERATING_SYSTEM: "the plan class requires another operating system, or another version of it",
    Code.HOST_MEMORY: "they have less than {need_mb} MB of memory, which the plan class requires",
    Code.VIRTUALBOX: "they have no VirtualBox",
    Code.DOCKER: "they have neither Docker nor Podman",
    Code.DOCKER_CLIENT: "their client is too old for Docker",
    Code.NO_PLAN_CLASSES: "their client is too old for plan classes",
    Code.CLIENT_TOO_OLD: "their client is older than the app version requires ({need})",
    Code.CLIENT_TOO_NEW: "their client is newer than the app version allows ({need})",
    Code.BETA_VERSION: "the app has a test version for them, and their owners do not allow these",
    Code.UNWANTED: "their owners refuse a subject or place of the app",
    Code.BETA_APP: "it is a test application, and their owners do not allow these",
    Code.PLAN_CLASS_UNKNOWN: "the plan class {wanted} of the app's version is not defined",
    Code.PLAN_CLASS_BROKEN: "the plan class {wanted} has an invalid pattern",
    Code.NEEDS_64_BIT: "they only run 32-bit programs, and the job needs more memory than these can use",
    Code.UNSIGNED: "the app's version for them is not signed: cobblestone key sign",
    Code.APP_NOT_SELECTED: "their owners did not select this app",
    Code.COMMITTED_VERSION: "the job's results must all use one app version, which does not run on them (--one-version)",
    Code.NO_TASKS_OF_TYPE: "they accept no tasks for this kind of processor",
    Code.NO_TASKS: "the app is deprecated, or has no version",
}


def for_submitter(refusal: Reason) -> str:
    """Return why computers do not take a job, as part of a sentence about them."""
    return SENTENCES[refusal.code].format_map(dict(refusal.values))


_IN_PROGRESS = "scheduler.max_jobs_in_progress and scheduler.max_gpu_jobs_in_progress"
DECIDED_BY: dict[str, str] = {
    Code.BLOCKED: "lift the block: cobblestone host unblock",
    Code.TOO_RECENT: "scheduler.min_sendwork_interval",
    Code.HELD_TOTAL: "scheduler.max_jobs_on_host",
    Code.HELD_OF_TYPE: _IN_PROGRESS,
    **dict.fromkeys(
        (Code.HELD_OF_APP, Code.HELD_OF_APP_AND_TYPE, Code.PER_REQUEST_OF_APP), "cobblestone app dispatch"
    ),
    **dict.fromkeys((Code.QUOTA, Code.QUOTA_FAILING, Code.QUOTA_PAUSED), "scheduler.daily_result_quota"),
    Code.UNPROVEN: "scheduler.max_jobs_per_day_init, or cobblestone app dispatch --first-day",
    Code.PER_REQUEST: "scheduler.max_jobs_per_rpc",
    Code.DEADLINE: "the app's --delay-bound",
    Code.DEADLINE_OF_OTHERS: "scheduler.workload_sim",
    **dict.fromkeys((Code.ALREADY_AT_USER, Code.ALREADY_AT_HOST), "scheduler.one_result_per_user"),
    Code.RETRY_RESERVED: "scheduler.retries_to_reliable_hosts",
    **dict.fromkeys((Code.PLAN_CLASS_UNKNOWN, Code.PLAN_CLASS_BROKEN), "plan_classes.toml"),
    Code.UNSIGNED: "cobblestone key sign",
    Code.NOT_ROLLED_OUT: "cobblestone app version rollout",
    **dict.fromkeys((Code.NO_APPS, Code.PLATFORM, Code.APP_PLATFORM), "cobblestone app version add"),
}


def for_operator(code: str) -> str:
    """Return the setting or command that decides it; for all else the computer, its owner's choice or the job's own needs do."""
    return DECIDED_BY.get(code, "no setting of the project")


#: A computer that called within this time is at hand: clients that want work call at least once a day.
AT_HAND_SECONDS = 7 * 86400.0


@value(kw_only=True)
class Taker:
    """A computer that could take a job, now or after a while."""

    host_id: HostId
    user_id: UserId
    alike: tuple[int, int] = (0, 0)  #: class and version: results of one job go to computers that share them


@value(kw_only=True)
class Shortage:
    """A quorum that is out of reach."""

    needed: int  #: answers that must still come, each of someone else
    found: int  #: people (or computers) who could give one
    by_person: bool  #: whether they are people


def could_take(given: bool, refusals: Collection[Reason]) -> bool:
    """Return whether a computer takes such jobs, if not now, then when what it holds is done or a day has passed."""
    return given or (bool(refusals) and all(each.code in PASSING for each in refusals))


def shortage(
    takers: Iterable[Taker],
    *,
    needed: int,
    limits: DispatchLimits,
    served: Collection[UserId | HostId] = frozenset(),
) -> Shortage | None:
    """Return what is missing to get ``needed`` more answers from ``takers``; None if there are enough.

    ``served``: who has had a result of the job (people, or computers if the rules tell these apart only).  ``takers`` are
    read no further than needed.
    """
    by_person = limits.one_result_per_user_per_wu
    apart = by_person or limits.one_result_per_host_per_wu
    required = needed if apart else min(needed, 1)
    if required <= 0:
        return None
    alike: dict[tuple[int, int], set[UserId | HostId]] = defaultdict(set)
    for taker in takers:
        who = taker.user_id if by_person else taker.host_id
        if not apart or who not in served:
            alike[taker.alike].add(who)
            if len(alike[taker.alike]) >= required:
                return None
    found = max(map(len, alike.values()), default=0)
    return Shortage(needed=required, found=found, by_person=by_person)
