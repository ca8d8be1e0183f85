"""Credit since the first day: rows that go on, grow together with age, and add up."""

from __future__ import annotations

import random

import pytest

from cobblestone.domain.statistics import RecentAverage
from cobblestone.policy.credit.history import (
    FOUR_WEEKS,
    WEEK,
    CreditPeriod,
    LedgerMark,
    continued,
    credit_history,
    first_day,
    milestones_between,
    slot_days,
    slots,
    thinned,
    together,
)
from cobblestone.policy.credit.rac import decayed

DAY = 86400.0
FIRST = 20_000


def marks(rng: random.Random, n: int, days: float) -> list[LedgerMark]:
    times = sorted(rng.uniform(0, days) for _ in range(n))
    return [
        LedgerMark(
            time=(FIRST + time) * DAY, granted=rng.uniform(1, 50), work_start=(FIRST + time - 0.1) * DAY
        )
        for time in times
    ]


def followed(entries: list[LedgerMark], chunk: int) -> list[CreditPeriod]:
    """Rows as a daemon keeps them that takes in so many entries at a time."""
    kept: dict[int, CreditPeriod] = {}
    for start in range(0, len(entries), chunk):
        last = kept[max(kept)] if kept else None
        changed, _ = continued(last, entries[start : start + chunk], created=FIRST * DAY)
        kept.update({row.day: row for row in changed})
    return [kept[day] for day in sorted(kept)]


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_rows_hold_what_the_ledger_says_however_it_is_read(rng: random.Random, chunk: int) -> None:
    entries = marks(rng, 200, 30)
    rows = followed(entries, chunk)
    now = (FIRST + 31) * DAY
    days = {day.day: day for day in credit_history(entries, created=FIRST * DAY, first_day=FIRST, now=now)}
    assert [row.day for row in rows] == [day for day, item in days.items() if item.n_results]
    for row in rows:
        assert row.granted == pytest.approx(days[row.day].granted)
        assert row.n_results == days[row.day].n_results
        assert decayed(row.recent, row.end) == pytest.approx(days[row.day].average, rel=0.05)
    assert rows[-1].total == pytest.approx(sum(entry.granted for entry in entries))
    assert rows[-1].total_results == 200


def test_an_entry_from_before_counts_for_the_day_that_the_ledger_had_reached() -> None:
    late, early = (
        LedgerMark(time=(FIRST + day) * DAY, granted=5.0, work_start=FIRST * DAY) for day in (3, 1)
    )
    changed, _ = continued(None, [late, early], created=FIRST * DAY)
    assert [(row.day, row.granted, row.n_results) for row in changed] == [(FIRST + 3, 10.0, 2)]


def test_a_correction_lowers_the_total_and_never_below_nothing() -> None:
    grant = LedgerMark(time=FIRST * DAY + 10, granted=5.0, work_start=FIRST * DAY)
    back = LedgerMark(
        time=FIRST * DAY + 20, granted=-9.0, work_start=0.0, n_results=0, granted_time=FIRST * DAY + 10
    )
    (row,), _ = continued(None, [grant, back], created=FIRST * DAY)
    assert (row.granted, row.total, row.n_results) == (-4.0, 0.0, 1)
    assert row.recent.value == 0.0


@pytest.mark.parametrize(
    ("before", "after", "passed"),
    [
        (0, 999.9, []),
        (999.9, 1000, [1000]),
        (1000, 1001, []),
        (900, 250_000, [1000, 10_000, 100_000]),
        (5000, 10, []),
        (0, 1e30, [10**power for power in range(3, 19)]),
    ],
)
def test_milestones_are_powers_of_ten_passed_on_the_way_up(
    before: float, after: float, passed: list[int]
) -> None:
    assert milestones_between(before, after) == passed


