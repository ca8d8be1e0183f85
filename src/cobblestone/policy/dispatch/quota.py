"""Daily quota of a host and app version: what a host that wastes jobs may waste.

Two numbers of the record decide.  ``max_jobs_per_day`` is what the host has *earned*: a new one begins with I jobs per
processor and day (``max_jobs_per_day_init``), each success doubles it, up to Q (``daily_result_quota``).  Successes that
nobody has checked yet bring four times I at most, for the rest they have to be valid.  ``bad_results`` counts results
that failed, were invalid or did not come in time, less one for each valid result since.  It halves the
quota each time::

    jobs per day = min(earned, Q >> bad_results), at least 1

With Q = 500 eight bad results more than valid ones leave one job a day.  If that one is bad too, the host pauses: the next
comes after 2, 4, then every 8 days.  One valid result ends the pauses and the quota doubles with each further one, so a
repaired host is back within a few jobs.  A reported success raises the quota only as long as nothing bad is on record: a
host whose results look fine and are invalid is throttled like one that crashes.

What a bad host can waste, per app version and of short jobs (`wasted_at_most`): a host that never worked, I jobs per
processor, once, and one job per pause.  A host that worked before, what it holds, `HALVINGS` more, and one per pause.

Source: BOINC's ``sched_result.cpp``, ``sched_send.cpp``, ``handle_request.cpp`` (facts).  Differences: the family
subtracts one per failure, so that a host with Q = 500 and 16 processors may waste some 8 000 jobs on its first day; its
invalid results cost nothing below Q; and it knows no pauses.
"""

from __future__ import annotations

import math

from cobblestone.domain.hosts import HostAppVersion
from cobblestone.domain.ids import HostId
from cobblestone.domain.statistics import SECONDS_PER_DAY
from cobblestone.domain.values import changed

_GOLDEN = 2654435761  # Knuth's multiplier: neighbouring host ids land far apart

UNCHECKED = 4  #: times its first quota: what a host can earn by successes of which none was found valid yet
_PAUSES = 3  # doublings of a day


def day_shift(host_id: HostId) -> float:
    """Seconds by which this host's day begins before midnight, so that not all hosts come at once."""
    return (host_id * _GOLDEN % 2**32) / 2**32 * SECONDS_PER_DAY


