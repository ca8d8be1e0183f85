"""Daily quota of a host and app version."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from tests.helpers.dispatch_world import NOW, record

from cobblestone.domain.values import HostId
from cobblestone.policy.dispatch.limits import (
    after_failure,
    after_success,
    after_valid,
    daily_limit,
    day_shift,
    for_today,
    halvings,
    is_throttled,
    jobs_per_day,
    pause_days,
    quota_day,
    seconds_to_next_day,
    seconds_to_next_quota,
)

Q = 100


def test_a_new_record_starts_with_the_full_quota():
    assert for_today(record(), daily_quota=Q, now=NOW).max_jobs_per_day == Q


def test_a_new_host_may_begin_with_less():
    assert for_today(record(), daily_quota=Q, initial=4, now=NOW).max_jobs_per_day == 4


def test_each_bad_result_halves_the_quota_down_to_one():
    bad = record(max_jobs_per_day=Q, consecutive_valid=12, n_jobs_today=50)
    found: list[int] = []
    for _ in range(8):
        bad = after_failure(bad, Q)
        found.append(jobs_per_day(bad, Q))
    assert found == [50, 25, 12, 6, 3, 1, 1, 1]
    assert bad.statistics.consecutive_valid == 0


def test_a_mishap_of_many_jobs_on_one_day_brings_no_pause():
    bad = record(max_jobs_per_day=Q, n_jobs_today=200)
    for _ in range(200):
        bad = after_failure(bad, Q)
    assert (jobs_per_day(bad, Q), pause_days(bad, Q)) == (1, 1)


def test_a_single_job_a_day_that_is_bad_again_brings_longer_and_longer_pauses():
    bad = record(max_jobs_per_day=Q, bad_results=halvings(Q), n_jobs_today=1)
    found: list[int] = []
    for _ in range(6):
        bad = after_failure(bad, Q)
        found.append(pause_days(bad, Q))
    assert found == [2, 4, 8, 8, 8, 8]


def test_one_valid_result_ends_the_pauses_and_each_doubles_the_quota():
    repaired = record(max_jobs_per_day=Q, bad_results=halvings(Q) + 3)
    found: list[int] = []
    for _ in range(6):
        repaired = after_valid(repaired, Q)
        found.append(jobs_per_day(repaired, Q))
        assert pause_days(repaired, Q) == 1
    assert found == [3, 6, 12, 25, 50, 100]


@pytest.mark.parametrize(("before", "after"), [(1, 2), (30, 60), (60, 100), (100, 100), (0, 100)])
def test_a_success_doubles_what_a_host_has_earned(before: int, after: int):
    assert after_success(record(max_jobs_per_day=before), Q).max_jobs_per_day == after


def test_a_success_that_may_be_wrong_does_not_raise_the_quota_of_a_host_with_bad_results():
    doubtful = record(max_jobs_per_day=Q, bad_results=3)
    assert after_success(doubtful, Q) is doubtful


def test_a_host_with_more_wrong_than_right_results_is_throttled_though_it_reports_success():
    host, rng = record(max_jobs_per_day=Q, n_jobs_today=9), random.Random(1)
    for _ in range(200):
        host = after_success(host, Q)
        host = after_valid(host, Q) if rng.random() < 0.3 else after_failure(host, Q)
    assert is_throttled(host, Q) or jobs_per_day(host, Q) <= 6


def test_a_host_that_seldom_fails_keeps_its_quota():
    host, rng = record(max_jobs_per_day=Q, n_jobs_today=9), random.Random(1)
    limits: list[int] = []
    for _ in range(2000):
        host = after_failure(host, Q) if rng.random() < 0.05 else after_valid(host, Q)
        limits.append(jobs_per_day(host, Q))
    assert sum(limits) / len(limits) > 0.9 * Q


def test_the_limit_is_per_processor_except_for_the_last_job():
    assert daily_limit(record(max_jobs_per_day=3), daily_quota=Q, processors=8) == 24
    assert daily_limit(record(max_jobs_per_day=1), daily_quota=Q, processors=8) == 8
    assert daily_limit(record(bad_results=halvings(Q)), daily_quota=Q, processors=8) == 1


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


def test_a_pause_lasts_until_its_days_are_over():
    day = quota_day(HostId(1), NOW)
    paused = record(max_jobs_per_day=Q, bad_results=halvings(Q) + 2, n_jobs_today=1, quota_day=day)
    almost = NOW + seconds_to_next_quota(paused, daily_quota=Q, now=NOW) - 1
    assert for_today(paused, daily_quota=Q, now=almost).n_jobs_today == 1
    assert for_today(paused, daily_quota=Q, now=almost + 2).n_jobs_today == 0
    assert 3 * 86400 < almost - NOW <= 4 * 86400
