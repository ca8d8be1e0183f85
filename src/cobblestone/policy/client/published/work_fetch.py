"""When to ask which project for how much work, and when to report (published family: WF1, WF2).

Source: Kondo et al. 2007, 2.2; BOINC's ``work_fetch`` of 2007 (``compute_work_requests``,
``next_project_need_work``, ``find_project_with_overdue_results``).
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cobblestone.domain.values import DAY, float_sum, value
from cobblestone.policy.client.core.reasons import Why, why
from cobblestone.policy.client.estimates import DCF_TRUSTED
from cobblestone.policy.client.published.debts import is_overworked
from cobblestone.policy.client.published.round_robin import RoundRobinOutcome

#: The client looks at work fetch at most this often (seconds) without being asked.
FETCH_PERIOD = 60.0
#: ... and at most this often while jobs in deadline trouble hold it back.
TROUBLE_PERIOD = 900.0


class Urgency(enum.IntEnum):
    """How urgently the client needs work."""

    DONT_NEED = 0
    OK = 1
    NEED = 2
    NEED_IMMEDIATELY = 3


@value(kw_only=True)
class FetchPreferences:
    """The parts of the host and the volunteer's preferences that work fetch looks at."""

    ncpus: int
    slice_seconds: float = 3600.0
    buffer_min: float = 8640.0  #: seconds
    buffer_additional: float = 21600.0
    buffer_total: float = field(init=False)  #: seconds of work that the client wants to hold

    def __post_init__(self) -> None:
        # worked out once: it is looked at in every decision
        object.__setattr__(self, "buffer_total", max(1.0, self.buffer_min + self.buffer_additional))


@dataclass(slots=True)
class FetchProject:
    """The attributes of a project that work fetch uses."""

    share: float
    contactable: bool  #: not suspended, no master file pending, backoff over, new work allowed
    long_term_debt: float
    dcf: float = 1.0
    queued: int = 0  #: (nearly) runnable jobs
    queued_seconds: float = 0.0  #: sum of their estimated remaining CPU time
    uploading: int = 0
    blocked: bool = False  #: a stalled download or a job suspended by the user


@value()
class FetchPlan:
    """The project to ask for how many CPU seconds (``project`` is None: no project), and why."""

    project: int | None
    seconds: float
    urgency: Urgency
    reasons: tuple[Why, ...] = ()
    others: Mapping[int, float] = field(default_factory=dict[int, float])
    """What further projects would be asked for, should they be contacted for another reason."""


#: Work is not needed.
NOBODY = FetchPlan(None, 0.0, Urgency.DONT_NEED)


def fetch_by_queue(
    projects: Sequence[FetchProject],
    shortfalls: Sequence[float],
    *,
    prefs: FetchPreferences,
    explain: bool = False,
) -> FetchPlan:
    """WF1: keep a queue per project in proportion to its share; deadlines play no part.

    ``shortfalls`` are those of the last round-robin simulation; together with the debt they decide whom to
    ask first.  A project with a share always has a job, also where the buffer is so small that its target is nothing.
    """
    total_share = float_sum(p.share for p in projects)
    best: int | None = None
    reasons: list[Why] = []
    best_score = -math.inf
    needs: dict[int, float] = {}
    for i, p in enumerate(projects):
        fair = p.share / total_share if total_share > 0 else 1.0
        target = prefs.ncpus * (prefs.buffer_min + prefs.buffer_additional) * fair
        need = target - p.queued_seconds
        if need <= 0.0 and not p.queued and p.share > 0.0:
            need = 1.0
        if explain:
            reasons.append(why("fetch.queue", project=i, need=need, target=target))
        if need <= 0:
            continue
        needs[i] = need
        if p.contactable and p.long_term_debt + shortfalls[i] >= best_score:
            best, best_score = i, p.long_term_debt + shortfalls[i]
    if best is None:
        return FetchPlan(None, 0.0, Urgency.DONT_NEED, tuple(reasons), needs)
    return FetchPlan(best, needs.pop(best), Urgency.NEED, tuple(reasons), needs)


