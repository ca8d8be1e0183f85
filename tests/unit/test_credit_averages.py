"""The unit, recent averages and running averages, with the published check values."""

from __future__ import annotations

import math

import pytest

from cobblestone.domain.errors import PolicyViolation
from cobblestone.domain.statistics import (
    HOST_VERSION_RULE,
    VERSION_RULE,
    AveragingRule,
    CreditStatement,
    RecentAverage,
    RunningAverage,
)
from cobblestone.policy.credit.claims import DEPLOYED, DESIGNED, REFERENCE_MACHINE, CreditUnit
from cobblestone.policy.credit.rac import (
    LARGEST,
    common_moment,
    correct_average,
    credited,
    decayed,
    idle_decayed,
    update_average,
)

DAY = 86400.0
WEEK = 7 * DAY
NOW = 1_700_000_000.0


def updated(value: float, seconds: float, credit: float, *, work_start: float = 0.0) -> float:
    """An average of ``value`` that is ``seconds`` old, after ``credit``."""
    before = RecentAverage(value, NOW - seconds)
    return update_average(before, credit=credit, work_start=work_start, now=NOW).value


# ---------------------------------------------------------------------------------------------------- unit


def test_one_gigaflops_for_a_day_is_200_credits() -> None:
    assert DEPLOYED.of_flops(1e9 * DAY) == pytest.approx(200.0)


def test_4_3_gigaflops_for_an_hour_is_35_8333_credits() -> None:
    assert DEPLOYED.of_flops(4.3e9 * 3600) == pytest.approx(35.8333, abs=5e-5)


def test_the_reference_machine_earns_one_credit_in_a_hundredth_of_a_day() -> None:
    assert REFERENCE_MACHINE.of_reference_machine(DAY / 100, 1e9, 1e9) == pytest.approx(1.0)


def test_the_form_with_both_benchmarks_is_the_old_claim_formula() -> None:
    # (Whetstone + Dhrystone in millions) x CPU seconds / 1 728 000, as clients showed it; example of 2005
    claim = REFERENCE_MACHINE.of_reference_machine(37698.15625, 1394.01e6, 2630.73e6)
    assert claim == pytest.approx(87.80, abs=5e-3)


def test_the_same_work_has_half_as_many_credits_by_the_design() -> None:
    assert DEPLOYED.convert(200.0, DESIGNED) == pytest.approx(100.0)
    assert DESIGNED.convert(100.0, DEPLOYED) == pytest.approx(200.0)


def test_operations_and_credit_convert_back_and_forth() -> None:
    assert DEPLOYED.flops(DEPLOYED.of_flops(3.7e15)) == pytest.approx(3.7e15)


def test_the_default_limit_of_a_grant_is_a_teraflops_year() -> None:
    assert DEPLOYED.tflops_year == 73_000_000.0


@pytest.mark.parametrize("size", [0.0, -200.0, math.nan, math.inf])
def test_a_unit_without_a_usable_size_is_refused(size: float) -> None:
    with pytest.raises(PolicyViolation, match="GFLOPS-day"):
        CreditUnit(size)


# ----------------------------------------------------------------------------------- recent average credit


def test_an_idle_week_halves_the_average() -> None:
    assert updated(1000.0, WEEK, 0.0) == pytest.approx(500.0)


def test_700_credits_in_a_week_bring_1000_to_550() -> None:
    assert updated(1000.0, WEEK, 700.0) == pytest.approx(550.0)


def test_100_credits_after_a_day_follow_the_normal_form() -> None:
    # (1 - 2^(-1/7)) x 100 per day
    assert updated(0.0, DAY, 100.0) == pytest.approx(9.4276, abs=5e-5)


def test_100_credits_without_any_time_follow_the_first_order_limit() -> None:
    # ln 2 x 100 x one day / half-life
    assert updated(0.0, 0.0, 100.0) == pytest.approx(9.9021, abs=5e-5)


def test_a_first_sample_is_the_rate_since_the_work_started() -> None:
    first = update_average(RecentAverage(), credit=100.0, work_start=NOW - DAY, now=NOW)
    assert (first.value, first.time) == (pytest.approx(100.0), NOW)


