"""What runs say of a claim: figures of cells, or differences of policies in the same worlds, with their intervals.

A difference is taken seed by seed, since both policies meet the same world.  A claim is decided only where the whole
95 % interval lies on one side of its limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from cobblestone.domain.sums import float_sum
from cobblestone.simulator.paper.cells import BASE, Cell
from cobblestone.simulator.paper.draw import Results
from cobblestone.simulator.statistics import Estimate, estimate


class Finding(Enum):
    """What one comparison comes to."""

    TRUE = "true"
    FALSE = "false"
    UNDECIDED = "undecided"
    NOT_RUN = "not run"


class Term(NamedTuple):
    """A cell's figure, less that of another if there is one; ``x`` names the point on the figure's axis."""

    x: float
    cell: Cell
    less: Cell | None = None


def paired(results: Results, terms: Sequence[Term], metric: str) -> Estimate | None:
    """Return the mean over the terms, seed by seed, with its interval; None if a cell was not run."""
    cells = [c for t in terms for c in (t.cell, t.less) if c is not None]
    if not cells or any(c.key not in results for c in cells):
        return None
    seeds = min(len(results[c.key]) for c in cells)

    def value(term: Term, k: int) -> float:
        own = results[term.cell.key][k][metric]
        return own if term.less is None else own - results[term.less.key][k][metric]

    return estimate([float_sum(value(t, k) for t in terms) / len(terms) for k in range(seeds)])


@dataclass(frozen=True, slots=True)
class Need:
    """The values that agree with a claim: from ``low`` to ``high``."""

    low: float = -9.0
    high: float = 9.0

    def judge(self, found: Estimate | None) -> Finding:
        """Tell whether the whole interval, a part or nothing of it agrees; one run alone has no interval."""
        if found is None:
            return Finding.NOT_RUN
        if found.count < 2:
            return Finding.UNDECIDED
        bottom, top = found.mean - found.half_width, found.mean + found.half_width
        if self.low <= bottom and top <= self.high:
            return Finding.TRUE
        return Finding.FALSE if top < self.low or bottom > self.high else Finding.UNDECIDED

    def __str__(self) -> str:
        if self.high >= 9.0:
            return f"at least {self.low:g}"
        if self.low <= -9.0:
            return f"at most {self.high:g}"
        return f"{self.low:g} to {self.high:g}"


class Outcome(NamedTuple):
    """A finding and the figures behind it."""

    finding: Finding
    evidence: str


Judge = Callable[[Results, Sequence[Term], str], Outcome]


def on_average(need: Need) -> Judge:
    """Judge the mean over all terms."""

    def judge(results: Results, terms: Sequence[Term], metric: str) -> Outcome:
        found = paired(results, terms, metric)
        return Outcome(need.judge(found), str(found) if found is not None else "")

    return judge


def everywhere(need: Need) -> Judge:
    """Judge each term; one that surely fails decides, and the figure farthest from the middle is shown."""

    def judge(results: Results, terms: Sequence[Term], metric: str) -> Outcome:
        each = [(t, paired(results, [t], metric)) for t in terms]
        findings = [need.judge(found) for _, found in each]
        known = [(abs(found.mean - _middle(need)), t, found) for t, found in each if found is not None]
        worst = max(known, key=lambda k: k[0], default=None)
        text = f"farthest {worst[2]} at {worst[1].x:g}" if worst is not None else ""
        return Outcome(all_of(findings), text)

    return judge


def mostly(need: Need) -> Judge:
    """Judge whether more than half of the terms surely agree."""

    def judge(results: Results, terms: Sequence[Term], metric: str) -> Outcome:
        findings = [need.judge(paired(results, [t], metric)) for t in terms]
        if Finding.NOT_RUN in findings:
            return Outcome(Finding.NOT_RUN, "")
        true, false = findings.count(Finding.TRUE), findings.count(Finding.FALSE)
        half = len(findings) / 2.0
        finding = Finding.UNDECIDED
        if true > half or false >= half:
            finding = Finding.TRUE if true > half else Finding.FALSE
        return Outcome(finding, f"{true} of {len(findings)} surely, {false} surely not")

    return judge


def all_of(findings: Iterable[Finding]) -> Finding:
    """Return the finding of a claim that needs all of these."""
    seen = set(findings)
    for finding in (Finding.NOT_RUN, Finding.FALSE, Finding.UNDECIDED):
        if finding in seen:
            return finding
    return Finding.TRUE if seen else Finding.NOT_RUN


def _middle(need: Need) -> float:
    if need.low <= -9.0:
        return need.high - 9.0
    return need.low + 9.0 if need.high >= 9.0 else (need.low + need.high) / 2.0


def against_base(points: Iterable[tuple[float, Callable[[str], Cell]]], other: str) -> list[Term]:
    """Return the terms "another policy less the paper's" at these points."""
    return [Term(x, make(other), make(BASE)) for x, make in points]
