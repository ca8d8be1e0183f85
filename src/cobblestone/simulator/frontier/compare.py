"""Two policies on a set of scenarios: runs, differences with intervals, and the comparison as text, CSV file and picture.

The set of scenarios, the runs, and the differences between two policies with their intervals.

Both policies meet the same world for a seed, so the difference is taken seed by seed, and its interval is that of
the paired differences.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cobblestone.domain.errors import ConfigError
from cobblestone.domain.values import float_sum
from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.simulator.paper.cells import (
    BUFFER_SLACKS,
    BUFFERS,
    ERRORS,
    FULL_BUFFER,
    MIXES,
    Cell,
    as_task,
    buffer_cell,
    mix_cell,
    run_cells,
    slack_cell,
    variance_cell,
)
from cobblestone.simulator.report.picture import load_matplotlib, save_picture
from cobblestone.simulator.report.statistics import Estimate, estimate, paired

#: The paper's four figures of merit; all are best at 0.
METRICS = ("waste", "idleness", "share_violation", "monotony")
#: What else is worth a look; turnaround in seconds.
FURTHER = ("missed", "given_up", "rpcs_per_job", "turnaround")
STDEVS = (1.0, 3.0, 10.0, 30.0, 100.0)
ERROR_SLACKS = (4.0, 5.0)
#: By so much a policy may be worse in a cell before it is called worse.
ALLOWED = 0.01


def scenarios(policy: str) -> dict[str, Cell]:
    """Return the set by name: all mixes, printed and tight, slacks, buffers, errors of estimation, spreads of size."""
    found: dict[str, Cell] = {}
    for kind, tight in (("printed", False), ("tight", True)):
        found |= {f"{kind} mix {m}": mix_cell(m, policy, "corrected", tight=tight) for m in MIXES}
    for slack in BUFFER_SLACKS:
        for hours in BUFFERS:
            name = f"slack {slack:g}" if hours == FULL_BUFFER else f"slack {slack:g}, buffer {hours:g} h"
            found[name] = buffer_cell(slack, hours, policy, "corrected")
    for slack in ERROR_SLACKS:
        for error in ERRORS:
            if error != 1.0:
                found[f"error {error:g}, slack {slack:g}"] = slack_cell(
                    slack, policy, "corrected", error=error
                )
    found |= {f"stdev {s:g}": variance_cell(s, policy, "corrected") for s in STDEVS}
    return found


Run = Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricDifference:
    """One metric in one scenario under both policies."""

    scenario: str
    metric: str
    base: Estimate
    ours: Estimate
    change: Estimate  #: ours minus base, seed by seed

    @classmethod
    def between(
        cls, scenario: str, metric: str, base: Sequence[Run], ours: Sequence[Run]
    ) -> MetricDifference:
        """Compare two policies' runs with the same seeds."""
        theirs, mine = [run[metric] for run in base], [run[metric] for run in ours]
        return cls(
            scenario=scenario,
            metric=metric,
            base=estimate(theirs),
            ours=estimate(mine),
            change=paired(mine, theirs),
        )

    @property
    def worse(self) -> bool:
        """Return whether the mean is worse by more than is allowed."""
        return self.change.mean > ALLOWED

    @property
    def surely_worse(self) -> bool:
        """Return whether it is worse at 95 % confidence over the seeds."""
        return self.change.mean - self.change.half_width > ALLOWED


