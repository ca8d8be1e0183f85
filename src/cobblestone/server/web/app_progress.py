"""What the jobs of an app did since its first day, as small drawings one above the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cobblestone.policy.credit.history import day_of
from cobblestone.policy.credit.periods import slot_days
from cobblestone.server.web.credit_plot import CreditPlot, Value, history_plot
from cobblestone.service.languages import N_
from cobblestone.service.languages import gettext as _
from cobblestone.store.work.app_days import AppDay

_COUNTED: Mapping[str, str] = {
    "n_success": N_("Jobs done a day"),
    "n_error": N_("Jobs given up a day"),
    "granted": N_("Credit a day"),
    "n_hosts": N_("Active computers"),
    "n_unsent": N_("Tasks to do"),
    "n_in_progress": N_("Tasks in progress"),
}
_AT_THE_END = ("n_unsent", "n_in_progress")  # of a span; the others are means of its days


@dataclass(frozen=True, slots=True)
class Measure:
    """One drawing."""

    title: str
    plot: CreditPlot | None  #: None: it was always 0


@dataclass(frozen=True, slots=True)
class Progress:
    """An app over time."""

    measures: tuple[Measure, ...]
    step: int  #: days that a bar stands for
    first_day: int  #: days since 1970, UTC
    n_done: int  #: jobs since the first day

    @property
    def rows(self) -> list[tuple[str, list[float]]]:
        """The figures: a date, and a value of each drawing (0 where there is none), the newest first."""
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


def progress(days: Sequence[AppDay], *, now: float) -> Progress | None:
    """Draw the days of an app (in order); None when nothing has happened yet."""
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
    return Progress(measures, step, days[0].day, sum(item.n_success for item in days))


def _amount(name: str, part: Sequence[AppDay], *, step: int) -> float:
    values = [float(getattr(item, name)) for item in part]
    if name in _AT_THE_END:
        return values[-1] if values else 0.0
    return sum(values) / step
