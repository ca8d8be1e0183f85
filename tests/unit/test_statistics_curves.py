"""Charts of statistics sites: a day alone is a bar, several days are areas or lines."""

from __future__ import annotations

from cobblestone.statistics.store.queries import DayFigures
from cobblestone.statistics.web.curves import HEIGHT, LEFT, RIGHT, WIDTH, Curves, curves

DAY = 20_000.0
MIDDLE = (LEFT + WIDTH - RIGHT) / 2


def corners(chart: Curves) -> list[list[tuple[float, float]]]:
    """The points of each layer."""
    return [
        [(float(x), float(y)) for x, _, y in (point.partition(",") for point in layer.points.split())]
        for layer in chart.layers
    ]


def of_one_day(*, stacked: bool = True, day: float = DAY) -> Curves:
    histories = {"One": [DayFigures(day, 300.0, 3.0)], "Two": [DayFigures(day, 100.0, 1.0)]}
    found = curves(histories, until=day, stacked=stacked)
    assert found is not None
    return found


def test_a_single_day_is_a_bar_with_its_date_in_the_middle():
    chart = of_one_day()
    assert chart.of_one
    assert [(tick.position, tick.label) for tick in chart.dates] == [(MIDDLE, "4 Oct 2024")]
    large, small = corners(chart)
    for bar in (large, small):
        assert len(bar) == 4
        assert sum(x for x, _ in bar) / 4 == MIDDLE
        assert 50 < max(x for x, _ in bar) - min(x for x, _ in bar) < 100
    assert large[0][1] == small[2][1], "one stands on the other"
    assert chart.levels[0].label == "0"


def test_on_a_single_day_those_who_are_compared_stand_beside_each_other():
    large, small = corners(of_one_day(stacked=False))
    assert max(x for x, _ in large) < min(x for x, _ in small)
    foot = max(y for _, y in large)
    assert foot == max(y for _, y in small) < HEIGHT
    assert round((foot - large[0][1]) / (foot - small[0][1])) == 3


def test_a_moment_of_a_day_is_told_with_its_time():
    assert of_one_day(day=DAY + 0.5).dates[0].label == "4 Oct 2024, 12:00 UTC"


def test_without_credit_there_is_no_empty_frame():
    assert curves({}, until=DAY) is None
    assert curves({"One": []}, until=DAY) is None
    assert curves({"One": [DayFigures(DAY, 0.0, 0.0)]}, until=DAY) is None
    assert curves({"One": [DayFigures(DAY, 0.0, 0.0)]}, until=DAY + 5) is None


def test_from_the_second_day_on_there_is_a_line():
    days = [DayFigures(DAY + place, 100.0 * (place + 1), 1.0) for place in range(2)]
    chart = curves({"One": days}, until=DAY + 1)
    assert chart is not None
    assert not chart.of_one
    assert corners(chart)[0][0][0] == LEFT
