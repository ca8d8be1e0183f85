"""Recent averages and running averages: what holds for any work, any clock and any report."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from cobblestone.domain.statistics import (
    HOST_VERSION_RULE,
    VERSION_RULE,
    CreditStatement,
    RecentAverage,
    RunningAverage,
)
from cobblestone.policy.credit.claims import low_average, mean, minimum, pegged_average, without_extremes
from cobblestone.policy.credit.rac import (
    HALF_LIFE,
    LARGEST,
    credited,
    credited_together,
    decayed,
    update_average,
)

START = 1_700_000_000.0
DAY = 86400.0

anything = st.floats(allow_nan=True, allow_infinity=True)
rates = st.floats(0.0, 1e9)
CREDIT = st.floats(0.0, 1e12, allow_subnormal=False)
"""Amounts of credit; what is smaller than a float holds with all its digits is no amount that anybody could be granted."""
steps = st.lists(st.floats(60.0, 10 * DAY), min_size=1, max_size=30)


@given(rate=rates, before=rates, intervals=steps)
def test_work_at_a_constant_rate_leads_to_one_average_however_often_it_is_updated(
    rate: float, before: float, intervals: list[float]
) -> None:
    often = RecentAverage(before, START)
    now = START
    for interval in intervals:
        now += interval
        often = update_average(often, credit=rate * interval / DAY, work_start=START, now=now)
    once = update_average(
        RecentAverage(before, START), credit=rate * (now - START) / DAY, work_start=START, now=now
    )
    assert math.isclose(often.value, once.value, rel_tol=1e-6, abs_tol=1e-9)


@given(before=rates, intervals=steps, half_life=st.floats(3600.0, 100 * DAY))
def test_without_work_the_average_halves_per_half_life(
    before: float, intervals: list[float], half_life: float
) -> None:
    average = RecentAverage(before, START)
    for interval in intervals:
        average = update_average(
            average, credit=0.0, work_start=0.0, now=average.time + interval, half_life=half_life
        )
    expected = before * 0.5 ** ((average.time - START) / half_life)
    assert math.isclose(average.value, expected, rel_tol=1e-9, abs_tol=1e-30)
    assert math.isclose(
        average.value,
        decayed(RecentAverage(before, START), average.time, half_life),
        rel_tol=1e-9,
        abs_tol=1e-30,
    )


@given(rate=st.floats(0.001, 1e9), before=rates, interval=st.floats(600.0, 3 * DAY))
def test_the_average_converges_to_the_daily_rate(rate: float, before: float, interval: float) -> None:
    average = RecentAverage(before, START)
    while average.time < START + 60 * HALF_LIFE:
        step = min(interval * 20, DAY)
        average = update_average(average, credit=rate * step / DAY, work_start=0.0, now=average.time + step)
    assert math.isclose(average.value, rate, rel_tol=1e-6)


@given(events=st.lists(st.tuples(anything, anything, anything), max_size=20), value=anything, time=anything)
def test_no_clock_and_no_credit_breaks_an_average(
    events: list[tuple[float, float, float]], value: float, time: float
) -> None:
    statement = CreditStatement(0.0, RecentAverage(value, time))
    for credit, work_start, now in events:
        statement = credited(statement, credit=credit, work_start=work_start, now=now)
        assert 0.0 <= statement.recent.value <= LARGEST
        assert 0.0 <= statement.total <= LARGEST
        assert math.isfinite(statement.recent.time)
        assert 0.0 <= decayed(statement.recent, now) <= LARGEST


@given(grants=st.lists(st.floats(0.0, 1e6), min_size=1, max_size=20), back=st.floats(0.0, 1e6))
def test_a_clock_that_stands_still_or_goes_back_adds_the_limit(grants: list[float], back: float) -> None:
    average = RecentAverage(0.0, START)
    for credit in grants:
        average = update_average(average, credit=credit, work_start=0.0, now=START - back)
    assert math.isclose(average.value, math.log(2.0) * sum(grants) / 7.0, rel_tol=1e-6, abs_tol=1e-12)


@given(samples=st.lists(anything, max_size=150))
def test_no_sample_breaks_a_running_average(samples: list[float]) -> None:
    for rule in (HOST_VERSION_RULE, VERSION_RULE):
        average = RunningAverage().with_samples(samples, rule)
        assert 0.0 <= average.mean < math.inf
        assert 0.0 <= average.variance < math.inf
        assert average.n == sum(1 for sample in samples if 0.0 <= sample < math.inf)


@given(samples=st.lists(st.floats(1.0, 9.0), min_size=1, max_size=150))
def test_a_running_mean_stays_within_its_samples(samples: list[float]) -> None:
    average = RunningAverage().with_samples(samples, HOST_VERSION_RULE)
    assert min(samples) - 1e-9 <= average.mean <= max(samples) + 1e-9


@given(samples=st.lists(st.floats(0.5, 2.0), min_size=1, max_size=90), parts=st.integers(1, 5))
def test_validators_that_take_turns_lose_no_sample(samples: list[float], parts: int) -> None:
    row = RunningAverage()
    for part in range(parts):  # each validator adds its own increment to the row as it is by then
        row = row.with_samples(samples[part::parts], VERSION_RULE)
    assert row.n == len(samples)
    # while the mean is straight and no sample is cut, the order does not matter
    assert math.isclose(row.mean, sum(samples) / len(samples), rel_tol=1e-9)


@given(claims=st.lists(CREDIT, min_size=1, max_size=10), peg=CREDIT)
def test_every_combination_lies_between_the_smallest_and_the_largest_claim(
    claims: list[float], peg: float
) -> None:
    slack = 1e-9 * max(claims)
    for combined in (mean(claims), minimum(claims), low_average(claims), pegged_average(claims, peg)):
        assert min(claims) - slack <= combined <= max(claims) + slack
    assert 0.0 <= without_extremes(claims) <= max(claims) + slack


@given(honest=st.floats(1.0, 1000.0), inflation=st.floats(1.0, 1e6))
def test_one_inflated_claim_among_three_gains_little(honest: float, inflation: float) -> None:
    claims = [honest, honest, honest * inflation]
    assert math.isclose(minimum(claims), honest)
    assert math.isclose(without_extremes(claims), honest)
    assert pegged_average(claims, honest) <= 1.06 * honest  # at most 1 / 20 more
    assert low_average(claims) <= 2.0 * honest + 1e-9


@given(
    st.floats(0, 1e12),
    st.floats(0, 1e12),
    st.lists(st.tuples(st.floats(allow_nan=True), st.floats(0, 2e9)), max_size=8),
    st.sampled_from([0.0, 1.7e9, 1.7e9 - 5e5]),
)
def test_grants_of_one_moment_come_out_as_one_by_one(
    total: float, value: float, shares: list[tuple[float, float]], time: float
) -> None:
    statement = CreditStatement(total, RecentAverage(value, time))
    one_by_one = statement
    for credit, work_start in shares:
        one_by_one = credited(one_by_one, credit=credit, work_start=work_start, now=1.7e9)
    assert credited_together(statement, shares, now=1.7e9) == one_by_one
