"""Credit over time: the three curves that volunteers know, and agreement with the averages that are stored."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from cobblestone.domain.statistics import RecentAverage
from cobblestone.policy.credit.history import CreditDay, LedgerMark, credit_history, day_of
from cobblestone.policy.credit.rac import correct_average, decayed, update_average

DAY = 86400.0
TODAY = 20_833
NOW = TODAY * DAY + 0.999 * DAY
DAILY_DECAY = 0.5 ** (1 / 7)


def steady(per_day: float, first_ago: int, last_ago: int, n: int = 96) -> list[LedgerMark]:
    """``per_day`` credit on each of some days, in ``n`` equal entries."""
    return [
        LedgerMark(
            time=(TODAY - ago + (part + 0.5) / n) * DAY,
            granted=per_day / n,
            work_start=(TODAY - ago + part / n) * DAY,
        )
        for ago in range(first_ago, last_ago - 1, -1)
        for part in range(n)
    ]


def history(
    marks: list[LedgerMark], *, created: float = 0.0, days: int = 30, now: float = NOW
) -> list[CreditDay]:
    return credit_history(marks, created=created, first_day=day_of(now) - days + 1, now=now)


def averages(found: list[CreditDay]) -> list[float]:
    return [item.average for item in found]


# -- the three curves ------------------------------------------------------------------------------------


def test_without_new_credit_the_average_halves_every_week() -> None:
    found = history(steady(100.0, 80, 21))
    assert found[8].granted == pytest.approx(100.0)  # 21 days ago, the last one with credit
    resting = averages(found)[8:]
    assert resting[0] == pytest.approx(100.0, rel=0.03)
    assert all(
        after / before == pytest.approx(DAILY_DECAY, rel=1e-6) for before, after in pairwise(resting[:-1])
    )
    assert resting[7] == pytest.approx(resting[0] / 2)
    assert resting[14] == pytest.approx(resting[0] / 4)


def test_with_less_than_the_average_it_decays_to_the_new_rate() -> None:
    found = averages(history([*steady(100.0, 80, 29), *steady(20.0, 28, 0)]))
    assert found[0] == pytest.approx(100.0, rel=0.03)
    assert all(20.0 < after < before for before, after in pairwise(found[:-1]))
    assert found[-1] - 20.0 == pytest.approx((found[0] - 20.0) * 0.5 ** (29 / 7), rel=0.1)
    assert found[8] - 20.0 == pytest.approx((found[1] - 20.0) / 2, rel=0.03)


def test_with_more_than_the_average_it_grows_to_the_new_rate() -> None:
    found = averages(history([*steady(20.0, 80, 29), *steady(100.0, 28, 0)]))
    assert found[0] == pytest.approx(20.0, rel=0.03)
    assert all(before < after < 100.0 for before, after in pairwise(found[:-1]))
    assert 100.0 - found[8] == pytest.approx((100.0 - found[1]) / 2, rel=0.03)
    assert 100.0 - found[-1] == pytest.approx(80.0 * 0.5 ** (29 / 7), rel=0.1)


def test_a_newcomer_grows_from_nothing_by_half_of_the_rest_each_week() -> None:
    found = averages(history(steady(100.0, 20, 0), created=(TODAY - 20) * DAY))
    assert found[:9] == [0.0] * 9
    assert found[15] == pytest.approx(50.0, rel=0.05)
    assert found[22] == pytest.approx(75.0, rel=0.05)


def test_a_constant_rate_is_a_level_line_however_often_it_is_credited() -> None:
    for n in (1, 3, 50):
        found = averages(history(steady(100.0, 200, 0, n=n), days=30))[:-1]
        assert max(found) - min(found) < 3.0
        assert sum(found) / len(found) == pytest.approx(100.0, rel=0.06)


# -- agreement with what is stored -----------------------------------------------------------------------


def test_the_last_value_is_what_the_server_stored_decayed_to_now() -> None:
    created = (TODAY - 10) * DAY + 5000.0
    marks = [
        LedgerMark(time=created + hours * 3600.0, granted=amount, work_start=created)
        for hours, amount in ((1.0, 3.0), (1.0, 4.0), (13.5, 80.0), (20.0, 0.0), (43.0, 55.0), (60.0, 1e4))
    ]
    now = created + 70 * 3600.0
    average = RecentAverage(0.0, created)
    for mark in marks:
        average = update_average(average, credit=mark.granted, work_start=mark.work_start, now=mark.time)
    assert history(marks, created=created, now=now)[-1].average == pytest.approx(decayed(average, now))


def test_a_correction_takes_back_what_is_left_of_its_grant() -> None:
    grants = steady(100.0, 5, 0, n=1)
    correction = LedgerMark(
        time=NOW - 60.0, granted=-100.0, work_start=0.0, n_results=0, granted_time=grants[0].time
    )
    before, after = history(grants)[-1], history([*grants, correction])[-1]
    expected = correct_average(
        RecentAverage(before.average, NOW), credit=-100.0, granted_time=grants[0].time, now=NOW
    )
    assert after.average == pytest.approx(expected.value, rel=1e-4)
    assert after.granted == pytest.approx(0.0)
    assert after.n_results == before.n_results


def test_days_add_up_to_the_ledger_and_have_no_gaps() -> None:
    found = history(steady(70.0, 12, 9, n=7))
    assert [item.day for item in found] == list(range(TODAY - 29, TODAY + 1))
    assert math.fsum(item.granted for item in found) == pytest.approx(4 * 70.0)
    assert sum(item.n_results for item in found) == 28


# -- odd ledgers -----------------------------------------------------------------------------------------


def test_nothing_is_thirty_empty_days() -> None:
    assert {(item.granted, item.n_results, item.average) for item in history([])} == {(0.0, 0, 0.0)}


def test_entries_from_before_the_creation_keep_their_days() -> None:
    """A row that another one was merged into has an older ledger than itself."""
    found = history(steady(100.0, 10, 5), created=NOW - 60.0)
    assert [item.day for item in found if item.granted] == [TODAY - ago for ago in range(10, 4, -1)]
    assert found[-1].average > 0


def test_entries_of_the_future_and_a_clock_that_went_back_lose_nothing() -> None:
    marks = [
        LedgerMark(time=NOW - DAY, granted=1.0, work_start=0.0),
        LedgerMark(time=NOW - 3 * DAY, granted=2.0, work_start=0.0),
        LedgerMark(time=NOW + 50 * DAY, granted=4.0, work_start=0.0),
    ]
    found = history(marks, created=NOW - 20 * DAY)
    assert [item.granted for item in found[-2:]] == [3.0, 4.0]
    assert all(0.0 <= item.average < math.inf for item in found)
