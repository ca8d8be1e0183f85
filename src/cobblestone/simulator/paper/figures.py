"""The paper's figures: one PNG and one CSV each, and the evidence of their runs on a claim.

What runs say of a claim: figures of cells, or differences of policies in the same worlds, with their intervals.

A difference is taken seed by seed, since both policies meet the same world.  A claim is decided only where the whole
95 % interval lies on one side of its limit.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from cobblestone.domain.values import float_sum
from cobblestone.simulator.paper.cells import Cell, PaperFigure
from cobblestone.simulator.report.picture import load_matplotlib, save_picture
from cobblestone.simulator.report.statistics import Estimate, estimate

Results = Mapping[str, list[dict[str, float]]]
LABELS = {
    "waste": "waste",
    "idleness": "idleness",
    "share_violation": "share violation",
    "monotony": "monotony",
}
_COLOURS = ("#1f4e79", "#c8553d", "#588157", "#8d5a97", "#b08900")
_MARKERS = "osD^v"


def point(results: Results, key: str, metric: str) -> Estimate:
    """Return mean and interval of one metric in one cell."""
    return estimate([run[metric] for run in results[key]])


def write_csv(figure: PaperFigure, results: Results, path: Path) -> None:
    """Write all points of a figure."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        out = csv.writer(stream)
        out.writerow(
            ["figure", "curve", figure.x_label, "metric", "mean", "half width of 95 % interval", "runs"]
        )
        for curve in figure.curves:
            for x, cell in curve.points:
                for metric in figure.metrics:
                    e = point(results, cell.key, metric)
                    out.writerow(
                        [
                            figure.number,
                            curve.label,
                            f"{x:g}",
                            metric,
                            f"{e.mean:.6f}",
                            f"{e.half_width:.6f}",
                            e.count,
                        ]
                    )


def draw_figure(figure: PaperFigure, results: Results, path: Path, *, subtitle: str) -> None:
    """Draw a figure: one panel per metric, one line per curve, 95 % intervals as bands."""
    plt = load_matplotlib()
    panels = len(figure.metrics)
    columns = 2 if panels > 1 else 1
    rows = (panels + 1) // 2
    fig, grid = plt.subplots(
        rows, columns, figsize=(5.4 * columns + 0.8, 3.4 * rows + 0.7), squeeze=False, layout="constrained"
    )
    for axes, metric in zip(grid.flat, figure.metrics, strict=False):
        _panel(axes, figure, results, metric)
    fig.suptitle(f"Figure {figure.number}. {figure.title} ({subtitle})", fontsize=11)
    save_picture(plt, fig, path, 130)


def _panel(axes: Any, figure: PaperFigure, results: Results, metric: str) -> None:
    highest = 2.0 if metric == "share_violation" else 1.0
    for i, curve in enumerate(figure.curves):
        xs = [x for x, _ in curve.points]
        found = [point(results, cell.key, metric) for _, cell in curve.points]
        axes.plot(
            xs,
            [e.mean for e in found],
            marker=_MARKERS[i % 5],
            color=_COLOURS[i % 5],
            label=curve.label,
            # the first shows beneath the others where they agree
            linewidth=1.5 if i else 3.0,
            markersize=4.5 if i else 8.0,
        )
        axes.fill_between(
            xs,
            [max(0.0, e.mean - e.half_width) for e in found],
            [min(highest, e.mean + e.half_width) for e in found],
            color=_COLOURS[i % 5],
            alpha=0.18,
            linewidth=0,
        )
    if figure.log_x:
        ticks = [x for x, _ in figure.curves[0].points]
        axes.set_xscale("log")
        axes.set_xticks(ticks, [f"{x:g}" for x in ticks])
        axes.minorticks_off()
    else:
        axes.locator_params(axis="x", integer=True)
    axes.set_xlabel(figure.x_label)
    axes.set_ylabel(LABELS[metric])
    top = 1.0 if metric == "waste" else max(0.1, axes.get_ylim()[1])
    axes.set_ylim(-0.04 * top, 1.04 * top)
    axes.grid(alpha=0.25)
    axes.legend(fontsize=8)