def overall_urgency(
    projects: Sequence[FetchProject], outcome: RoundRobinOutcome, *, prefs: FetchPreferences
) -> Urgency:
    """Return how urgently the host as a whole needs work."""
    if outcome.shortfall <= 0.0:
        if any(outcome.misses):
            return Urgency.DONT_NEED
        floor = -prefs.slice_seconds
        for p, missing in zip(projects, outcome.shortfalls, strict=True):
            if missing > 0.0 and p.long_term_debt > floor:
                break
        else:
            return Urgency.DONT_NEED
    if sum(p.queued for p in projects) < prefs.ncpus:
        return Urgency.NEED_IMMEDIATELY
    return Urgency.NEED if outcome.shortfall > 0.0 else Urgency.OK


def fetch_by_shortfall(
    projects: Sequence[FetchProject],
    outcome: RoundRobinOutcome,
    *,
    prefs: FetchPreferences,
    misses: Sequence[int] | None = None,
    order_dependent: bool = False,
    explain: bool = False,
) -> FetchPlan:
    """WF2: ask at most one project, the one that is owed most and not in deadline trouble, for its part of
    the shortfall.

    ``misses`` may stand in for the outcome's when projects are compared (the client of 2007 used those of
    its last scheduling pass).  ``order_dependent``: a later project is passed over if it is in worse
    trouble than the best so far, but gains nothing by being in less (as in 2007).
    """
    trouble = outcome.misses if misses is None else misses
    urgency = overall_urgency(projects, outcome, prefs=prefs)
    if urgency is Urgency.DONT_NEED:
        return FetchPlan(None, 0.0, urgency, _why_not(outcome)) if explain else NOBODY
    reasons: list[Why] = []
    best = -1
    best_key = (False, False, False, 0.0)
    best_missing = 0.0
    for i, p in enumerate(projects):
        missing = outcome.shortfalls[i]
        no = _ruled_out(p, trouble[i], missing, urgency, prefs)
        if no is None and not DCF_TRUSTED[0] <= p.dcf <= DCF_TRUSTED[1]:
            if p.queued:
                no = "fetch.dcf"
            else:
                missing = 1.0
        if no is not None:
            if explain:
                reasons.append(_why_ruled_out(no, i, p, trouble[i]))
            continue
        key = (
            p.share > 0.0,
            not trouble[i],
            not is_overworked(p.long_term_debt, slice_seconds=prefs.slice_seconds),
            p.long_term_debt + missing,
        )
        better = (
            key >= best_key
            if not order_dependent
            else all(mine >= top for mine, top in zip(key, best_key, strict=True))
        )
        if best < 0 or better:
            best, best_key, best_missing = i, key, missing
    if best < 0:
        return FetchPlan(None, 0.0, urgency, tuple(reasons))
    seconds = _request(projects, best, best_missing, outcome.shortfall, prefs)
    if explain:
        reasons.append(why("fetch.chosen", project=best, seconds=seconds))
    return FetchPlan(best, seconds, urgency, tuple(reasons))


def _ruled_out(
    p: FetchProject, misses: int, missing: float, urgency: Urgency, prefs: FetchPreferences
) -> str | None:
    """Return the code of the reason why a project is not asked, None if it may be."""
    if not p.contactable:
        return "fetch.not_contactable"
    if p.share <= 0.0 and urgency is not Urgency.NEED_IMMEDIATELY:
        return "fetch.backup"
    if misses >= prefs.ncpus and urgency is not Urgency.NEED_IMMEDIATELY:
        return "fetch.misses"
    if p.blocked:
        return "fetch.blocked"
    if urgency < Urgency.NEED:
        if is_overworked(p.long_term_debt, slice_seconds=prefs.slice_seconds):
            return "fetch.overworked"
        if missing == 0.0:
            return "fetch.no_shortfall"
    if p.uploading > 2 * prefs.ncpus:
        return "fetch.uploads"
    return None


def _why_ruled_out(code: str, i: int, p: FetchProject, misses: int) -> Why:
    values = {
        "fetch.misses": {"misses": misses},
        "fetch.dcf": {"dcf": p.dcf},
        "fetch.uploads": {"uploading": p.uploading},
    }
    return why(code, project=i, **values.get(code, {}))


