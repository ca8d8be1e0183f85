"""The drawing of credit over time."""

from __future__ import annotations

import random

import pytest

from cobblestone.policy.credit.history import CreditDay
from cobblestone.server.web.presentation.plots import (
    BOTTOM,
    DAYS_NEEDED,
    DAYS_SHOWN,
    FEWEST_DRAWN,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    CreditPlot,
    Value,
    credit_plot,
    history_plot,
)

DAY = 86400.0
TODAY = 20_833
NOW = TODAY * DAY + 43_200.0


def days(granted: dict[int, float], averages: dict[int, float] | None = None) -> list[CreditDay]:
    """A month, by how many days ago."""
    return [
        CreditDay(
            day=TODAY - ago,
            granted=granted.get(ago, 0.0),
            n_results=1,
            average=(averages or {}).get(ago, 0.0),
        )
        for ago in range(DAYS_NEEDED - 1, -1, -1)
    ]


def drawn(*args: dict[int, float]) -> CreditPlot:
    plot = credit_plot(days(*args), now=NOW)
    assert plot is not None
    return plot


def points(plot: CreditPlot) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in (point.split(",") for point in plot.line.split())]


def test_without_credit_there_is_no_drawing() -> None:
    assert credit_plot(days({}), now=NOW) is None
    assert credit_plot(days({}, {0: 1e-9}), now=NOW) is None


def test_a_day_is_a_bar_and_the_highest_reaches_no_further_than_the_top() -> None:
    plot = drawn({1: 250.0, 0: 125.0})
    assert len(plot.bars) == DAYS_SHOWN
    assert [bar.granted for bar in plot.bars[-2:]] == [250.0, 125.0]
    assert plot.bars[-2].height == pytest.approx(2 * plot.bars[-1].height, abs=0.2)
    assert TOP <= plot.bars[-2].y < HEIGHT


def test_the_line_goes_through_the_averages_at_the_ends_of_days_and_ends_now() -> None:
    plot = drawn({}, {DAYS_SHOWN: 40.0, 1: 20.0, 0: 10.0})
    line = points(plot)
    assert len(line) == DAYS_SHOWN + 1
    assert line[0][0] == LEFT
    assert line[-2][0] > plot.bars[-2].x + plot.bars[-2].width  # behind the bar of its day
    assert line[-1][0] == pytest.approx(WIDTH - RIGHT - (WIDTH - LEFT - RIGHT) / DAYS_SHOWN / 2, abs=0.1)
    floor = HEIGHT - BOTTOM
    assert floor - line[0][1] == pytest.approx(2 * (floor - line[-2][1]), abs=0.2)
    assert floor - line[-2][1] == pytest.approx(2 * (floor - line[-1][1]), abs=0.2)


@pytest.mark.parametrize("scale", [0.1, 0.3, 1.0, 47.0, 1e4, 3e9, 1e30])
def test_any_size_of_credit_has_round_levels_within_the_drawing(scale: float, rng: random.Random) -> None:
    plot = drawn({ago: scale * (0.1 + rng.random()) for ago in range(31)})
    assert 3 <= len(plot.levels) <= 6
    assert plot.levels[0].label == "0"
    assert len({tick.label for tick in plot.levels}) == len(plot.levels)
    assert all(TOP - 0.1 <= tick.position <= HEIGHT for tick in plot.levels)
    assert all(LEFT <= bar.x <= WIDTH and TOP - 0.1 <= bar.y <= HEIGHT for bar in plot.bars)
    assert all(LEFT + 15 < tick.position < WIDTH - 15 for tick in plot.dates)


def test_a_correction_below_nothing_draws_no_bar_upside_down() -> None:
    assert drawn({1: 90.0, 0: -40.0}).bars[-1].height == 0


def test_a_history_of_one_day_stands_at_the_end_of_a_week_with_its_average() -> None:
    plot = history_plot([Value(TODAY, 100.0, 40.0, 3)])
    assert plot is not None
    (bar,) = plot.bars
    week = (WIDTH - LEFT - RIGHT) / FEWEST_DRAWN
    assert bar.x > WIDTH - RIGHT - week
    assert bar.x + bar.width < WIDTH - RIGHT
    (begin, nothing), (end, average) = points(plot)
    assert end - begin == pytest.approx(week, abs=0.2)
    assert nothing == HEIGHT - BOTTOM
    assert average < nothing
    assert [tick.position for tick in plot.dates] == [pytest.approx(bar.x + bar.width / 2, abs=0.2)]