def quota_day(host_id: HostId, now: float) -> int:
    """Return number of the host's day that ``now`` (Unix seconds) belongs to."""
    return math.floor((now + day_shift(host_id)) // SECONDS_PER_DAY)


def halvings(daily_quota: int) -> int:
    """Bad results that bring a quota down to one job a day."""
    return max(daily_quota.bit_length() - 1, 0)


def pause_days(record: HostAppVersion, daily_quota: int) -> int:
    """Days that pass until the host's count begins anew: 1, or more for one that keeps failing."""
    beyond = record.bad_results - halvings(daily_quota)
    return 2 ** min(beyond, _PAUSES) if beyond > 0 else 1


def seconds_to_next_day(host_id: HostId, now: float) -> float:
    """Seconds until the host's next day begins."""
    return SECONDS_PER_DAY - (now + day_shift(host_id)) % SECONDS_PER_DAY


def seconds_to_next_quota(record: HostAppVersion, *, daily_quota: int, now: float) -> float:
    """Seconds until the host's count begins anew."""
    days = record.quota_day + pause_days(record, daily_quota) - quota_day(record.host_id, now) - 1
    return seconds_to_next_day(record.host_id, now) + max(days, 0) * SECONDS_PER_DAY


def jobs_per_day(record: HostAppVersion, daily_quota: int, initial: int = 0) -> int:
    """Return the record's quota before it is multiplied by processors: 1 to Q.  ``initial`` 0: a new host begins with Q."""
    earned = record.max_jobs_per_day if record.max_jobs_per_day > 0 else initial or daily_quota
    return max(min(earned, daily_quota >> min(record.bad_results, 60)), 1)


def for_today(record: HostAppVersion, *, daily_quota: int, initial: int = 0, now: float) -> HostAppVersion:
    """Return the record as it stands today: quota initialised and bounded, count reset when a new day (or pause) is over."""
    day = quota_day(record.host_id, now)
    over = record.quota_day > day or day >= record.quota_day + pause_days(record, daily_quota)
    earned = record.max_jobs_per_day if record.max_jobs_per_day > 0 else initial or daily_quota
    earned = max(min(earned, daily_quota), 1)
    if not over and record.max_jobs_per_day == earned:
        return record
    if not over:
        return changed(record, max_jobs_per_day=earned)
    return changed(record, max_jobs_per_day=earned, n_jobs_today=0, quota_day=day)


def daily_limit(record: HostAppVersion, *, daily_quota: int, processors: float) -> int:
    """Jobs that the host may get today; ``processors`` is CPUs, or GPUs times their weight.

    What bad results leave at last is one job, not one per CPU.
    """
    quota = jobs_per_day(record, daily_quota)
    return 1 if quota == 1 and record.bad_results else max(math.floor(quota * processors), 1)


def after_success(record: HostAppVersion, daily_quota: int, initial: int = 0) -> HostAppVersion:
    """Return the record after a result was reported as a success; its answer may still turn out to be wrong."""
    most = min(daily_quota, UNCHECKED * initial) if initial else daily_quota
    if record.bad_results or record.max_jobs_per_day >= most > 0:
        return record
    return changed(record, max_jobs_per_day=_doubled(record.max_jobs_per_day, most))


def after_failure(record: HostAppVersion, daily_quota: int) -> HostAppVersion:
    """Return the record after a result was reported as an error, timed out, or was invalid."""
    bad = bad_after_failure(record.bad_results, record.n_jobs_today, daily_quota)
    return changed(record, bad_results=bad, consecutive_valid=0)


def after_valid(record: HostAppVersion, daily_quota: int) -> HostAppVersion:
    """Return the record after a result was found valid.

    Whether ``consecutive_valid`` grows is the validator's business.
    """
    return changed(
        record,
        bad_results=bad_after_valid(record.bad_results, daily_quota),
        max_jobs_per_day=quota_after_valid(record.max_jobs_per_day, daily_quota),
    )


def bad_after_failure(bad_results: int, n_jobs_today: int, daily_quota: int) -> int:
    """Return the count of bad results after one more.

    It passes the last halving, into the pauses, only with a day's single job: many jobs that fail together are one
    mishap, not a reason to wait for weeks.
    """
    last = halvings(daily_quota)
    if bad_results < last:
        return bad_results + 1
    return min(bad_results + 1, last + _PAUSES) if n_jobs_today <= 1 else bad_results


def bad_after_valid(bad_results: int, daily_quota: int) -> int:
    """Return the count of bad results after a valid one; the first one ends the pauses."""
    return max(min(bad_results, halvings(daily_quota)) - 1, 0)


def quota_after_valid(max_jobs_per_day: int, daily_quota: int) -> int:
    """Return the earned quota after a result was found valid; 0 is a quota that was not initialised."""
    return _doubled(max_jobs_per_day, daily_quota)


def is_throttled(record: HostAppVersion, daily_quota: int) -> bool:
    """Whether bad results leave the host one job a day, or less."""
    return daily_quota > 1 and record.bad_results >= halvings(daily_quota)


def wasted_at_most(*, initial: int, processors: int, daily_quota: int, days: int) -> int:
    """Jobs of one app version that a host can waste in so many days that never returns a good one.

    What a new host may hold; as many more as bring the quota down; and the single jobs after pauses of 1, 2, 4 and
    every 8 days.  (A host's day may begin just after its first request: one more.)
    """
    singles = sum(1 for day in range(1, days + 1) if day in (1, 3, 7) or (day > 7 and (day - 7) % 8 == 0))
    return max(initial, 1) * max(processors, 1) + halvings(daily_quota) + singles + 1


def _doubled(max_jobs_per_day: int, daily_quota: int) -> int:
    earned = max_jobs_per_day if max_jobs_per_day > 0 else daily_quota
    return max(min(2 * earned, daily_quota), 1)
