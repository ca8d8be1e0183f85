"""The drawing of credit over time."""

from __future__ import annotations

import random

import pytest

from cobblestone.domain.statistics import RecentAverage
from cobblestone.policy.credit.rac import decayed, update_average
from cobblestone.server.web.credit_plot import (
    DAYS_SHOWN,
    HEIGHT,
    LEFT,
    TOP,
    WIDTH,
    credit_plot,
    first_day_read,
)
from cobblestone.store.pages import DayCredit

DAY = 86400.0
TODAY = 20_833
NOW = TODAY * DAY + 43_200.0


def test_without_credit_there_is_no_drawing() -> None:
    assert credit_plot([], now=NOW) is None


def test_a_day_is_a_bar_and_the_highest_reaches_no_further_than_the_top() -> None:
    days = [DayCredit(TODAY - 1, 250.0, 5), DayCredit(TODAY, 125.0, 2)]
    plot = credit_plot(days, now=NOW)
    assert plot is not None
    assert len(plot.bars) == DAYS_SHOWN
    assert [bar.granted for bar in plot.bars[-2:]] == [250.0, 125.0]
    assert plot.bars[-2].height == pytest.approx(2 * plot.bars[-1].height, abs=0.2)
    assert TOP <= plot.bars[-2].y < HEIGHT


def test_the_line_is_the_published_average() -> None:
    plot = credit_plot([DayCredit(TODAY - 3, 700.0, 1)], now=NOW)
    assert plot is not None
    start = RecentAverage(0.0, first_day_read(NOW))
    one_day = update_average(
        RecentAverage(0.0, (TODAY - 3) * DAY),
        credit=700.0,
        work_start=(TODAY - 3) * DAY,
        now=(TODAY - 2) * DAY,
    )
    assert start.time == (TODAY - 71) * DAY
    assert plot.bars[-4].average == pytest.approx(one_day.value)
    assert plot.bars[-1].average == pytest.approx(decayed(one_day, NOW))


@pytest.mark.parametrize("scale", [1e-6, 0.3, 1.0, 47.0, 1e4, 3e9, 1e30])
def test_any_size_of_credit_has_round_levels_within_the_drawing(scale: float, rng: random.Random) -> None:
    days = [DayCredit(TODAY - n, scale * rng.random(), 1) for n in range(40, -1, -1)]
    plot = credit_plot(days, now=NOW)
    assert plot is not None
    assert 3 <= len(plot.levels) <= 6
    assert plot.levels[0].label == "0"
    assert len({tick.label for tick in plot.levels}) == len(plot.levels)
    assert all(TOP - 0.1 <= tick.position <= HEIGHT for tick in plot.levels)
    assert all(LEFT <= bar.x <= WIDTH and TOP - 0.1 <= bar.y <= HEIGHT for bar in plot.bars)
    assert all(LEFT + 15 < tick.position < WIDTH - 15 for tick in plot.dates)


def test_a_correction_below_nothing_draws_no_bar_upside_down() -> None:
    plot = credit_plot([DayCredit(TODAY - 1, 90.0, 1), DayCredit(TODAY, -40.0, 1)], now=NOW)
    assert plot is not None
    assert plot.bars[-1].height == 0
