"""Hosts that return right answers soon: they get the results that others failed to deliver.

A workunit whose result was lost has waited long already, and often it is the last one of its batch.  So its next result
may be kept for reliable hosts for some time, and may have a shorter deadline.

Source: BOINC's ``sched_send.cpp`` and ``sched_config`` (facts).  Difference: it is kept for them for a bounded time only,
so that a job does not wait for ever in a project without reliable hosts.
"""

from __future__ import annotations

from dataclasses import dataclass

from cobblestone.domain.hosts import HostAppVersion
from cobblestone.policy.dispatch.quota import jobs_per_day

MIN_CONSECUTIVE_VALID = 10
MIN_TURNAROUND_SAMPLES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRules:
    """How results are sent that follow a lost one."""

    reliable_seconds: float = 0.0  #: only to reliable hosts for so long; 0 = to anybody at once
    max_turnaround: float = 0.0  #: mean seconds until a reliable host returns a result; 0 = any
    delay_factor: float = 1.0  #: by which the deadline of a reliable host is shortened, 0 < factor <= 1


def is_reliable(record: HostAppVersion, *, rules: RetryRules, daily_quota: int) -> bool:
    """Whether this host returns right answers of this version, and soon."""
    slow = (
        rules.max_turnaround > 0
        and record.turnaround_n > MIN_TURNAROUND_SAMPLES
        and record.turnaround_avg > rules.max_turnaround
    )
    return (
        not slow
        and record.consecutive_valid >= MIN_CONSECUTIVE_VALID
        and jobs_per_day(record, daily_quota) >= daily_quota
    )


def shortened_delay(delay_bound: float, seconds: float, rules: RetryRules) -> float:
    """Seconds that a reliable host gets for a retry that takes it ``seconds``.

    The shortened bound; or twice the expected time, if that is more, as long as it is at most twice the shortened bound
    and not more than the full one; otherwise the full one.
    """
    short = delay_bound * rules.delay_factor
    if seconds * 2 <= short:
        return short
    return seconds * 2 if seconds * 2 <= min(delay_bound, 2 * short) else delay_bound