def compare(
    folder: Path,
    policy: PolicyChoice,
    base: PolicyChoice,
    *,
    seeds: int = 5,
    only: str = "",
    scheduler: str = "",
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[MetricDifference]:
    """Run both policies on the set, or on the scenarios whose name starts with ``only``.

    Every run is kept in ``folder`` as soon as it is there, so an interrupted comparison, or one with more seeds, goes
    on from what there is, unless the code has changed.
    """
    cells = {choice: scenarios(str(choice)) for choice in (base, policy)}
    names = [name for name in cells[base] if name.startswith(only)]
    if not names:
        kinds = "printed mix, tight mix, slack, error, stdev"
        raise ConfigError(f"only = {only!r}: no scenario's name starts like this; they start with {kinds}")
    tasks = {
        _key(name, choice, seed): {**as_task(cells[choice][name], 1), "seeds": [seed]}
        for seed in range(1, seeds + 1)
        for name in reversed(names)  # the long ones are in the front of the set; short ones fill up the end
        for choice in cells
    }
    results = run_cells(tasks, folder, scheduler=scheduler, workers=workers, progress=progress)

    def runs(name: str, choice: PolicyChoice) -> list[Run]:
        return [results[_key(name, choice, seed)][0] for seed in range(1, seeds + 1)]

    return [
        MetricDifference.between(name, metric, runs(name, base), runs(name, policy))
        for name in names
        for metric in (*METRICS, *FURTHER)
    ]


def _key(name: str, policy: PolicyChoice, seed: int) -> str:
    return f"{name} | {policy} | {seed}"


def mean_over_scenarios(differences: Sequence[MetricDifference], metric: str) -> tuple[float, float]:
    """Return the means of a metric over all scenarios: base, ours."""
    mine = [d for d in differences if d.metric == metric]
    return float_sum(d.base.mean for d in mine) / len(mine), float_sum(d.ours.mean for d in mine) / len(mine)


NAMES = {
    "share_violation": "share violation",
    "given_up": "given up",
    "rpcs_per_job": "RPCs per job",
    "turnaround": "turnaround / s",
}
#: A scenario that moves by less in the plane of idleness and waste has no arrow and no label.
MOVED = 0.005
COLOURS = {"waste": "#1f77b4", "idleness": "#ff7f0e", "share_violation": "#2ca02c", "monotony": "#d62728"}


def frontier_text(differences: Sequence[MetricDifference], policy: str, base: str) -> str:
    """Return a table of all scenarios, the means, and what is worse; it is also valid Markdown."""
    seeds = differences[0].change.count
    rows = _by_scenario(differences)
    lines = [
        f"{base} → {policy}, means of {seeds} seeds (the change with its 95 % interval, seed by seed);",
        f"`!` worse by more than {ALLOWED:g}, `!!` surely so",
        "",
        "| Scenario | " + " | ".join(NAMES.get(m, m) for m in METRICS) + " |",
        "| --- |" + " --- |" * len(METRICS),
    ]
    for scenario, found in rows.items():
        lines.append(f"| {scenario} | " + " | ".join(_cell(found[m]) for m in METRICS) + " |")
    means = [mean_over_scenarios(differences, m) for m in METRICS]
    lines.append("| **mean** | " + " | ".join(f"{a:.3f} → {b:.3f}" for a, b in means) + " |")
    worse = [d for d in differences if d.metric in METRICS and d.worse]
    lines += [
        *_further(differences),
        "",
        f"Mean waste over {len(rows)} scenarios: {_fall([found['waste'] for found in rows.values()])}.",
    ]
    possible = [found["waste"] for found in rows.values() if not _nothing_can_be_done(found)]
    if 0 < len(possible) < len(rows):
        lines.append(
            f"Without the {len(rows) - len(possible)} scenarios in which neither gets anything done in time: {_fall(possible)}."
        )
    lines.append(
        f"Worse by more than {ALLOWED:g} in {len(worse)} of {len(rows) * len(METRICS)} figures"
        f" ({sum(d.surely_worse for d in worse)} surely)" + (":\n" if worse else ".")
    )
    lines += [
        f"* {d.scenario}, {NAMES.get(d.metric, d.metric)}: {d.base.mean:.3f} → {d.ours.mean:.3f},"
        f" {d.change.mean:+.3f} ±{d.change.half_width:.3f}"
        for d in worse
    ]
    return "\n".join(lines)


def _further(differences: Sequence[MetricDifference]) -> list[str]:
    """Return the table of further metrics, as means of all scenarios."""
    there = {d.metric for d in differences}
    lines: list[str] = []
    for metric in FURTHER:
        if metric in there:
            before, after = mean_over_scenarios(differences, metric)
            change = f" ({(after / before - 1.0) * 100.0:+.0f} %)" if before > 0.0 else ""
            lines.append(f"| {NAMES.get(metric, metric)} | {before:.4g} → {after:.4g}{change} |")
    return ["", "| Beside them | mean |", "| --- | --- |", *lines] if lines else []


def _nothing_can_be_done(found: dict[str, MetricDifference]) -> bool:
    waste, idle = found["waste"], found["idleness"]
    return min(waste.base.mean + idle.base.mean, waste.ours.mean + idle.ours.mean) > 1.0 - ALLOWED


def _fall(found: Sequence[MetricDifference]) -> str:
    before = float_sum(d.base.mean for d in found) / len(found)
    after = float_sum(d.ours.mean for d in found) / len(found)
    change = f"{(after / before - 1.0) * 100.0:+.0f} %" if before > 0.0 else "no waste before"
    return f"{before:.4f} → {after:.4f} ({change})"


def _cell(found: MetricDifference) -> str:
    mark = " !!" if found.surely_worse else " !" if found.worse else ""
    if found.base.mean == found.ours.mean:
        return f"{found.base.mean:.3f}"
    spread = f" ({found.change.mean:+.3f} ±{found.change.half_width:.3f})"
    shown = spread if abs(found.change.mean) >= 5e-4 or found.change.half_width >= 5e-4 else ""
    return f"{found.base.mean:.3f} → {found.ours.mean:.3f}{shown}{mark}"


def _by_scenario(differences: Sequence[MetricDifference]) -> dict[str, dict[str, MetricDifference]]:
    rows: dict[str, dict[str, MetricDifference]] = {}
    for found in differences:
        rows.setdefault(found.scenario, {})[found.metric] = found
    return rows


def write_csv(differences: Sequence[MetricDifference], path: Path) -> None:
    """Write one line per scenario and metric."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        out = csv.writer(stream)
        out.writerow(["scenario", "metric", "base", "ours", "change", "half_width_95", "seeds"])
        for d in differences:
            row = (d.base.mean, d.ours.mean, d.change.mean, d.change.half_width)
            out.writerow([d.scenario, d.metric, *(f"{x:.6g}" for x in row), d.change.count])


def draw_frontier(differences: Sequence[MetricDifference], path: Path, *, policy: str, base: str) -> None:
    """Draw every scenario as an arrow in the plane of idleness and waste, and every change with its interval."""
    plt = load_matplotlib()
    rows = _by_scenario(differences)
    fig, (plane, changes) = plt.subplots(
        1, 2, figsize=(13, max(5.0, 0.135 * len(rows) + 1.5)), width_ratios=(1, 1.25), layout="constrained"
    )
    _draw_plane(plane, rows)
    _draw_changes(changes, rows)
    seeds = differences[0].change.count
    fig.suptitle(f"From {base} to {policy}, {seeds} seeds", fontsize=11)
    save_picture(plt, fig, path, 110)


def _moved(found: Mapping[str, MetricDifference]) -> float:
    return abs(found["waste"].change.mean) + abs(found["idleness"].change.mean)


# Any: matplotlib's axes
def _draw_plane(plane: Any, rows: Mapping[str, Mapping[str, MetricDifference]]) -> None:
    """Draw every scenario as an arrow; where several start at one place, the one that moves most has a label."""
    named: set[tuple[int, int]] = set()
    for scenario, found in sorted(rows.items(), key=lambda row: -_moved(row[1])):
        waste, idle = found["waste"], found["idleness"]
        place = (round(idle.base.mean / 0.1), round(waste.base.mean / 0.02))
        plane.plot(idle.base.mean, waste.base.mean, "o", color="#888888", markersize=4)
        if _moved(found) > MOVED:
            plane.annotate(
                "",
                (idle.ours.mean, waste.ours.mean),
                (idle.base.mean, waste.base.mean),
                arrowprops={
                    "arrowstyle": "->",
                    "color": "#c1121f" if waste.worse or idle.worse else "#2a6f97",
                },
            )
        if _moved(found) > MOVED and place not in named:
            named.add(place)
            plane.annotate(
                scenario, (idle.base.mean, waste.base.mean), (5, 4), textcoords="offset points", fontsize=7
            )
    right = max(d.mean for found in rows.values() for d in (found["idleness"].base, found["idleness"].ours))
    plane.set(
        xlabel="idleness",
        ylabel="waste",
        title="Each arrow: one scenario",
        xlim=(-0.02, 1.2 * right + 0.02),  # room for labels
    )


# Any: matplotlib's axes
def _draw_changes(changes: Any, rows: Mapping[str, Mapping[str, MetricDifference]]) -> None:
    """Draw every change with its interval, the metrics of a scenario one above the other."""
    names = list(rows)
    for number, metric in enumerate(METRICS):
        found = [rows[name][metric].change for name in names]
        changes.errorbar(
            [c.mean for c in found],
            [row + 0.2 * (number - (len(METRICS) - 1) / 2) for row in range(len(names))],
            xerr=[c.half_width for c in found],
            fmt="o",
            markersize=2,
            elinewidth=0.7,
            color=COLOURS[metric],
            label=NAMES.get(metric, metric),
        )
    changes.axvline(ALLOWED, color="black", linewidth=0.8)
    changes.set_xscale("symlog", linthresh=ALLOWED)
    changes.set_yticks(range(len(names)), names, fontsize=6)
    changes.set_ylim(len(names) - 0.5, -0.5)
    changes.set(xlabel="change with 95 % interval (left is better; linear between -0.01 and 0.01)")
    changes.grid(axis="x", linewidth=0.3)
    changes.legend(
        fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(METRICS), frameon=False
    )
