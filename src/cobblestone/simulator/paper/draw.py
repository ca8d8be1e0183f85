"""One PNG and one CSV per figure (pictures need the extra ``lab``)."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cobblestone.simulator.paper.cells import Figure
from cobblestone.simulator.picture import load_matplotlib
from cobblestone.simulator.statistics import Estimate, estimate

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


def write_csv(figure: Figure, results: Results, path: Path) -> None:
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


def draw_figure(figure: Figure, results: Results, path: Path, *, subtitle: str) -> None:
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
    fig.savefig(path, dpi=130)
    plt.close(fig)


def _panel(axes: Any, figure: Figure, results: Results, metric: str) -> None:
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