def test_the_first_result_and_a_thousand_are_dated_by_their_entries() -> None:
    entries = [
        LedgerMark(time=FIRST * DAY + hour * 3600, granted=400.0, work_start=FIRST * DAY) for hour in range(4)
    ]
    _, reached = continued(None, entries, created=FIRST * DAY)
    assert [(item.credit, item.time - FIRST * DAY) for item in reached] == [(0, 0.0), (1000, 7200.0)]


def test_trickle_credit_is_not_yet_a_first_result() -> None:
    trickle = LedgerMark(time=FIRST * DAY, granted=4.0, work_start=FIRST * DAY, n_results=0)
    (row,), reached = continued(None, [trickle], created=FIRST * DAY)
    assert reached == []
    _, reached = continued(row, [LedgerMark(time=FIRST * DAY + 5, granted=1.0, work_start=0.0)], created=0.0)
    assert [item.credit for item in reached] == [0]


@pytest.mark.parametrize("n_days", [WEEK, FOUR_WEEKS])
def test_old_rows_grow_together_without_losing_anything(rng: random.Random, n_days: int) -> None:
    rows = followed(marks(rng, 300, 100), 50)
    joined = thinned(rows, n_days=n_days)
    assert sum(row.granted for row in joined) == pytest.approx(rows[-1].total)
    assert sum(row.n_results for row in joined) == 300
    assert all(row.day == first_day(row.day, n_days) and row.n_days == n_days for row in joined)
    assert len({row.day for row in joined}) == len(joined) <= 100 // n_days + 2
    assert (joined[-1].recent, joined[-1].total) == (rows[-1].recent, rows[-1].total)
    assert thinned(joined, n_days=n_days) == joined


def test_weeks_begin_on_mondays_and_lie_whole_in_spans_of_four() -> None:
    for day in range(FIRST, FIRST + 60):
        monday = first_day(day, WEEK)
        assert (monday - 4) % 7 == 0
        assert monday <= day < monday + 7
        assert first_day(day, FOUR_WEEKS) == first_day(monday, FOUR_WEEKS)


def test_two_that_became_one_have_the_sums_of_both(rng: random.Random) -> None:
    one, other = marks(rng, 40, 20), marks(rng, 40, 25)
    both = together([followed(one, 9), followed(other, 9)])
    expected = credit_history(
        sorted([*one, *other], key=lambda mark: mark.time),
        created=FIRST * DAY,
        first_day=FIRST,
        now=(FIRST + 26) * DAY,
    )
    assert both[-1].total == pytest.approx(sum(mark.granted for mark in (*one, *other)))
    assert both[-1].total_results == 80
    last = both[-1]
    average = next(item.average for item in expected if item.day == last.day)
    assert decayed(last.recent, last.end) == pytest.approx(average, rel=0.1)
    assert together([[], []]) == []


@pytest.mark.parametrize("step", [1, 7, 28])
def test_a_drawing_is_divided_without_losing_credit(rng: random.Random, step: int) -> None:
    rows = thinned(followed(marks(rng, 300, 100), 50)[:60], n_days=WEEK)
    now = (rows[-1].day + 10) * DAY + 3600
    found = slots(rows, step=step, now=now)
    assert sum(slot.granted for slot in found) * step == pytest.approx(rows[-1].total)
    assert [slot.day for slot in found] == list(range(found[0].day, found[0].day + step * len(found), step))
    assert found[-1].day + step == rows[-1].day + 11
    assert found[-1].average == pytest.approx(decayed(rows[-1].recent, now))
    assert slots([], step=1, now=now) == []


@pytest.mark.parametrize("n_days", [1, 60, 61, 420, 3000, 30_000, 10**6])
def test_there_are_never_more_parts_than_a_drawing_has_room_for(n_days: int) -> None:
    assert -(-n_days // slot_days(n_days)) <= 60


def test_a_clock_that_was_ahead_breaks_no_drawing() -> None:
    row = CreditPeriod(day=FIRST + 5, granted=3.0, recent=RecentAverage(1.0, (FIRST + 5) * DAY))
    (slot,) = slots([row], step=1, now=FIRST * DAY)
    assert slot.granted == 3.0
