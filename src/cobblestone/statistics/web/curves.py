"""Charts of total credit, stacked: computed on the server, drawn with SVG."""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cobblestone.service.languages import gettext as _
from cobblestone.service.pages import wording
from cobblestone.statistics.store.history import DAY_SECONDS
from cobblestone.statistics.store.queries import DayFigures

WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 640.0, 240.0, 56.0, 22.0, 8.0, 6.0
#: Half the width of the bar that stands for a single day, as a part of the whole.
HALF_BAR = 0.06
MOST_LAYERS = 8
MOST_POINTS = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One coloured area, or one line."""

    label: str
    points: str
    last: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GridTick:
    """A grid line, or a date."""

    position: float
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """The data of a chart for the template."""

    layers: Sequence[Layer]
    levels: Sequence[GridTick]
    dates: Sequence[GridTick]
    of_one: bool  #: whether it shows a single day, as a bar


def value_at(days: Sequence[DayFigures], day: float) -> float:
    """Return the total at the end of a day: that of the last change so far.

    Before the first it is that of the first: what the site did not know yet was done before; nothing, if it did not count yet.
    """
    place = bisect.bisect_right(days, day, key=lambda each: each.day)
    if not days or (place == 0 and days[0].brought is not None):
        return 0.0
    return days[max(place, 1) - 1].total


def curves(
    histories: Mapping[str, Sequence[DayFigures]], *, until: float, step: float = 1.0, stacked: bool = True
) -> Curves | None:
    """Return the chart of totals by label, the largest at the bottom; None without any credit.

    ``until``: the last day, since 1970; ``step``: of the histories, in days.  What is beyond
    `MOST_LAYERS` is drawn as one.  Not stacked: lines.  A single day is a bar for all, or bars beside each other.
    """
    known = {label: days for label, days in histories.items() if days}
    first = min((days[0].day for days in known.values()), default=until)
    of_one = until <= first
    shown_days = [until, until] if of_one else _spread(first, until, step)
    values = _largest(
        {label: [value_at(days, day + step / 2) for day in shown_days] for label, days in known.items()}
    )
    base: Sequence[float] = [0.0] * len(shown_days)
    tops: list[tuple[Sequence[float], Sequence[float]]] = []
    for own in values.values():
        top = [low + value for low, value in zip(base, own, strict=True)] if stacked else own
        tops.append((base, top))
        base = top if stacked else base
    most = max((max(top) for _base, top in tops), default=0.0)
    if most <= 0:
        return None
    shares = [0.5 - HALF_BAR, 0.5 + HALF_BAR]
    if not of_one:
        shares = [(day - first) / (until - first) for day in shown_days]
    beside = 3 * HALF_BAR if of_one and not stacked else 0.0

    def outline(number: int, low: Sequence[float], top: Sequence[float]) -> str:
        x = [_left(share + (number - (len(tops) - 1) / 2) * beside) for share in shares]
        there = [f"{place:.1f},{_height(value / most):.1f}" for place, value in zip(x, top, strict=True)]
        back = [f"{place:.1f},{_height(value / most):.1f}" for place, value in zip(x, low, strict=True)][::-1]
        return " ".join(there + (back if stacked or of_one else []))

    return Curves(
        layers=[
            Layer(label=label, points=outline(number, *tops[number]), last=own[-1])
            for number, (label, own) in enumerate(values.items())
        ],
        levels=[GridTick(position=_height(level / most), label=short(level)) for level in round_levels(most)],
        dates=[
            GridTick(position=_left(share), label=_date(first + share * (until - first), until - first))
            for share in ((0.5,) if of_one else (0.13, 0.5, 0.87))
        ],
        of_one=of_one,
    )


def _largest(values: Mapping[str, Sequence[float]]) -> dict[str, Sequence[float]]:
    """Return the values by label, the largest at the end first; what is beyond `MOST_LAYERS` added up."""
    order = sorted(values, key=lambda label: -values[label][-1])
    found = {label: values[label] for label in order}
    if len(order) > MOST_LAYERS:
        rest = [found.pop(label) for label in order[MOST_LAYERS - 1 :]]
        found[_("others")] = [sum(column) for column in zip(*rest, strict=True)]
    return found


def _left(share: float) -> float:
    """Return the place of a part of the time, from the left."""
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def _height(share: float) -> float:
    """Return the place of a part of the largest value, from above."""
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def round_levels(most: float) -> list[float]:
    """Return round amounts from 0 to ``most``, four to eight of them."""
    if not 0 < most < math.inf:
        return [0.0]
    power = 10.0 ** math.floor(math.log10(most / 4))
    step = max(factor * power for factor in (1, 2, 5) if factor * power <= most / 3)
    return [number * step for number in range(int(most / step + 1e-9) + 1)]


def sparkline(days: Sequence[DayFigures], *, until: float) -> str:
    """Return the points of a sparkline of recent credit, 120 wide and 28 high; empty with less than two days."""
    if len(days) < 2 or until <= days[0].day:
        return ""
    most = max(each.recent for each in days) or 1.0
    chosen = days[:: max(1, len(days) // 100)]
    return " ".join(
        f"{2 + 116 * (each.day - days[0].day) / (until - days[0].day):.1f},{26 - 24 * each.recent / most:.1f}"
        for each in chosen
    )


def short(value: float) -> str:
    """Return an amount in short form."""
    for unit in ("", "k", "M", "G", "T", "P"):
        if value < 1000:
            digits = 0 if value >= 100 or value == round(value) else 1 if value >= 1 else 2
            return wording.number(value, digits) + (f" {unit}" if unit else "")
        value /= 1000
    return wording.number(value, 1) + " E"


def _spread(first: float, until: float, step: float) -> list[float]:
    """Return the days to draw: whole steps, and never too many."""
    steps = max(1, round((until - first) / step))
    drawn = min(steps, MOST_POINTS)
    return [first + round(place * steps / drawn) * step for place in range(drawn)] + [until]


def _date(day: float, range_: float) -> str:
    """Return a date, or a time of day if the chart covers only parts of days, or a day or two."""
    time = day * DAY_SECONDS
    return wording.day(time) if range_ > 2 or (range_ == 0 and day == int(day)) else wording.moment(time)
