"""Credit per day as bars and recent average credit as a line, as the geometry of a small drawing."""

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


@dataclass(frozen=True, slots=True)
class Bar:
    """Credit of one day."""

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
    top = max(before.average, *(max(item.granted, item.average) for item in shown))
    if top <= SMALLEST_SHOWN:
        return None
    step = _step(top)
    ceiling = math.ceil(top / step) * step
    width = (WIDTH - LEFT - RIGHT) / DAYS_SHOWN

    def x(place: float) -> float:
        return LEFT + place * width

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * max(value, 0.0) / ceiling

    bars = tuple(
        Bar(
            x=round(x(place) + width * 0.15, 1),
            y=round(y(item.granted), 1),
            width=round(width * 0.7, 1),
            height=round(y(0) - y(item.granted), 1),
            date=day(item.day * SECONDS_PER_DAY),
            granted=item.granted,
            average=item.average,
            n_results=item.n_results,
        )
        for place, item in enumerate(shown)
    )
    # An average is that of its day's end; today has only come as far as now.
    ends = [*range(DAYS_SHOWN), DAYS_SHOWN - 1 + now / SECONDS_PER_DAY - shown[-1].day]
    averages = [item.average for item in (before, *shown)]
    return CreditPlot(
        bars=bars,
        line=" ".join(f"{x(end):.1f},{y(value):.1f}" for end, value in zip(ends, averages, strict=True)),
        levels=tuple(Tick(round(y(step * n), 1), _level(step * n)) for n in range(round(ceiling / step) + 1)),
        dates=tuple(
            Tick(round(x(place + 0.5), 1), day(shown[place].day * SECONDS_PER_DAY).rsplit(" ", 1)[0])
            for place in range(2, DAYS_SHOWN - 3, 7)
        ),
    )


def _step(top: float) -> float:
    """A round distance between levels, so that there are two to five of them."""
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
