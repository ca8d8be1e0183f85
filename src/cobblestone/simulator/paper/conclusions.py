"""Which of the paper's conclusions hold, judged by the runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from html import escape

from cobblestone.simulator.paper.cells import (
    BASE,
    MIXES,
    Cell,
    Mode,
    buffer_cell,
    mix_cell,
    slack_cell,
    variance_cell,
)
from cobblestone.simulator.paper.draw import Results, point
from cobblestone.simulator.paper.golden import CS1, JC1, WF1, WS1

_ONE_RUN: tuple[Mode, Mode] = ("literal", "relative")
#: Differences of a metric up to this much count as none.
SAME = 0.01
#: A difference that a conclusion of the paper may be built on.
MARKED = 0.05


@dataclass(frozen=True, slots=True)
class Conclusion:
    """A statement of the paper, what the runs say of it, and the figures."""

    statement: str
    verdict: str
    evidence: str


class _Runs:
    """Means of the cells, and pairs of them."""

    def __init__(self, results: Results) -> None:
        self._results = results

    def mean(self, cell: Cell, metric: str = "waste") -> float:
        """Return a mean, NaN if the cell was not run."""
        return point(self._results, cell.key, metric).mean if cell.key in self._results else math.nan

    def pair(self, make: Callable[[str], Cell], first: str, metric: str = "waste") -> tuple[float, float]:
        """Return a metric under another policy and under the paper's."""
        return self.mean(make(first), metric), self.mean(make(BASE), metric)


def draw_conclusions(results: Results) -> list[Conclusion]:
    """Judge each conclusion; figures are means over the seeds."""
    runs = _Runs(results)
    return [
        _of_the_mixes(runs, "EDF for endangered jobs (CS2) wastes less than round robin (CS1)", CS1),
        _of_the_mixes(runs, "Debt and shortfall (WF2) waste less than a queue per project (WF1)", WF1),
        _share_violation(runs),
        _slack(runs),
        _server_check(runs),
        _price_of_the_check(runs),
        _correction_factor(runs),
        _buffers(runs),
    ]


def conclusions(results: Results) -> str:
    """Return the conclusions as a section of the report."""
    rows = "".join(
        f"<tr><td>{escape(c.statement)}</td><td><b>{escape(c.verdict)}</b></td><td>{escape(c.evidence)}</td></tr>"
        for c in draw_conclusions(results)
    )
    head = "<tr><th>Conclusion</th><th>Verdict</th><th>Means (first : second policy)</th></tr>"
    return f"<h2>Which conclusions hold</h2><table>{head}{rows}</table>"


def _show(pair: tuple[float, float]) -> str:
    return f"{pair[0]:.3f} : {pair[1]:.3f}"


def _unknown(*values: float) -> bool:
    return any(math.isnan(v) for v in values)


def _of_the_mixes(runs: _Runs, statement: str, other: str) -> Conclusion:
    def at(mode: Mode, *, tight: bool) -> tuple[float, float]:
        return runs.pair(lambda policy: mix_cell(8, policy, mode, tight=tight), other)

    faulty, right = at("compatible", tight=True), at("corrected", tight=True)
    printed = at("compatible", tight=False)
    if _unknown(*faulty, *right, *printed):
        verdict = "not run"
    elif right[0] - right[1] < MARKED:
        verdict = "came from a fault" if faulty[0] - faulty[1] >= MARKED else "does not hold"
    elif printed[0] - printed[1] < SAME:
        verdict = "holds with the tight base bound, not with the printed one"
    else:
        verdict = "holds"
    return Conclusion(
        statement,
        verdict,
        f"8 projects, base bound 65000 s: waste {_show(faulty)} (corrected {_show(right)}); printed 9 days: {_show(printed)}",
    )


def _share_violation(runs: _Runs) -> Conclusion:
    worst: dict[Mode, float] = {}
    modes: tuple[Mode, ...] = ("compatible", "corrected")
    for mode in modes:
        worst[mode] = max(runs.mean(mix_cell(m, BASE, mode, tight=True), "share_violation") for m in MIXES)
    values = list(worst.values())
    verdict = (
        "not run" if _unknown(*values) else ("holds" if max(values) < 0.1 + SAME else "holds for most mixes")
    )
    return Conclusion(
        "Share violation stays below about 0.10 for 1 to 20 projects",
        verdict,
        f"largest mean with the tight bound: {worst['compatible']:.3f}, corrected {worst['corrected']:.3f}",
    )


