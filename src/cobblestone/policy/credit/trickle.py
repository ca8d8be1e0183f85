"""Partial credit while a job runs, by trickle messages.

Source: wiki page *CreditAlt*; BOINC's trickle handler for credit (server-semantics: trickle credit): credit
= min(run time, limit) x Whetstone, the speed at most the 95th percentile of the hosts, the median when it
is unusable; for the recent average, the work began a day ago.

As the CreditNew design has it, and unlike the deployed handler, the message names its result: it must be in
progress on the host that sends it, and the run times of all its messages fit into the time since it was
sent.  All of them bring at most what the job's bound is worth, and all messages of a host at most what its processors can
have earned since it first called, or in a week.  The credit is provisional: at validation only the rest is granted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from cobblestone.domain.reasons import Reason, reason
from cobblestone.domain.statistics import SECONDS_PER_DAY
from cobblestone.policy.credit.bounds import MAX_PROCESSORS, MAX_SECONDS
from cobblestone.policy.credit.cobblestone import DEPLOYED, CreditUnit


@dataclass(frozen=True, slots=True, kw_only=True)
class TrickleFacts:
    """One message and the result that it names."""

    run_time: float  #: seconds since the last message, as reported
    p_fpops: float  #: Whetstone of the host, operations/s
    in_progress: bool  #: the result is in progress on the host that sent the message
    sent_time: float  #: of the result, Unix seconds
    credited_run_time: float = 0.0  #: seconds of it that earlier messages were granted for
    most_credit: float = math.inf  #: what the job's rsc_fpops_bound is worth
    credited: float = 0.0  #: what earlier messages of the job brought
    host_most_credit: float = math.inf  #: what the host's processors can have earned in `HOST_WINDOW`
    host_credited: float = 0.0  #: what messages of all its jobs brought it in that time


HOST_WINDOW = 7 * SECONDS_PER_DAY
"""Time over which the messages of all jobs of a host are added up, seconds."""


def host_allowance(
    *, ncpus: float, speed: float, known_since: float, rules: TrickleRules, unit: CreditUnit, now: float
) -> float:
    """Most credit that messages of a host may have brought in the last `HOST_WINDOW`: all of its processors, all the time.

    ``known_since`` is when the host first called (Unix seconds); a message may speak of the time before the window.
    """
    seconds = max(0.0, min(now - known_since, HOST_WINDOW + rules.max_run_time))
    counted = min(max(1.0, ncpus), MAX_PROCESSORS)
    return unit.of_flops(seconds * counted * _speed(speed, rules)[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class TrickleRules:
    """Limits of partial credit, chosen per app."""

    max_run_time: float = SECONDS_PER_DAY  #: seconds of one message
    median_speed: float = 3.3e9  #: of the project's active hosts, operations/s
    percentile_95_speed: float = 3.3e9


@dataclass(frozen=True, slots=True, kw_only=True)
class TrickleGrant:
    """Provisional credit of one message."""

    amount: float
    run_time: float  #: seconds that were granted for
    work_start: float  #: for the recent average, Unix seconds
    reasons: tuple[Reason, ...] = ()


def grant_trickle(
    facts: TrickleFacts, rules: TrickleRules, *, unit: CreditUnit = DEPLOYED, now: float
) -> TrickleGrant:
    """Return what a trickle message is worth at ``now`` (Unix seconds); never an error, whatever the message
    says."""
    start = now - SECONDS_PER_DAY
    if not facts.in_progress:
        why = reason("not_in_progress", "The result is not in progress on this host: nothing is granted.")
        return TrickleGrant(amount=0.0, run_time=0.0, work_start=start, reasons=(why,))
    if not 0.0 < facts.run_time < math.inf:
        why = reason(
            "number_refused", "Run time {value} is unusable: nothing is granted.", value=str(facts.run_time)
        )
        return TrickleGrant(amount=0.0, run_time=0.0, work_start=start, reasons=(why,))
    reasons: list[Reason] = []
    possible = max(0.0, min(now - facts.sent_time, MAX_SECONDS) - facts.credited_run_time)
    seconds = min(facts.run_time, rules.max_run_time, possible)
    if seconds < facts.run_time:
        reasons.append(
            reason(
                "run_time_bounded",
                "Run time {value} s counts as {limit} s: at most {most} s a message, {possible} s since it was sent.",
                value=facts.run_time,
                limit=seconds,
                most=rules.max_run_time,
                possible=possible,
            )
        )
    speed, why_speed = _speed(facts.p_fpops, rules)
    reasons += why_speed
    amount = unit.of_flops(seconds * speed)
    reasons.append(
        reason(
            "trickle",
            "{amount}: {seconds} s x {speed} per second.",
            amount=amount,
            seconds=seconds,
            speed=speed,
        )
    )
    for most, before, why in (
        (
            facts.most_credit,
            facts.credited,
            reason(
                "beyond_bound",
                "The job's bound is worth {most}, of which messages brought {before}.",
                most=facts.most_credit,
                before=facts.credited,
            ),
        ),
        (
            facts.host_most_credit,
            facts.host_credited,
            reason(
                "beyond_wall_time",
                "The host's processors can have earned {most} in a week, of which messages brought {before}.",
                most=facts.host_most_credit,
                before=facts.host_credited,
            ),
        ),
    ):
        if amount > most - before:
            amount = max(0.0, most - before)
            reasons.append(why)
    return TrickleGrant(amount=amount, run_time=seconds, work_start=start, reasons=tuple(reasons))


def _speed(p_fpops: float, rules: TrickleRules) -> tuple[float, list[Reason]]:
    """Speed that counts, and why it is not the reported one."""
    if not 0.0 < p_fpops < math.inf:
        speed = rules.median_speed
        return speed, [reason("speed_unknown", "No usable benchmark: the median speed {speed}.", speed=speed)]
    if p_fpops > rules.percentile_95_speed:
        speed = rules.percentile_95_speed
        return speed, [reason("speed_bounded", "Benchmark above 95 % of the hosts: {speed}.", speed=speed)]
    return p_fpops, []
