"""The comparison on fresh scenarios as Markdown, as a CSV file and as a picture."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cobblestone.simulator.frontier.fresh import FIGURES, Verdict, changes, mean_change, verdicts
from cobblestone.simulator.picture import load_matplotlib
from cobblestone.simulator.statistics import estimate

Runs = Mapping[str, Sequence[Sequence[Mapping[str, float]]]]
NAMES = {
    "useful": "useful part",
    "avoidable": "waste without losses since a checkpoint",
    "share_violation": "share violation",
    "rpcs_per_job": "contacts per job",
    "given_up": "part of the jobs given up",
    "turnaround": "turnaround / s",
    "cpu_seconds": "CPU seconds a run",
}
SHOWN_OFFENDERS = 8


def as_text(runs: Runs, ours: str, draw: int) -> str:
    """Return all figures and verdicts; it is valid Markdown too."""
    mine = runs[ours]
    bases = [name for name in runs if name != ours]
    lines = [
        f"{len(mine)} random scenarios of seed {draw}, {len(mine[0])} runs each; changes run by run with 95 % intervals",
        "",
        "| Mean | " + " | ".join([ours, *bases]) + " |" + "".join(f" change against {b} |" for b in bases),
        "| --- |" + " --- |" * (1 + 2 * len(bases)),
    ]
    for figure in FIGURES:
        cells = [
            f"{estimate([run[figure] for seeds in runs[name] for run in seeds]).mean:.4g}"
            for name in (ours, *bases)
        ]
        cells += [_signed(mean_change(changes(runs[base], mine, figure))) for base in bases]
        lines.append(f"| {NAMES.get(figure, figure)} | " + " | ".join(cells) + " |")
    for base in bases:
        lines += ["", f"Against {base}:", "", "| Demand | holds | found |", "| --- | --- | --- |"]
        found = verdicts(runs[base], mine)
        lines += [f"| {v.demand} | {v.holds} | {v.found} |" for v in found]
        lines += _offenders(found, draw)
    return "\n".join(lines)


def _signed(change: Any) -> str:  # Any: an Estimate, whose text has no sign
    digits = 4 if abs(change.mean) < 10.0 else 0
    return f"{change.mean:+.{digits}f} ±{change.half_width:.{digits}f}"


def _offenders(found: Sequence[Verdict], draw: int) -> list[str]:
    lines: list[str] = []
    for verdict in found:
        if verdict.offenders:
            lines += ["", f"Where it fails, the worst first: {verdict.demand}", ""]
            lines += [
                f"* {draw}/{c.scenario}: {c.base:.3f} → {c.ours:.3f} ({_signed(c.change)})"
                for c in verdict.offenders[:SHOWN_OFFENDERS]
            ]
            left = len(verdict.offenders) - SHOWN_OFFENDERS
            if left > 0:
                lines.append(f"* and {left} more")
    return lines


def write_csv(runs: Runs, path: Path) -> None:
    """Write one line per run."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        out = csv.writer(stream)
        out.writerow(["policy", "scenario", "seed", *FIGURES])
        for name, scenarios in runs.items():
            for number, seeds in enumerate(scenarios):
                for seed, run in enumerate(seeds, 1):
                    out.writerow([name, number, seed, *(f"{run[figure]:.6g}" for figure in FIGURES)])


def draw_fresh(runs: Runs, ours: str, path: Path) -> None:
    """Draw each scenario as a point, theirs across and ours upwards, for every figure that has a demand."""
    plt = load_matplotlib()
    bases = [name for name in runs if name != ours]
    figures = ("useful", "waste", "share_violation", "idleness")
    fig, table = plt.subplots(
        len(bases), len(figures), figsize=(14, 3.7 * len(bases)), layout="constrained", squeeze=False
    )
    for row, base in zip(table, bases, strict=True):
        for axes, figure in zip(row, figures, strict=True):
            found = changes(runs[base], runs[ours], figure)
            most = max(1.0, *(max(c.base, c.ours) for c in found)) if figure != "idleness" else 1.0
            axes.plot([0, most], [0, most], color="black", linewidth=0.7)
            better = [(c.ours >= c.base) == (figure == "useful") for c in found]
            colours = ["#2a6f97" if good else "#c1121f" for good in better]
            axes.scatter([c.base for c in found], [c.ours for c in found], s=11, c=colours, alpha=0.6)
            axes.set(
                title=NAMES.get(figure, figure),
                xlabel=base,
                ylabel=ours,
                xlim=(-0.02, most),
                ylim=(-0.02, most),
            )
            axes.grid(linewidth=0.3)
    fig.suptitle("Each point: one scenario; blue: better or equal, red: worse", fontsize=11)
    fig.savefig(path, dpi=100)
    plt.close(fig)
