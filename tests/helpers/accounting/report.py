"""Figures of a simulation of accounting: falls, convergence, gains of cheats, costs; and a picture of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from tests.helpers.accounting.identities import WAYS
from tests.helpers.accounting.simulation import TICK, Person, SimulationOutcome

from cobblestone.api_schema import account_manager as schema
from cobblestone.domain.exports import CountedJobState
from cobblestone.domain.values import DAY, float_sum
from cobblestone.simulator.report.picture import load_matplotlib, save_picture

ALL = (*WAYS, "estimate")
SMALL_FALL = 0.02
FIRST_DAY = 7
BATCH = schema.MAX_BATCH
_ACCOUNT, _JOB = "0123456789abcdef" * 2, "a_workunit_of_some_length_0001234_1"
_ROW_BYTES = {
    "jobs": len(msgspec.json.encode(schema.JobQuestion(account=_ACCOUNT, name=_JOB)))
    + len(msgspec.json.encode(schema.JobGrant(state=CountedJobState.GRANTED, credit=1234.56789)))
    + 2,
    "totals": len(msgspec.json.encode(schema.TotalQuestion(account=_ACCOUNT)))
    + len(msgspec.json.encode(1234567.89012))
    + 2,
    "sums": len(
        msgspec.json.encode(
            schema.AccountSums(account=_ACCOUNT, final=1234.56789, provisional=123.456789, revoked=0.0)
        )
    )
    + 1,
}
"""Bytes that a row takes, question and answer, before compression and encryption."""
_COLOURS = {"jobs": "#e69f00", "totals": "#0072b2", "sums": "#0a7e5c", "estimate": "#c1121f"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WayFigures:
    """The effect of a method on honest people, and its costs."""

    way: str
    small_falls: float  #: part of the people whose figure never fell by more than 2 %
    fall_99: float  #: 99 % never saw a larger fall
    largest_fall: float
    within: tuple[float, float, float]  #: shown / granted when all is decided: 1st, 50th, 99th percentile
    at_end: tuple[float, float, float]  #: the same on the last day of computing
    pause_days: tuple[
        float, float
    ]  #: longest time without growth while computing, after the first grant: median, 99 %
    rows: float  #: a host and day
    bytes: float  #: a host and day, questions and answers
    requests: float  #: a host and day, in full batches


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """The gain of an attack: shown to all identities of cheats, divided by what is shown to their honest twins."""

    attack: str
    says: str
    at_end: dict[str, float]  #: by way, on the last day
    highest: dict[str, float]  #: by way, the most on any day after the first seven


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountingReport:
    """All figures of a simulation."""

    hosts: int
    cheats: int
    days: float
    seed: int
    ways: tuple[WayFigures, ...]
    gains: tuple[Gain, ...]
    example: Person  #: for the picture

    def largest_gain(self, way: str) -> float:
        """Return the largest gain of any attack on the last day."""
        return max((each.at_end[way] for each in self.gains), default=0.0)


def report_on(outcome: SimulationOutcome) -> AccountingReport:
    """Return the totals of a simulation."""
    plan = outcome.plan
    last = round(plan.days * DAY / TICK) - 1
    gains = [_gain(pairs, last) for pairs in outcome.twins.values()]
    return AccountingReport(
        hosts=len(outcome.honest),
        cheats=sum(map(len, outcome.twins.values())),
        days=plan.days,
        seed=plan.seed,
        ways=tuple(_way(outcome, way, last) for way in ALL),
        gains=tuple(gains),
        example=max(outcome.honest[:50], key=lambda each: each.granted[-1] > 0),
    )


def _way(outcome: SimulationOutcome, way: str, last: int) -> WayFigures:
    people = [each for each in outcome.honest if each.granted[-1] > 0]
    falls = sorted(each.fall(way) for each in outcome.honest)
    pauses = sorted(each.paused.get(way, 0.0) for each in people)
    rows, sizes, requests = _costs(outcome, way)
    return WayFigures(
        way=way,
        small_falls=sum(fall <= SMALL_FALL for fall in falls) / len(falls),
        fall_99=_quantile(falls, 0.99),
        largest_fall=falls[-1],
        within=_spread([each.shown[way][-1] / each.granted[-1] for each in people]),
        at_end=_spread([each.shown[way][last] / each.granted[last] for each in people if each.granted[last]]),
        pause_days=(_quantile(pauses, 0.5), _quantile(pauses, 0.99)),
        rows=rows,
        bytes=sizes,
        requests=requests,
    )


def _costs(outcome: SimulationOutcome, way: str) -> tuple[float, float, float]:
    if way == "estimate":
        return 0.0, 0.0, 0.0
    rows = outcome.costs.rows[way] / outcome.host_days
    return rows, rows * _ROW_BYTES[way], rows / BATCH


def _gain(pairs: Sequence[tuple[Person, Person]], last: int) -> Gain:
    attack = pairs[0][0].attack
    days = range(round(FIRST_DAY * DAY / TICK) - 1, last + 1)
    return Gain(
        attack=attack.name,
        says=attack.says,
        at_end={way: _ratio(pairs, way, last) for way in ALL},
        highest={way: max(_ratio(pairs, way, day) for day in days) for way in ALL},
    )


def _ratio(pairs: Sequence[tuple[Person, Person]], way: str, tick: int) -> float:
    honest = float_sum(twin.shown[way][tick] for _, twin in pairs)
    return float_sum(cheat.shown[way][tick] for cheat, _ in pairs) / honest if honest else 0.0


def _quantile(ordered: Sequence[float], part: float) -> float:
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else 0.0


def _spread(values: Sequence[float]) -> tuple[float, float, float]:
    ordered = sorted(values)
    return _quantile(ordered, 0.01), _quantile(ordered, 0.5), _quantile(ordered, 0.99)


def draw_report(report: AccountingReport, path: Path) -> None:
    """Write the picture: three people's figures, falls of honest people, gains of cheats.

    Raises:
        ConfigError: Matplotlib is missing, or the file cannot be written.
    """
    plt = load_matplotlib()
    with plt.rc_context({"svg.hashsalt": "cobblestone", "svg.fonttype": "none"}):
        fig, axes = plt.subplots(2, 1, figsize=(8.5, 10.5), layout="constrained", height_ratios=(2, 3))
        _curves(axes[0], report.example)
        _gains(axes[1], report)
        save_picture(plt, fig, path, 110)


def _curves(axis: Any, person: Person) -> None:
    days = [(number + 1) * TICK / DAY for number in range(len(person.granted))]
    axis.step(days, person.granted, color="#555555", where="post", label="granted in truth", linewidth=1)
    for way in ALL:
        axis.plot(days, person.shown[way], color=_COLOURS[way], label=way, linewidth=1.5)
    axis.set_title("What one honest person is shown (computes for 30 days)")
    axis.set_xlabel("days")
    axis.set_ylabel("credit")
    axis.set_ylim(bottom=0)
    axis.legend(frameon=False)


def _gains(axis: Any, report: AccountingReport) -> None:
    height = 0.8 / len(ALL)
    places = range(len(report.gains))
    for number, way in enumerate(ALL):
        values = [max(each.at_end[way], 1e-3) for each in report.gains]
        axis.barh(
            [-place - number * height for place in places], values, height, color=_COLOURS[way], label=way
        )
    axis.set_yticks([-place - 0.3 for place in places], [each.attack for each in report.gains])
    axis.set_xscale("log")
    axis.set_xlim(0.01, None)
    axis.axvline(1.1, color="black", linewidth=0.8)
    axis.set_title(
        f"Cheats: shown after {report.days:g} days, times what honest twins are shown (line: 1.10)"
    )
    axis.legend(frameon=False, loc="lower right")
