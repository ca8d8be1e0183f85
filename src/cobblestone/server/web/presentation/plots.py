"""Charts drawn on the server: credit by day, progress of an app, a figure over time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cobblestone.domain.values import DAY
from cobblestone.policy.credit.history import CreditDay, day_of, slot_days
from cobblestone.service.languages import N_
from cobblestone.service.languages import gettext as _
from cobblestone.service.pages.wording import day
from cobblestone.store.operation.figures import FigureSample
from cobblestone.store.work.job_results import AppDay

DAYS_SHOWN = 30
#: The line begins at the end of the day before the first bar.
DAYS_NEEDED = DAYS_SHOWN + 1

#: Days for which there is room at least: a bar of the first day alone has no height to be compared with.
FEWEST_DRAWN = 7

#: Less than this in all days is nothing to be drawn: averages never end.
SMALLEST_SHOWN = 0.005

WIDTH, HEIGHT = 420, 190
LEFT, RIGHT, TOP, BOTTOM = 44, 6, 10, 22
WIDEST_BAR = 26.0


@dataclass(frozen=True, slots=True)
class Bar:
    """The credit of one day, or the daily average over several days."""

    x: float
    y: float
    width: float
    height: float
    date: str
    granted: float
    average: float
    n_results: int


@dataclass(frozen=True, slots=True)
class PlotTick:
    """A label at an axis."""

    position: float
    label: str


@dataclass(frozen=True, slots=True)
class CreditPlot:
    """A chart of ``WIDTH`` x ``HEIGHT`` units."""

    bars: tuple[Bar, ...]
    line: str  #: points of the recent average
    levels: tuple[PlotTick, ...]
    dates: tuple[PlotTick, ...]


def credit_plot(days: Sequence[CreditDay], *, now: float) -> CreditPlot | None:
    """Draw the last of ``days`` (in order, without gaps, ending today); return None if there is nothing to show."""
    before, shown = days[-DAYS_NEEDED], days[-DAYS_SHOWN:]
    # An average is that of its day's end; today has only come as far as now.
    ends = [*range(DAYS_SHOWN), DAYS_SHOWN - 1 + now / DAY - shown[-1].day]
    return _drawing(
        [Value(item.day, item.granted, item.average, item.n_results) for item in shown],
        [(end, item.average) for end, item in zip(ends, (before, *shown), strict=True)],
        [(place, day(shown[place].day * DAY).rsplit(" ", 1)[0]) for place in range(2, DAYS_SHOWN - 3, 7)],
    )


@dataclass(frozen=True, slots=True)
class Value:
    """The value of a bar: some days from ``day`` (since 1970, UTC) on."""

    day: int
    amount: float  #: a day, or at its end
    average: float = 0.0  #: recent average at its end
    n_results: float = 0


def history_plot(values: Sequence[Value], *, averages: bool = True) -> CreditPlot | None:
    """Draw the whole time, a week at least, as bars and a line of averages; return None if there is nothing to show."""
    step = max(1, -(-len(values) // 3))
    return _drawing(
        values,
        [(0.0, 0.0), *((place + 1.0, item.average) for place, item in enumerate(values))] if averages else [],
        [(place, day(values[place].day * DAY)) for place in range(step // 2, len(values), step)],
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
    empty = max(0, FEWEST_DRAWN - len(values))  # at the left
    width = (WIDTH - LEFT - RIGHT) / (empty + len(values))
    bar_width = min(width * 0.7, WIDEST_BAR)

    def x(place: float) -> float:
        return LEFT + (empty + place) * width

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * max(value, 0.0) / ceiling

    return CreditPlot(
        bars=tuple(
            Bar(
                x=round(x(place + 0.5) - bar_width / 2, 1),
                y=round(y(item.amount), 1),
                width=round(bar_width, 1),
                height=round(y(0) - y(item.amount), 1),
                date=day(item.day * DAY),
                granted=item.amount,
                average=item.average,
                n_results=round(item.n_results),
            )
            for place, item in enumerate(values)
        ),
        line=" ".join(f"{x(place):.1f},{y(value):.1f}" for place, value in line),
        levels=tuple(
            PlotTick(round(y(step * n), 1), _level(step * n)) for n in range(round(ceiling / step) + 1)
        ),
        dates=tuple(PlotTick(round(x(place + 0.5), 1), label) for place, label in dates),
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


_COUNTED: Mapping[str, str] = {
    "n_success": N_("Jobs done per day"),
    "n_error": N_("Jobs given up per day"),
    "granted": N_("Credit per day"),
    "n_hosts": N_("Active computers"),
    "n_unsent": N_("Remaining tasks"),
    "n_in_progress": N_("Tasks in progress"),
}
_AT_THE_END = ("n_unsent", "n_in_progress")  # of a span; the others are means of its days


@dataclass(frozen=True, slots=True)
class Measure:
    """One chart."""

    title: str
    plot: CreditPlot | None  #: None: it was always 0


@dataclass(frozen=True, slots=True)
class AppProgress:
    """An app over time."""

    measures: tuple[Measure, ...]
    step: int  #: days that a bar stands for
    first_day: int  #: days since 1970, UTC
    n_done: int  #: jobs since the first day

    @property
    def rows(self) -> list[tuple[str, list[float]]]:
        """Return the figures, newest first: a date, and a value for each chart (0 if there is none)."""
        drawn = next(measure.plot for measure in self.measures if measure.plot is not None)
        found = [
            (
                bar.date,
                [
                    0.0 if measure.plot is None else measure.plot.bars[place].granted
                    for measure in self.measures
                ],
            )
            for place, bar in enumerate(drawn.bars)
        ]
        return found[::-1]


def progress(days: Sequence[AppDay], *, now: float) -> AppProgress | None:
    """Draw the days of an app (in order); return None if there are no results yet."""
    if not days:
        return None
    end = max(day_of(now), days[-1].day) + 1
    step = slot_days(end - days[0].day)
    n_slots = -(-(end - days[0].day) // step)
    first = end - n_slots * step
    parts: list[list[AppDay]] = [[] for _place in range(n_slots)]
    for item in days:
        parts[(item.day - first) // step].append(item)
    measures = tuple(
        Measure(
            _(title),
            history_plot(
                [
                    Value(first + place * step, _amount(name, part, step=step))
                    for place, part in enumerate(parts)
                ],
                averages=False,
            ),
        )
        for name, title in _COUNTED.items()
    )
    if all(measure.plot is None for measure in measures):
        return None
    return AppProgress(measures, step, days[0].day, sum(item.n_success for item in days))


def _amount(name: str, part: Sequence[AppDay], *, step: int) -> float:
    values = [float(getattr(item, name)) for item in part]
    if name in _AT_THE_END:
        return values[-1] if values else 0.0
    return sum(values) / step


LINE_WIDTH, LINE_HEIGHT, MARGIN = 140.0, 30.0, 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sparkline:
    """A line from left (oldest) to right, and its labels."""

    points: str  #: of an SVG polyline; empty: nothing to draw
    last: float
    least: float
    most: float


def course(samples: Sequence[FigureSample], name: str) -> list[tuple[float, float]]:
    """Return a figure over time."""
    return [(sample.time, sample.figures[name]) for sample in samples if name in sample.figures]


def rate_per_hour(samples: Sequence[FigureSample], name: str) -> list[tuple[float, float]]:
    """Return the growth of a counter per hour between samples.  A counter that fell was restarted: that step counts from 0."""
    values = course(samples, name)
    rates: list[tuple[float, float]] = []
    for (before, low), (time, high) in itertools.pairwise(values):
        if time > before:
            rates.append((time, (high - low if high >= low else high) * 3600 / (time - before)))
    return rates


def sparkline(values: Sequence[tuple[float, float]]) -> Sparkline:
    """Return the chart of values over time; the axis starts at 0."""
    if not values:
        return Sparkline(points="", last=0.0, least=0.0, most=0.0)
    numbers = [value for _, value in values]
    most = max(numbers)
    first, span = values[0][0], max(values[-1][0] - values[0][0], 1.0)
    scale = (LINE_HEIGHT - 2 * MARGIN) / most if most > 0 else 0.0
    points = " ".join(
        f"{MARGIN + (time - first) / span * (LINE_WIDTH - 2 * MARGIN):.1f},{LINE_HEIGHT - MARGIN - value * scale:.1f}"
        for time, value in values
    )
    return Sparkline(
        points=points if len(values) > 1 else "", last=numbers[-1], least=min(numbers), most=most
    )


def thinned(samples: Sequence[FigureSample], at_most: int = 140) -> list[FigureSample]:
    """Return evenly thinned samples, so that a line has no more points than its width; the newest is kept."""
    step = max(1, -(-len(samples) // at_most))
    return list(samples)[::-1][::step][::-1]


def drawings(samples: Sequence[FigureSample], names: Sequence[str]) -> Mapping[str, Sparkline]:
    """Return a chart for each figure; those that start with ``n_`` as rates per hour."""
    chosen = thinned(samples)
    return {
        name: sparkline(rate_per_hour(chosen, name) if name.startswith("n_") else course(chosen, name))
        for name in names
    }
