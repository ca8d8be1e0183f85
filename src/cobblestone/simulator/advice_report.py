"""The advice to a project as text, data and picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cobblestone.simulator.advice import METRICS, Step
from cobblestone.simulator.picture import literal, load_matplotlib

#: As many seeds as the command takes.
MOST_SEEDS = 100
_COLOURS = ("#1f4e79", "#c8553d", "#588157", "#8d5a97")


def as_text(steps: Sequence[Step]) -> str:
    """Return a table per setting, with the recommended line marked, and the recommendations.

    A ``?`` marks what may be no different from the recommended line: the interval of the difference, seed by seed, holds 0.
    """
    lines: list[str] = []
    for step in steps:
        lines.append(f"{step.name:14s}" + "".join(f"{METRICS[m]:>24s}" for m in step.shown))
        for i, point in enumerate(step.points):
            mark = "*" if i == step.chosen else " "
            cells = "".join(f"{_cell(step, i, m):>24s}" for m in step.shown)
            lines.append(f"{mark} {point.label:12s}{cells}")
        lines.append("")
    lines += ["? = the difference from the recommended line (*) may be luck", ""]
    lines.append("Recommended for these hosts:")
    for step in steps:
        lines.append(f"  {step.name}: {step.choice.label} ({step.why})")
        if step.rivals:
            lines.append(f"    {undecided(step)}")
    return "\n".join(lines)


def _cell(step: Step, i: int, metric: str) -> str:
    found = str(step.points[i].metrics[metric])
    if i == step.chosen:
        return found
    return found + (" ?" if step.points[i].against(step.choice, metric).may_be_nothing else "")


def undecided(step: Step) -> str:
    """Return a sentence that says which values may be the right ones instead, and what would tell."""
    so_far = len(next(iter(step.choice.runs.values())))
    more = (
        f"about --seeds {step.seeds:.0f} (now {so_far})"
        if so_far < step.seeds <= MOST_SEEDS
        else "many more --seeds, or --hosts,"
    )
    return f"undecided: the intervals allow {' or '.join(step.rivals)} as well; {more} would tell"


def as_data(steps: Sequence[Step]) -> dict[str, object]:
    """Return everything, JSON-ready."""
    return {
        step.name: {
            "recommended": step.choice.label,
            "why": step.why,
            "undecided": step.rivals,
            "points": [
                {
                    "value": point.label,
                    "metrics": {
                        k: {
                            "mean": e.mean,
                            "half_width": e.half_width,
                            "may_equal_recommended": point.against(step.choice, k).may_be_nothing,
                        }
                        for k, e in point.metrics.items()
                    },
                }
                for point in step.points
            ],
        }
        for step in steps
    }


def draw_advice(steps: Sequence[Step], path: Path, *, title: str) -> None:
    """Draw a panel per setting: two metrics over its values with 95 % intervals.

    The recommended value is marked, and paler those that the intervals allow as well.
    """
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
        for i in {step.chosen, *step.possible}:
            alpha = 0.35 if i == step.chosen else 0.12
            axes.axvspan(i - 0.35, i + 0.35, color="#e9c46a", alpha=alpha, linewidth=0)
        axes.set_xticks(list(places), labels, fontsize=7)
        rivals = f"\n(undecided: or {', '.join(step.rivals)})" if step.rivals else ""
        axes.set_title(f"{step.name}: {step.choice.label}{rivals}", fontsize=9)
        axes.grid(alpha=0.25)
    fig.suptitle(literal(title), fontsize=11)
    fig.savefig(path, dpi=120)
    plt.close(fig)