def test_a_first_sample_without_any_time_takes_the_limit() -> None:
    first = update_average(RecentAverage(), credit=100.0, work_start=NOW, now=NOW)
    assert first.value == pytest.approx(9.9021, abs=5e-5)


def test_nothing_is_a_first_sample_of_nothing() -> None:
    assert update_average(RecentAverage(), credit=0.0, work_start=NOW, now=NOW) == RecentAverage(0.0, NOW)


def test_the_normal_form_passes_into_its_limit_without_a_step() -> None:
    switch = 1e-6 * WEEK / math.log(2.0)
    below, above = updated(50.0, switch * 0.99, 10.0), updated(50.0, switch * 1.01, 10.0)
    assert below == pytest.approx(above, rel=1e-5)


def test_a_clock_that_went_back_counts_as_no_time_and_sets_the_stamp() -> None:
    before = RecentAverage(70.0, NOW)
    after = update_average(before, credit=0.0, work_start=0.0, now=NOW - 1000.0)
    assert after == RecentAverage(70.0, NOW - 1000.0)


def test_half_life_is_an_argument() -> None:
    before = RecentAverage(80.0, NOW - DAY)
    after = update_average(before, credit=0.0, work_start=0.0, now=NOW, half_life=DAY)
    assert after.value == pytest.approx(40.0)


@pytest.mark.parametrize("half_life", [0.0, -1.0, math.nan, math.inf])
def test_a_half_life_that_is_no_time_is_refused(half_life: float) -> None:
    with pytest.raises(PolicyViolation, match="half-life"):
        decayed(RecentAverage(1.0, NOW), NOW, half_life)


def test_readers_see_the_decayed_average() -> None:
    assert decayed(RecentAverage(1000.0, NOW - WEEK), NOW) == pytest.approx(500.0)
    assert decayed(RecentAverage(1000.0, NOW + DAY), NOW) == 1000.0


@pytest.mark.parametrize(
    "before",
    [
        RecentAverage(math.nan, NOW),
        RecentAverage(-5.0, NOW),
        RecentAverage(math.inf, NOW),
        RecentAverage(5.0, math.nan),
        RecentAverage(5.0, -math.inf),
    ],
)
def test_a_broken_average_heals(before: RecentAverage) -> None:
    after = update_average(before, credit=1.0, work_start=0.0, now=NOW)
    assert 0.0 <= after.value <= LARGEST
    assert after.time == NOW


def test_a_clock_that_is_no_number_moves_no_stamp() -> None:
    assert update_average(RecentAverage(5.0, NOW), credit=0.0, work_start=0.0, now=math.nan).time == NOW
    broken = update_average(RecentAverage(5.0, math.nan), credit=0.0, work_start=0.0, now=math.nan)
    assert broken == RecentAverage(5.0, 0.0)


def test_credit_is_added_to_total_and_average_at_once() -> None:
    before = CreditStatement(1000.0, RecentAverage(1000.0, NOW - WEEK))
    after = credited(before, credit=700.0, work_start=NOW - WEEK, now=NOW)
    assert after.total == 1700.0
    assert after.recent.value == pytest.approx(550.0)


def test_a_correction_takes_back_what_is_left_of_a_grant() -> None:
    right = update_average(RecentAverage(100.0, NOW), credit=0.0, work_start=0.0, now=NOW + WEEK)
    wrong = update_average(RecentAverage(100.0, NOW), credit=70.0, work_start=0.0, now=NOW)
    corrected = correct_average(wrong, credit=-70.0, granted_time=NOW, now=NOW + WEEK)
    assert corrected.value == pytest.approx(right.value)
    assert corrected.time == NOW + WEEK


