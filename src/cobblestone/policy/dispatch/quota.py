"""Daily quota of a host and app version.

A host starts with the full quota Q (jobs per CPU and day), loses one with each failure down to one a day, and
doubles with each success up to Q. So a broken host quickly gets one job a day, and a mended one is back
within a few jobs.

Source: BOINC's ``sched_result.cpp``, ``sched_send.cpp``, ``handle_request.cpp`` (facts). Difference: a valid
result never raises the quota above Q, where the family lets it grow without end.
"""

from __future__ import annotations

from dataclasses import replace

from cobblestone.domain.hosts import HostAppVersion
from cobblestone.domain.ids import HostId
from cobblestone.domain.statistics import SECONDS_PER_DAY

_GOLDEN = 2654435761  # Knuth's multiplier: neighbouring host ids land far apart


def day_shift(host_id: HostId) -> float:
    """Seconds by which this host's day begins before midnight, so that not all hosts come at once."""
    return (host_id * _GOLDEN % 2**32) / 2**32 * SECONDS_PER_DAY


def quota_day(host_id: HostId, now: float) -> int:
    """Number of the host's day that ``now`` (Unix seconds) belongs to."""
    return int((now + day_shift(host_id)) // SECONDS_PER_DAY)


def seconds_to_next_day(host_id: HostId, now: float) -> float:
    """Seconds until the host's next day begins."""
    return SECONDS_PER_DAY - (now + day_shift(host_id)) % SECONDS_PER_DAY


def jobs_per_day(record: HostAppVersion, daily_quota: int) -> int:
    """The record's quota before it is multiplied by processors: 1 to Q."""
    if record.max_jobs_per_day <= 0:
        return max(daily_quota, 1)
    return max(min(record.max_jobs_per_day, daily_quota), 1)


def for_today(record: HostAppVersion, *, daily_quota: int, now: float) -> HostAppVersion:
    """The record as it stands today: quota initialised and bounded, count reset when a new day began."""
    day = quota_day(record.host_id, now)
    quota = jobs_per_day(record, daily_quota)
    if record.quota_day == day and record.max_jobs_per_day == quota:
        return record
    count = record.n_jobs_today if record.quota_day == day else 0
    return replace(record, max_jobs_per_day=quota, n_jobs_today=count, quota_day=day)


def daily_limit(record: HostAppVersion, *, daily_quota: int, processors: float) -> int:
    """Jobs that the host may get today; ``processors`` is CPUs, or GPUs times their weight.

    A quota of one is one job, not one per CPU.
    """
    quota = jobs_per_day(record, daily_quota)
    return quota if quota == 1 else max(int(quota * processors), 1)


def after_success(record: HostAppVersion, daily_quota: int) -> HostAppVersion:
    """The record after a result was reported as a success."""
    return replace(record, max_jobs_per_day=max(min(2 * jobs_per_day(record, daily_quota), daily_quota), 1))


def after_failure(record: HostAppVersion, daily_quota: int) -> HostAppVersion:
    """The record after a result was reported as an error, or timed out."""
    quota = max(jobs_per_day(record, daily_quota) - 1, 1)
    return replace(record, max_jobs_per_day=quota, consecutive_valid=0)


def after_valid(record: HostAppVersion, daily_quota: int) -> HostAppVersion:
    """The record after a result was found valid.

    Whether ``consecutive_valid`` grows is the validator's business.
    """
    return replace(record, max_jobs_per_day=quota_after_valid(record.max_jobs_per_day, daily_quota))


def quota_after_valid(max_jobs_per_day: int, daily_quota: int) -> int:
    """The unscaled quota after a result was found valid; 0 is a quota that was not initialised."""
    return (
        min(max_jobs_per_day, daily_quota) + 1 if 0 < max_jobs_per_day < daily_quota else max(daily_quota, 1)
    )


def after_permanent_failure(record: HostAppVersion) -> HostAppVersion:
    """The record after a failure that will not go away by itself: one job a day, and today's is used up."""
    return replace(record, max_jobs_per_day=1, n_jobs_today=max(record.n_jobs_today, 1), consecutive_valid=0)
