"""Amounts by day as bars and recent average credit as a line, as the geometry of a small drawing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cobblestone.domain.statistics import SECONDS_PER_DAY
from cobblestone.policy.credit.history import CreditDay
from cobblestone.service.pages.wording import day

DAYS_SHOWN = 30
DAYS_NEEDED = DAYS_SHOWN + 1
"""The line begins at the end of the day before the first bar."""

SMALLEST_SHOWN = 0.005
"""Less than this in all days is nothing to be drawn: averages never end."""

WIDTH, HEIGHT = 420, 190
LEFT, RIGHT, TOP, BOTTOM = 44, 6, 10, 22
WIDEST_BAR = 26.0


@dataclass(frozen=True, slots=True)
class Bar:
    """What was credited on one day, or a day in some days on average."""

    x: float
    y: float
    width: float
    height: float
    date: str
    granted: float
    average: float
    n_results: int


@dataclass(frozen=True, slots=True)
class Tick:
    """A label at an axis."""

    position: float
    label: str


@dataclass(frozen=True, slots=True)
class CreditPlot:
    """A drawing of ``WIDTH`` x ``HEIGHT`` units."""

    bars: tuple[Bar, ...]
    line: str  #: points of the recent average
    levels: tuple[Tick, ...]
    dates: tuple[Tick, ...]


def credit_plot(days: Sequence[CreditDay], *, now: float) -> CreditPlot | None:
    """Draw the last of ``days`` (in order, without a gap, the last one is today); None when there is nothing to show."""
    before, shown = days[-DAYS_NEEDED], days[-DAYS_SHOWN:]
    # An average is that of its day's end; today has only come as far as now.
    ends = [*range(DAYS_SHOWN), DAYS_SHOWN - 1 + now / SECONDS_PER_DAY - shown[-1].day]
    return _drawing(
        [Value(item.day, item.granted, item.average, item.n_results) for item in shown],
        [(end, item.average) for end, item in zip(ends, (before, *shown), strict=True)],
        [
            (place, day(shown[place].day * SECONDS_PER_DAY).rsplit(" ", 1)[0])
            for place in range(2, DAYS_SHOWN - 3, 7)
        ],
    )


@dataclass(frozen=True, slots=True)
class Value:
    """What a bar stands for: some days from ``day`` (since 1970, UTC) on."""

    day: int
    amount: float  #: a day, or at its end
    average: float = 0.0  #: recent average at its end
    n_results: float = 0


def history_plot(values: Sequence[Value], *, averages: bool = True) -> CreditPlot | None:
    """Draw the whole time, as bars and a line of averages; None when there is nothing to show."""
    step = max(1, -(-len(values) // 3))
    return _drawing(
        values,
        [(place + 1.0, item.average) for place, item in enumerate(values)] if averages else [],
        [(place, day(values[place].day * SECONDS_PER_DAY)) for place in range(step // 2, len(values), step)],
    )


def _drawing(
    values: Sequence[Value], line: Sequence[tuple[float, float]], dates: Sequence[tuple[int, str]]
) -> CreditPlot | None:
    """Draw values as bars of one width, and a line through (place, value), with labels of dates under some places."""
    top = max((*(item.amount for item in values), *(value for _, value in line)), default=0.0)
    if top <= SMALLEST_SHOWN:
        return None
    step = _step(top)
    ceiling = math.ceil(top / step) * step
    width = (WIDTH - LEFT - RIGHT) / len(values)
    bar_width = min(width * 0.7, WIDEST_BAR)

    def x(place: float) -> float:
        return LEFT + place * width

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * max(value, 0.0) / ceiling

    return CreditPlot(
        bars=tuple(
            Bar(
                x=round(x(place + 0.5) - bar_width / 2, 1),
                y=round(y(item.amount), 1),
                width=round(bar_width, 1),
                height=round(y(0) - y(item.amount), 1),
                date=day(item.day * SECONDS_PER_DAY),
                granted=item.amount,
                average=item.average,
                n_results=round(item.n_results),
            )
            for place, item in enumerate(values)
        ),
        line=" ".join(f"{x(place):.1f},{y(value):.1f}" for place, value in line),
        levels=tuple(Tick(round(y(step * n), 1), _level(step * n)) for n in range(round(ceiling / step) + 1)),
        dates=tuple(Tick(round(x(place + 0.5), 1), label) for place, label in dates),
    )


def _step(top: float) -> float:
    """Return a round distance between levels, so that there are two to five of them."""
    size = 10.0 ** math.floor(math.log10(top))
    for factor in (0.2, 0.25, 0.5, 1.0, 2.0, 2.5):
        if top / (size * factor) <= 4:
            return size * factor
    return size * 5


def _level(value: float) -> str:
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:g} {unit}"
    return f"{value:.3g}"