def _request(
    projects: Sequence[FetchProject], best: int, missing: float, shortfall: float, prefs: FetchPreferences
) -> float:
    fetchable = float_sum(
        p.share
        for p in projects
        if p.contactable and not is_overworked(p.long_term_debt, slice_seconds=prefs.slice_seconds)
    )
    factor = projects[best].share / fetchable if fetchable > 0 else 1.0
    seconds = max(missing, shortfall * factor)
    if seconds <= 0.0:
        return 1.0  # without a share: one job, for an idle processor
    return min(seconds, 1.01 * prefs.buffer_total * prefs.ncpus)


def _why_not(outcome: RoundRobinOutcome) -> tuple[Why, ...]:
    return (why("fetch.deadlines" if any(outcome.misses) else "fetch.full"),)


def report_due(*, report_deadline: float, completed_at: float, buffer_min: float) -> float:
    """Return the time from which on a finished job alone is reason enough to contact its project."""
    return min(report_deadline - max(DAY, buffer_min), completed_at + DAY)


def next_fetch_check(
    projects: Sequence[FetchProject],
    outcome: RoundRobinOutcome,
    *,
    prefs: FetchPreferences,
    cpu_fraction: float,
    running: Sequence[int],
    trouble_period: float = TROUBLE_PERIOD,
) -> float:
    """Return after how many seconds a look at work fetch may find something, if nothing else happens
    before.

    Between two events the fluid queues only drain, each at a pace that is known; the answer is half of the
    time that the first of them needs to fall below the buffer, and at least :data:`FETCH_PERIOD`.  Where
    jobs in trouble hold work fetch back, it is ``trouble_period``.  ``running`` counts running tasks
    per project.
    """
    horizon = prefs.buffer_total
    speed = min(1.0, max(0.01, cpu_fraction))
    troubled = any(outcome.misses)
    # with one project only the end of a job helps, and that is an event of its own
    pause = trouble_period if len(projects) > 1 else max(trouble_period, prefs.slice_seconds)
    if outcome.shortfall > 0.0:
        return pause if troubled else FETCH_PERIOD
    # with one project the pace is exact, but for a belief that drifts
    caution = 0.9 if len(projects) == 1 else 0.5
    wait = (outcome.idle_after - horizon) * caution * speed
    if troubled:
        return max(FETCH_PERIOD, min(wait, pause))
    floor = -prefs.slice_seconds
    total_share = float_sum([p.share for p in projects])
    for i, p in enumerate(projects):
        dry = outcome.dry_after[i] - horizon
        if p.long_term_debt <= floor:
            # debt is paid back at most at the project's own share of all processors
            pace = prefs.ncpus * p.share / total_share if total_share > 0 else 1.0
            owed = (floor - p.long_term_debt) / pace if pace > 0 else horizon
            dry = owed if owed > dry else dry
        elif dry <= 0.0 and outcome.shortfalls[i] == 0.0:
            dry = trouble_period  # below its share, but the model books that only when one of its jobs ends in time
        elif dry > 0.0 and running[i] and p.share > 0:
            pace = running[i] * total_share / (p.share * prefs.ncpus * speed)
            dry = caution * dry / pace if pace > 1.0 else caution * dry
        else:
            dry *= 0.5
        if dry < wait:
            wait = dry
    return wait if wait > FETCH_PERIOD else FETCH_PERIOD


def next_queue_check(
    projects: Sequence[FetchProject], *, prefs: FetchPreferences, running: Sequence[int]
) -> float:
    """Return after how many seconds a queue may fall below its target (WF1), if nothing else happens
    before.
    """
    total_share = float_sum([p.share for p in projects])
    wait = prefs.slice_seconds
    for p, busy in zip(projects, running, strict=True):
        fair = p.share / total_share if total_share > 0 else 1.0
        surplus = p.queued_seconds - prefs.ncpus * (prefs.buffer_min + prefs.buffer_additional) * fair
        if busy:
            wait = min(wait, 0.9 * surplus / busy)
    return max(FETCH_PERIOD, wait)