def _slack(runs: _Runs) -> Conclusion:
    two = runs.mean(slack_cell(2.0, BASE, "compatible"))
    two_right = runs.mean(slack_cell(2.0, BASE, "corrected"))
    five = runs.mean(slack_cell(5.0, BASE, "corrected"))
    if _unknown(two, two_right, five):
        verdict = "not run"
    elif five > SAME:
        verdict = "does not hold"
    elif two - two_right >= MARKED:
        verdict = "the shape holds, the 0.75 came from a fault"
    else:
        verdict = "holds"
    return Conclusion(
        "Waste falls to nothing from slack 5 on; 0.75 at slack 2",
        verdict,
        f"slack 2: {two:.3f} with the faults of 2007, {two_right:.3f} without: the server compared absolute deadlines with"
        f" times that count from zero, so that its check admitted everything; slack 5: {five:.3f}",
    )


def _server_check(runs: _Runs) -> Conclusion:
    def at(stdev: float, mode: Mode) -> tuple[float, float]:
        return runs.pair(lambda policy: variance_cell(stdev, policy, mode), WS1)

    ten, ten_right = at(10.0, "compatible"), at(10.0, "corrected")
    hundred, hundred_right = at(100.0, "compatible"), at(100.0, "corrected")
    gain, gain_right = hundred[0] - hundred[1], hundred_right[0] - hundred_right[1]
    if _unknown(*ten, *ten_right, *hundred, *hundred_right):
        verdict = "not run"
    elif gain < MARKED:
        verdict = "does not hold"
    else:
        found: list[str] = []
        if ten_right[0] - ten_right[1] >= MARKED > ten[0] - ten[1]:
            found.append(
                "it pays at 10 times the mean already: the limit came from a fault, the absolute deadlines"
            )
        if gain_right < 0.5 * gain:
            found.append(
                "most of its gain at larger deviations came from a fault: the check knew the true sizes"
            )
        verdict = "; ".join(found) or "holds"
    return Conclusion(
        "The server's deadline check (WS2) saves waste, but only for a standard deviation above 10 times the mean",
        verdict,
        f"waste at standard deviation 10: {_show(ten)} (corrected {_show(ten_right)}); 100: {_show(hundred)}"
        f" (corrected {_show(hundred_right)}){_mended(runs)}",
    )


def _mended(runs: _Runs) -> str:
    """Say what the 2007 code gives with nothing but the check's deadlines mended, if that was run."""
    before, after = (runs.mean(variance_cell(3.0, BASE, mode)) for mode in _ONE_RUN)
    if _unknown(before, after):
        return ""
    return (
        f"; the code of 2007 with the check's deadlines counted from now on, all else as it was: {before:.3f} becomes"
        f" {after:.3f} at 3, so that the limit of ten times the mean is due to the absolute deadlines"
    )


def _price_of_the_check(runs: _Runs) -> Conclusion:
    def at(mode: Mode) -> tuple[float, float]:
        return runs.pair(lambda policy: variance_cell(100.0, policy, mode), WS1, "idleness")

    faulty, right = at("compatible"), at("corrected")
    if _unknown(*faulty, *right):
        verdict = "not run"
    elif right[1] - right[0] >= MARKED:
        verdict = "holds"
    else:
        verdict = "came from a fault" if faulty[1] - faulty[0] >= MARKED else "does not hold"
    return Conclusion(
        "The check is paid for with idleness",
        verdict,
        f"idleness at standard deviation 100: {_show(faulty)} (corrected {_show(right)})",
    )


def _correction_factor(runs: _Runs) -> Conclusion:
    def at(error: float, mode: Mode) -> tuple[float, float]:
        return runs.pair(lambda policy: slack_cell(4.0, policy, mode, error=error), JC1)

    two_right, four, four_right = at(2.0, "corrected"), at(4.0, "compatible"), at(4.0, "corrected")
    if _unknown(*two_right, *four, *four_right):
        verdict = "not run"
    elif two_right[0] - two_right[1] < MARKED:
        verdict = "came from a fault"
    elif four[0] - four_right[0] >= MARKED:
        verdict = "holds, exaggerated by a fault"
    else:
        verdict = "holds"
    return Conclusion(
        "A correction factor (JC2) is essential from an error of 2; without it waste is almost 1 at 4",
        verdict,
        f"error 4: {_show(four)} with the faults, {_show(four_right)} without; error 2: {_show(two_right)} without. Among"
        " equal deadlines the client of 2007 ran the job with least left, so that underestimated jobs took turns and all"
        " came late",
    )


def _buffers(runs: _Runs) -> Conclusion:
    small = runs.mean(buffer_cell(2.0, 2.0, BASE, "corrected"))
    large = runs.mean(buffer_cell(2.0, 8.4, BASE, "corrected"))
    never = runs.mean(buffer_cell(1.0, 1.0, BASE, "corrected"))
    verdict = (
        "not run" if _unknown(small, large) else ("holds" if large - small >= MARKED else "does not hold")
    )
    return Conclusion(
        "Smaller buffers waste less",
        verdict,
        f"corrected, slack 2: 2 h {small:.3f}, 8.4 h {large:.3f}; at slack 1 with 1 h {never:.3f}: there everything is late"
        " whatever the buffer, because of the time the host is off",
    )
