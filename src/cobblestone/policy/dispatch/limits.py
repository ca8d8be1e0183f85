"""Limits on dispatch: the operator's, daily quotas, and how much a host is trusted.

Daily quota of a host and app version: what a host that wastes jobs may waste.

A host from which nothing right came yet holds a few jobs at a time: F per processor (``first_jobs``), four times as many after
its first success, sixteen times after the second.

Two numbers of the record decide.  ``max_jobs_per_day`` is what the host has *earned*: a new one begins with I jobs per
processor and day (``max_jobs_per_day_init``), each success doubles it, up to Q (``daily_result_quota``).  Successes that
no one has checked yet bring four times I at most, for the rest they have to be valid.  ``bad_results`` counts results
that failed, were invalid or did not come in time, less one for each valid result since.  It halves the
quota each time::

    jobs per day = min(earned, Q >> bad_results), at least 1

With Q = 500 eight bad results more than valid ones leave one job a day.  If that one is bad too, the host pauses: the next
comes after 2, 4, then every 8 days.  One valid result ends the pauses and the quota doubles with each further one, so a
repaired host is back within a few jobs.  A reported success raises the quota only as long as nothing bad is on record: a
host whose results look fine and are invalid is throttled like one that crashes.

What a bad host can waste, per app version and of short jobs: a host that never worked, F jobs per
processor, once, and one job per pause.  A host that worked before, what it holds, `HALVINGS` more, and one per pause.

Source: BOINC's ``sched_result.cpp``, ``sched_send.cpp``, ``handle_request.cpp`` (facts).  Differences: the family
subtracts one per failure, so that a host with Q = 500 and 16 processors may waste some 8 000 jobs on its first day; its
invalid results cost nothing below Q; and it knows no pauses.

Hosts that return right answers soon: they get the results that others failed to deliver.

A workunit whose result was lost has waited long already, and often it is the last one of its batch.  So its next result
may be kept for reliable hosts for some time, and may have a shorter deadline.

Source: BOINC's ``sched_send.cpp`` and ``sched_config`` (facts).  Difference: it is kept for them for a bounded time only,
so that a job does not wait for ever in a project without reliable hosts.

Adaptive replication: quorum of one for hosts with a good record, with random spot checks.

A job that could do with one result is replicated with probability ``p = min(1, 10 / W)``, drawn per job,
where W is the number of valid jobs in a row that this host delivered with this app version; one invalid
result sets W to 0.

The bound.  A host that begins to cheat at W has, on average, ``(1 - p) / p = W / 10 - 1`` wrong answers
accepted before the first spot check ends it, and none while W <= 10.  To get there it delivered at least W
right answers, so at most 1/11 (9.1 %) of its answers are wrong, however it chooses the moment and however
often it repeats it.  If W counts only replicated jobs (as it should: no one checked the others), one more
costs W / 10 jobs, and the share is largest for a host that cheats at W = 24: 4.1 %, less before and after.
Both hold as long as a wrong answer does not find a second one that agrees with it.

Source: the idea is BOINC's adaptive replication, which replicates with probability 1 / W from W = 10 on and
so lets through ``W - 1`` before the first check.

A host that failed lately is not believed alone either (`failed_lately`): under every app with a quorum of one its jobs are
replicated, as long as there is another person's computer that could check them.

Limits that the operator sets on dispatch.

Source: BOINC's ``config.xml`` and ``config_aux.xml`` (names and meaning).
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from cobblestone.domain.hosts import HostAppVersion
from cobblestone.domain.values import DAY, AppId, HostId, changed

_GOLDEN = 2654435761  # Knuth's multiplier: neighbouring host ids land far apart

UNCHECKED = 4  #: times its first quota: what a host can earn by successes of which none was found valid yet
_PAUSES = 3  # doublings of a day
INITIAL_PART = 25  #: of the daily quota: what a new host begins with, unless the operator says


def day_shift(host_id: HostId) -> float:
    """Seconds by which this host's day begins before midnight, so that not all hosts come at once."""
    return (host_id * _GOLDEN % 2**32) / 2**32 * DAY


