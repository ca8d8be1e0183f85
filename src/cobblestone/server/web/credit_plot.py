"""Credit per day and recent average over the last month, as the geometry of a small drawing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cobblestone.domain.statistics import SECONDS_PER_DAY, RecentAverage
from cobblestone.policy.credit.rac import update_average
from cobblestone.server.web.wording import day
from cobblestone.store.pages import DayCredit

DAYS_SHOWN = 30
DAYS_READ = DAYS_SHOWN + 42
"""Six half-lives before the first day that is shown: what was earned earlier is 2 % of it by then."""

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


def first_day_read(now: float) -> float:
    """Start of the first day whose credit is needed, Unix seconds."""
    return (math.floor(now / SECONDS_PER_DAY) - DAYS_READ + 1) * SECONDS_PER_DAY


def credit_plot(days: Sequence[DayCredit], *, now: float) -> CreditPlot | None:
    """Draw credit by day; None when there is none to show."""
    today = math.floor(now / SECONDS_PER_DAY)
    by_day = {item.day: item for item in days}
    first = today - DAYS_READ + 1
    average = RecentAverage(0.0, first * SECONDS_PER_DAY)
    shown: list[tuple[int, DayCredit, float]] = []
    for number in range(first, today + 1):
        item = by_day.get(number, DayCredit(number, 0.0, 0))
        end = min((number + 1) * SECONDS_PER_DAY, now)
        average = update_average(average, credit=item.granted, work_start=number * SECONDS_PER_DAY, now=end)
        if number > today - DAYS_SHOWN:
            shown.append((number, item, average.value))
    top = max(max(item.granted, value) for _, item, value in shown)
    if top <= 0:
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
            date=day(number * SECONDS_PER_DAY),
            granted=item.granted,
            average=value,
            n_results=item.n_results,
        )
        for place, (number, item, value) in enumerate(shown)
    )
    return CreditPlot(
        bars=bars,
        line=" ".join(f"{x(place + 0.5):.1f},{y(value):.1f}" for place, (_, _, value) in enumerate(shown)),
        levels=tuple(Tick(round(y(step * n), 1), _level(step * n)) for n in range(round(ceiling / step) + 1)),
        dates=tuple(
            Tick(round(x(place + 0.5), 1), day(shown[place][0] * SECONDS_PER_DAY).rsplit(" ", 1)[0])
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
