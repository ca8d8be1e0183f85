"""Partial credit while a job runs, by trickle messages.

Source: wiki page *CreditAlt*; BOINC's trickle handler for credit (server-semantics: trickle credit): credit
= min(run time, limit) x Whetstone, the speed at most the 95th percentile of the hosts, the median when it
is unusable; for the recent average, the work began a day ago.

As the CreditNew design has it, and unlike the deployed handler, the message names its result: it must be in
progress on the host that sends it, and the run times of all its messages fit into the time since it was
sent.  The credit is provisional: at validation only the rest is granted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from cobblestone.domain.reasons import Reason, reason
from cobblestone.domain.statistics import SECONDS_PER_DAY
from cobblestone.policy.credit.bounds import MAX_SECONDS
from cobblestone.policy.credit.cobblestone import DEPLOYED, CreditUnit


@dataclass(frozen=True, slots=True, kw_only=True)
class TrickleFacts:
    """One message and the result that it names."""

    run_time: float  #: seconds since the last message, as reported
    p_fpops: float  #: Whetstone of the host, operations/s
    in_progress: bool  #: the result is in progress on the host that sent the message
    sent_time: float  #: of the result, Unix seconds
    credited_run_time: float = 0.0  #: seconds of it that earlier messages were granted for


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
    """What a trickle message is worth at ``now`` (Unix seconds); never an error, whatever the message
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
    speed = facts.p_fpops
    if not 0.0 < speed < math.inf:
        speed = rules.median_speed
        reasons.append(reason("speed_unknown", "No usable benchmark: the median speed {speed}.", speed=speed))
    elif speed > rules.percentile_95_speed:
        speed = rules.percentile_95_speed
        reasons.append(reason("speed_bounded", "Benchmark above 95 % of the hosts: {speed}.", speed=speed))
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
    return TrickleGrant(amount=amount, run_time=seconds, work_start=start, reasons=tuple(reasons))
