"""The advice to a project as text, data and picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cobblestone.simulator.advice import METRICS, Step
from cobblestone.simulator.picture import load_matplotlib

_COLOURS = ("#1f4e79", "#c8553d", "#588157", "#8d5a97")


def as_text(steps: Sequence[Step]) -> str:
    """Return a table per setting, with the recommended line marked, and the recommendations."""
    lines: list[str] = []
    for step in steps:
        lines.append(f"{step.name:14s}" + "".join(f"{METRICS[m]:>24s}" for m in step.shown))
        for i, point in enumerate(step.points):
            mark = "*" if i == step.chosen else " "
            cells = "".join(f"{point.metrics[m]!s:>24s}" for m in step.shown)
            lines.append(f"{mark} {point.label:12s}{cells}")
        lines.append("")
    lines.append("Recommended for these hosts:")
    lines += [f"  {step.name}: {step.choice.label} ({step.why})" for step in steps]
    return "\n".join(lines)


def as_data(steps: Sequence[Step]) -> dict[str, object]:
    """Return everything, JSON-ready."""
    return {
        step.name: {
            "recommended": step.choice.label,
            "why": step.why,
            "points": [
                {
                    "value": point.label,
                    "metrics": {
                        k: {"mean": e.mean, "half_width": e.half_width} for k, e in point.metrics.items()
                    },
                }
                for point in step.points
            ],
        }
        for step in steps
    }


def draw_advice(steps: Sequence[Step], path: Path, *, title: str) -> None:
    """Draw a panel per setting: two metrics over its values, the recommended value marked."""
    plt = load_matplotlib()
    fig, grid = plt.subplots(2, 2, figsize=(11.5, 7.4), layout="constrained")
    for axes, step in zip(grid.flat, steps, strict=False):
        labels = [point.label for point in step.points]
        places = range(len(labels))
        other = axes.twinx()
        for k, (side, metric) in enumerate(zip((axes, other), step.shown[:2], strict=True)):
            found = [point.metrics[metric] for point in step.points]
            side.errorbar(
                places,
                [e.mean for e in found],
                yerr=[e.half_width for e in found],
                color=_COLOURS[k],
                marker="os"[k],
                capsize=3,
                linewidth=1.6,
            )
            side.set_ylabel(METRICS[metric], color=_COLOURS[k])
            side.tick_params(axis="y", labelcolor=_COLOURS[k])
            side.set_ylim(0.0, max(0.01, side.get_ylim()[1]))  # what is 0 but for rounding lies flat
        axes.axvspan(step.chosen - 0.35, step.chosen + 0.35, color="#e9c46a", alpha=0.35, linewidth=0)
        axes.set_xticks(list(places), labels, fontsize=7)
        axes.set_title(f"{step.name}: {step.choice.label}")
        axes.grid(alpha=0.25)
    fig.suptitle(title, fontsize=11)
    fig.savefig(path, dpi=120)
    plt.close(fig)