@pytest.mark.parametrize("after", [0.0, 5 * DAY, 100 * DAY])
def test_one_correction_at_the_common_moment_takes_back_several_grants(after: float) -> None:
    grants = [(70.0, NOW), (5.0, NOW + DAY), (200.0, NOW + 3 * DAY)]
    now = NOW + 3 * DAY + after
    one_by_one = RecentAverage(1000.0, NOW + 3 * DAY)
    for credit, time in grants:
        one_by_one = correct_average(one_by_one, credit=-credit, granted_time=time, now=now)
    at_once = correct_average(
        RecentAverage(1000.0, NOW + 3 * DAY), credit=-275.0, granted_time=common_moment(grants), now=now
    )
    assert at_once.value == pytest.approx(one_by_one.value, rel=1e-12)


def test_a_correction_never_leads_below_zero() -> None:
    after = correct_average(RecentAverage(1.0, NOW), credit=-1e9, granted_time=NOW, now=NOW)
    assert after.value == 0.0


def test_a_correction_without_a_usable_clock_or_amount_changes_nothing() -> None:
    average = RecentAverage(5.0, NOW)
    assert correct_average(average, credit=-1.0, granted_time=NOW, now=math.nan) == average
    assert correct_average(average, credit=math.inf, granted_time=NOW, now=NOW) == average


def test_the_daily_task_decays_what_nothing_updated_for_a_day() -> None:
    idle = idle_decayed(RecentAverage(10.0, NOW - WEEK), now=NOW)
    assert idle is not None
    assert (idle.value, idle.time) == (pytest.approx(5.0), NOW)
    assert idle_decayed(RecentAverage(10.0, NOW - DAY / 2), now=NOW) is None
    assert idle_decayed(RecentAverage(10.0, NOW - DAY), now=NOW) is not None
    assert idle_decayed(RecentAverage(0.1, NOW - WEEK), now=NOW) is None


# -------------------------------------------------------------------------------------- running averages


def test_a_running_mean_cuts_the_third_sample_to_ten_times_the_mean() -> None:
    means = []
    average = RunningAverage()
    for sample in (2.0, 4.0, 100.0):
        average = average.updated(sample, HOST_VERSION_RULE)
        means.append(average.mean)
    assert means == pytest.approx([2.0, 3.0, 12.0])


def test_the_mean_is_straight_for_19_samples_and_exponential_from_the_20th() -> None:
    average = RunningAverage().with_samples([1.0] * 19, HOST_VERSION_RULE)
    assert (average.n, average.mean) == (19, 1.0)
    assert average.updated(2.0, HOST_VERSION_RULE).mean == pytest.approx(1.01)


def test_the_mean_of_a_version_is_straight_for_99_samples() -> None:
    average = RunningAverage().with_samples([1.0] * 99, VERSION_RULE)
    assert average.updated(2.0, VERSION_RULE).mean == pytest.approx(1.001)


def test_the_variance_is_that_of_the_samples_at_first() -> None:
    average = RunningAverage().with_samples([1.0, 2.0, 3.0, 4.0], HOST_VERSION_RULE)
    assert average.variance == pytest.approx(1.25)


def test_the_variance_decays_like_the_mean_later() -> None:
    average = RunningAverage().with_samples([1.0, 3.0] * 9 + [2.0], HOST_VERSION_RULE)
    after = average.updated(4.0, HOST_VERSION_RULE)
    delta = 4.0 - average.mean
    assert after.variance == pytest.approx(average.variance * 0.99 + 0.01 * delta * delta)


@pytest.mark.parametrize("sample", [-1.0, math.nan, math.inf, -math.inf])
def test_samples_that_cannot_be_are_ignored(sample: float) -> None:
    average = RunningAverage().updated(3.0, HOST_VERSION_RULE)
    assert average.updated(sample, HOST_VERSION_RULE) == average


def test_a_huge_first_sample_leaves_everything_finite() -> None:
    average = RunningAverage().with_samples([1e304] * 30, AveragingRule(threshold=5, weight=0.5))
    assert all(map(math.isfinite, (average.mean, average.variance, average.q)))


def test_increments_of_two_validators_are_both_counted() -> None:
    row = RunningAverage()
    for increment in ((1.0, 2.0), (3.0,), (4.0, 5.0)):
        row = row.with_samples(increment, HOST_VERSION_RULE)
    assert (row.n, row.mean) == (5, pytest.approx(3.0))
