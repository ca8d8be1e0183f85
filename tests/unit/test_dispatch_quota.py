"""Daily quota of a host and app version."""

from __future__ import annotations

from itertools import pairwise

import pytest
from tests.helpers.dispatch_world import NOW, record

from cobblestone.domain.ids import HostId
from cobblestone.policy.dispatch.quota import (
    after_failure,
    after_permanent_failure,
    after_success,
    after_valid,
    daily_limit,
    day_shift,
    for_today,
    jobs_per_day,
    quota_day,
    seconds_to_next_day,
)

Q = 100


def test_a_new_record_starts_with_the_full_quota():
    assert for_today(record(), daily_quota=Q, now=NOW).max_jobs_per_day == Q


def test_a_failure_costs_one_job_and_the_good_record():
    after = after_failure(record(max_jobs_per_day=40, consecutive_valid=12), Q)
    assert (after.max_jobs_per_day, after.consecutive_valid) == (39, 0)


def test_a_quota_above_the_reference_falls_below_it_at_once():
    assert after_failure(record(max_jobs_per_day=5000), Q).max_jobs_per_day == Q - 1


def test_a_failure_never_takes_the_last_job():
    assert after_failure(record(max_jobs_per_day=1), Q).max_jobs_per_day == 1


def test_a_failure_before_the_first_request_counts_from_the_full_quota():
    assert after_failure(record(), Q).max_jobs_per_day == Q - 1


@pytest.mark.parametrize(("before", "after"), [(1, 2), (30, 60), (60, 100), (100, 100), (0, 100)])
def test_a_success_doubles_the_quota_up_to_the_reference(before: int, after: int):
    assert after_success(record(max_jobs_per_day=before), Q).max_jobs_per_day == after


def test_a_valid_result_adds_one_up_to_the_reference():
    assert after_valid(record(max_jobs_per_day=5), Q).max_jobs_per_day == 6
    assert after_valid(record(max_jobs_per_day=Q), Q).max_jobs_per_day == Q


def test_a_permanent_failure_ends_the_day():
    after = after_permanent_failure(record(max_jobs_per_day=50, n_jobs_today=0))
    assert (after.max_jobs_per_day, after.n_jobs_today) == (1, 1)


def test_a_broken_host_recovers_within_a_few_successes():
    broken = record(max_jobs_per_day=1)
    for _ in range(7):
        broken = after_success(broken, Q)
    assert broken.max_jobs_per_day == Q


def test_the_limit_is_per_processor_except_for_the_last_job():
    assert daily_limit(record(max_jobs_per_day=3), daily_quota=Q, processors=8) == 24
    assert daily_limit(record(max_jobs_per_day=1), daily_quota=Q, processors=8) == 1


def test_the_count_is_kept_within_a_day_and_reset_on_the_next():
    day = quota_day(HostId(1), NOW)
    today = record(max_jobs_per_day=5, n_jobs_today=4, quota_day=day)
    assert for_today(today, daily_quota=Q, now=NOW) is today
    tomorrow = for_today(today, daily_quota=Q, now=NOW + seconds_to_next_day(HostId(1), NOW) + 1)
    assert (tomorrow.n_jobs_today, tomorrow.quota_day) == (0, day + 1)


def test_a_lowered_reference_lowers_the_quota_at_once():
    assert jobs_per_day(record(max_jobs_per_day=500), 10) == 10


def test_a_reference_of_zero_still_means_one_job():
    assert jobs_per_day(record(), 0) == 1
    assert after_success(record(max_jobs_per_day=1), 0).max_jobs_per_day == 1


def test_the_days_of_hosts_begin_at_different_times():
    shifts = sorted(day_shift(HostId(n)) for n in range(1, 101))
    gaps = [later - earlier for earlier, later in pairwise(shifts)]
    assert max(gaps) < 86400 / 10
    assert all(0 <= shift < 86400 for shift in shifts)


def test_a_host_gets_a_new_day_every_86400_seconds():
    assert quota_day(HostId(7), NOW + 86400) == quota_day(HostId(7), NOW) + 1
    assert 0 < seconds_to_next_day(HostId(7), NOW) <= 86400