def quota_day(host_id: HostId, now: float) -> int:
    """Return number of the host's day that ``now`` (Unix seconds) belongs to."""
    return math.floor((now + day_shift(host_id)) // DAY)


def halvings(daily_quota: int) -> int:
    """Bad results that bring a quota down to one job a day."""
    return max(daily_quota.bit_length() - 1, 0)


def pause_days(record: HostAppVersion, daily_quota: int) -> int:
    """Return the days until the host's count starts again: 1, or more for one that keeps failing."""
    beyond = record.bad_results - halvings(daily_quota)
    return 2 ** min(beyond, _PAUSES) if beyond > 0 else 1


def seconds_to_next_day(host_id: HostId, now: float) -> float:
    """Seconds until the host's next day begins."""
    return DAY - (now + day_shift(host_id)) % DAY


def seconds_to_next_quota(record: HostAppVersion, *, daily_quota: int, now: float) -> float:
    """Return the seconds until the host's count starts again."""
    days = record.quota_day + pause_days(record, daily_quota) - quota_day(record.host_id, now) - 1
    return seconds_to_next_day(record.host_id, now) + max(days, 0) * DAY


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
    return changed(record, bad_results=bad, statistics=changed(record.statistics, consecutive_valid=0))


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
    """Return whether bad results leave the host one job a day, or less."""
    return daily_quota > 1 and record.bad_results >= halvings(daily_quota)


def _doubled(max_jobs_per_day: int, daily_quota: int) -> int:
    earned = max_jobs_per_day if max_jobs_per_day > 0 else daily_quota
    return max(min(2 * earned, daily_quota), 1)


MIN_CONSECUTIVE_VALID = 10
MIN_TURNAROUND_SAMPLES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRules:
    """How results that follow a lost one are sent."""

    reliable_seconds: float = 0.0  #: only to reliable hosts for so long; 0 = to anybody at once
    max_turnaround: float = 0.0  #: mean seconds until a reliable host returns a result; 0 = any
    delay_factor: float = 1.0  #: by which the deadline of a reliable host is shortened, 0 < factor <= 1


def is_reliable(record: HostAppVersion, *, rules: RetryRules, daily_quota: int) -> bool:
    """Return whether this host returns right answers of this version, and soon."""
    taken = record.statistics.turnaround
    slow = taken.n > MIN_TURNAROUND_SAMPLES and taken.mean > rules.max_turnaround > 0
    return (
        not slow
        and record.statistics.consecutive_valid >= MIN_CONSECUTIVE_VALID
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


#: Numerator of the spot-check probability: on average so many jobs of every W are replicated.
SPOT_CHECK_FACTOR = 10.0


def spot_check_probability(valid_jobs: int) -> float:
    """Probability that the next job of a host with W = ``valid_jobs`` is replicated: min(1, 10 / W)."""
    return 1.0 if valid_jobs <= SPOT_CHECK_FACTOR else SPOT_CHECK_FACTOR / valid_jobs


def must_replicate(valid_jobs: int, rng: random.Random) -> bool:
    """Draw whether the next job of a host with W = ``valid_jobs`` must be replicated."""
    return rng.random() < spot_check_probability(valid_jobs)


NEWCOMER_ERROR_RATE = 0.1  # with which a record begins
#: Results that must agree on a job of an app of quorum one whose host failed lately.
CHECK_QUORUM = 2


def failed_lately(record: HostAppVersion) -> bool:
    """Return whether a host has no say alone: its error rate is above a newcomer's, and it lacks ten valid results in a row.

    The error rate is an average in which each result weighs 0.05: one failure of a newcomer, or three in a row of a host
    that never failed, lift it above.  Source: CreditNew page, "host punishment": no single replication for a while.
    """
    known = record.statistics
    return known.error_rate > NEWCOMER_ERROR_RATE and known.consecutive_valid < MIN_CONSECUTIVE_VALID


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCap:
    """At most ``jobs`` jobs, or that many per processor."""

    jobs: int
    per_processor: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InProgressLimits:
    """Caps on the jobs a host may hold at a time; ``None`` = no cap.  ``total`` is never per processor."""

    total: int | None = None
    cpu: JobCap | None = None
    gpu: JobCap | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchLimits:
    """The operator's limits on what one host gets."""

    daily_quota: int = 500  #: per host app version and CPU; the reference value Q of the quota rule
    daily_quota_init: int = 0  #: the value I that a new host begins with; 0 = Q
    first_jobs: int = 0  #: per processor: what a host holds at first that nothing right came from yet; 0 = I
    gpu_multiplier: float = 1.0  #: weight of a GPU in the daily quota and in ``max_jobs_per_rpc``
    max_jobs_per_rpc: int = 50  #: per processor; 0 = no limit
    max_ncpus: int = 256  #: CPUs counted at most, whatever the host claims
    left_for_others: int = 0  #: jobs that it could have, and leaves to others
    project_in_progress: InProgressLimits = InProgressLimits()
    app_in_progress: Mapping[AppId, InProgressLimits] = field(default_factory=dict[AppId, InProgressLimits])
    min_sendwork_interval: float = 0.0  #: seconds between requests that get work; 0 = no minimum
    one_result_per_user_per_wu: bool = True
    one_result_per_host_per_wu: bool = True
    version_random_factor: float = 1.0  #: how much chance there is in the choice of a version; 0 = none
    check_deadline: bool = True
    #: check deadlines against all jobs that the client holds, earliest deadline first
    workload_sim: bool = True
    retries: RetryRules = RetryRules()
    unsupported_delay: float = 86400.0  #: seconds until a host that cannot be served may ask again