class ClaimFinding(Enum):
    """The result of one comparison."""

    TRUE = "true"
    FALSE = "false"
    UNDECIDED = "undecided"
    NOT_RUN = "not run"


class Term(NamedTuple):
    """A cell's figure, minus another cell's if there is one; ``x`` names the point on the figure's axis."""

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
class AgreeingValues:
    """The values that agree with a claim: from ``low`` to ``high``."""

    low: float = -9.0
    high: float = 9.0

    def judge(self, found: Estimate | None) -> ClaimFinding:
        """Return whether the whole interval agrees, a part or none of it; a single run has no interval."""
        if found is None:
            return ClaimFinding.NOT_RUN
        if found.count < 2:
            return ClaimFinding.UNDECIDED
        bottom, top = found.mean - found.half_width, found.mean + found.half_width
        if self.low <= bottom and top <= self.high:
            return ClaimFinding.TRUE
        return ClaimFinding.FALSE if top < self.low or bottom > self.high else ClaimFinding.UNDECIDED

    def __str__(self) -> str:
        if self.high >= 9.0:
            return f"at least {self.low:g}"
        if self.low <= -9.0:
            return f"at most {self.high:g}"
        return f"{self.low:g} to {self.high:g}"


class ClaimOutcome(NamedTuple):
    """A finding and the figures behind it."""

    finding: ClaimFinding
    evidence: str


Judge = Callable[[AgreeingValues, Results, Sequence[Term], str], ClaimOutcome]


def on_average(need: AgreeingValues, results: Results, terms: Sequence[Term], metric: str) -> ClaimOutcome:
    """Judge the mean over all terms."""
    found = paired(results, terms, metric)
    return ClaimOutcome(need.judge(found), str(found) if found is not None else "")


def everywhere(need: AgreeingValues, results: Results, terms: Sequence[Term], metric: str) -> ClaimOutcome:
    """Judge each term; one that surely fails decides, and the most extreme figure is shown."""
    each = [(t, paired(results, [t], metric)) for t in terms]
    findings = [need.judge(found) for _, found in each]
    known = [(abs(found.mean - _middle(need)), t, found) for t, found in each if found is not None]
    worst = max(known, key=lambda k: k[0], default=None)
    text = f"farthest {worst[2]} at {worst[1].x:g}" if worst is not None else ""
    return ClaimOutcome(all_of(findings), text)


def mostly(need: AgreeingValues, results: Results, terms: Sequence[Term], metric: str) -> ClaimOutcome:
    """Judge whether more than half of the terms surely agree."""
    findings = [need.judge(paired(results, [t], metric)) for t in terms]
    if ClaimFinding.NOT_RUN in findings:
        return ClaimOutcome(ClaimFinding.NOT_RUN, "")
    true, false = findings.count(ClaimFinding.TRUE), findings.count(ClaimFinding.FALSE)
    half = len(findings) / 2.0
    finding = ClaimFinding.UNDECIDED
    if true > half or false >= half:
        finding = ClaimFinding.TRUE if true > half else ClaimFinding.FALSE
    return ClaimOutcome(finding, f"{true} of {len(findings)} surely, {false} surely not")


def all_of(findings: Iterable[ClaimFinding]) -> ClaimFinding:
    """Return the finding of a claim that needs all of these."""
    seen = set(findings)
    for finding in (ClaimFinding.NOT_RUN, ClaimFinding.FALSE, ClaimFinding.UNDECIDED):
        if finding in seen:
            return finding
    return ClaimFinding.TRUE if seen else ClaimFinding.NOT_RUN


def _middle(need: AgreeingValues) -> float:
    if need.low <= -9.0:
        return need.high - 9.0
    return need.low + 9.0 if need.high >= 9.0 else (need.low + need.high) / 2.0
