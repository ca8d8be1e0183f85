"""A policy against others on random scenarios from a seed, for which it was not tuned; as Markdown, CSV file and picture.

Random scenarios: hosts, mixes and apps as they may occur, drawn from a seed.

No one has tuned a policy on a seed that is drawn after the policy is finished, so these scenarios say what it is worth.
The ranges are wide on purpose: some jobs cannot be in time on their host, some apps say nothing true of their progress,
some hosts are on in the evening only.  All jobs take one processor, since the published policies know no other.

A policy against others on random scenarios of a seed that no one has tuned on, and what is to be said of each demand.

All policies meet the same worlds, so differences are taken run by run; the interval of a scenario is that of its
seeds, the interval of a mean that of the scenarios.
"""

from __future__ import annotations

import csv
import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from cobblestone.domain.values import DAY, HOUR, float_sum
from cobblestone.ops.policies import read_choice
from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.policy.client.published.round_robin import RoundRobinBackends
from cobblestone.simulator.frontier.compare import MetricDifference, Run
from cobblestone.simulator.host.run import simulate
from cobblestone.simulator.paper.cells import run_cells
from cobblestone.simulator.report.picture import load_matplotlib, save_picture
from cobblestone.simulator.report.statistics import Estimate, estimate
from cobblestone.simulator.world.distributions import (
    JobSizes,
    OnOff,
    PeriodKind,
    ProgressCurve,
    ProgressKind,
    Streams,
)
from cobblestone.simulator.world.scenario import (
    AppModel,
    HostModel,
    Preferences,
    ProjectModel,
    Scenario,
    pick_weighted,
)

Value = TypeVar("Value")

DURATION = 30 * DAY
CPU_FLOPS = 1e9
NCPUS = ((1, 0.25), (2, 0.35), (4, 0.4))
PROJECTS = ((1, 0.1), (2, 0.25), (3, 0.2), (4, 0.15), (6, 0.15), (8, 0.1), (12, 0.05))
#: Seconds of one processor for a job, mean; the jobs of 30 days stay a number that can be simulated.
SHORTEST, LONGEST = HOUR, 30 * HOUR
SLACKS = (1.5, 100.0)
ESTIMATE_ERRORS = (0.25, 4.0)
PROGRESS: tuple[tuple[ProgressKind, tuple[float, float], float], ...] = (
    ("exact", (0.0, 0.0), 0.4),
    ("missing", (0.0, 0.0), 0.12),
    ("late", (0.01, 0.3), 0.1),
    ("stepped", (0.02, 0.5), 0.1),
    ("offset", (0.05, 0.8), 0.08),
    ("power", (0.4, 2.5), 0.12),
    ("lying", (0.05, 0.8), 0.08),
)


def random_scenario(seed: int, number: int) -> Scenario:
    """Return the ``number``-th scenario of a seed; equal arguments give equal scenarios."""
    rng = Streams(seed).stream("scenario", str(number))
    count = _pick(rng, PROJECTS)
    return Scenario(
        name=f"{seed}/{number}",
        duration=DURATION,
        host=_host(rng),
        preferences=Preferences(
            buffer_min=_log_uniform(rng, 0.02, 1.0) * DAY,
            buffer_additional=_log_uniform(rng, 0.05, 3.0) * DAY,
        ),
        projects=tuple(_project(rng, i) for i in range(count)),
    ).check()


def _host(rng: random.Random) -> HostModel:
    kinds: tuple[tuple[PeriodKind, float], ...] = (("exponential", 0.7), ("lognormal", 0.3))
    fraction = 1.0 if rng.random() < 0.2 else rng.uniform(0.3, 0.98)
    mean_on = min(5 * DAY, max(1800.0, rng.lognormvariate(math.log(4 * HOUR), 1.5)))
    start = end = 0.0
    if rng.random() < 0.25:
        start = rng.uniform(5.0, 19.0)
        end = min(24.0, start + rng.uniform(4.0, 16.0))
    return HostModel(
        ncpus=_pick(rng, NCPUS),
        flops=CPU_FLOPS,
        availability=OnOff(
            fraction=fraction,
            mean_on=mean_on,
            kind=_pick(rng, kinds),
            day_start=start * HOUR,
            day_end=end * HOUR,
        ),
        connection_interval=_log_uniform(rng, 1.0, 36.0) * HOUR if rng.random() < 0.15 else 0.0,
    )


def _project(rng: random.Random, number: int) -> ProjectModel:
    downtime = OnOff()
    if rng.random() < 0.15:
        downtime = OnOff(fraction=rng.uniform(0.7, 0.99), mean_on=_log_uniform(rng, 1.0, 10.0) * DAY)
    apps = 2 if rng.random() < 0.2 else 1
    return ProjectModel(
        name=f"P{number + 1}",
        share=_log_uniform(rng, 10.0, 1000.0),
        apps=tuple(_app(rng, i) for i in range(apps)),
        downtime=downtime,
    )


def _app(rng: random.Random, number: int) -> AppModel:
    seconds = _log_uniform(rng, SHORTEST, LONGEST)
    sizes = _sizes(rng, seconds * CPU_FLOPS)
    error = _log_uniform(rng, *ESTIMATE_ERRORS) if rng.random() < 0.5 else 1.0
    kinds = tuple((place, part) for place, (_, _, part) in enumerate(PROGRESS))
    kind, (low, high), _ = PROGRESS[_pick(rng, kinds)]
    return AppModel(
        name=f"app{number + 1}",
        latency_bound=max(HOUR, _log_uniform(rng, *SLACKS) * seconds),
        flops_estimate=sizes.average * error,
        sizes=sizes,
        checkpoint_period=_log_uniform(rng, 300.0, HOUR) if rng.random() < 0.3 else 0.0,
        progress=ProgressCurve(kind=kind, amount=rng.uniform(low, high)),
    )


def _sizes(rng: random.Random, mean: float) -> JobSizes:
    u = rng.random()
    if u < 0.25:
        return JobSizes(mean=mean)
    if u < 0.5:
        return JobSizes(mean=mean, stdev=mean * _log_uniform(rng, 0.1, 1.0))
    if u < 0.75:
        return JobSizes(mean=mean, stdev=mean * _log_uniform(rng, 0.2, 3.0), kind="lognormal")
    if u < 0.9:
        return JobSizes(mean=mean, kind="pareto", shape=rng.uniform(1.3, 3.0))
    second = mean * _log_uniform(rng, 3.0, 30.0)
    return JobSizes(
        mean=mean, stdev=0.2 * mean, kind="two_humped", second_mean=second, second_part=rng.uniform(0.02, 0.5)
    )


def _log_uniform(rng: random.Random, low: float, high: float) -> float:
    return low * (high / low) ** rng.random()


def _pick(rng: random.Random, table: tuple[tuple[Value, float], ...]) -> Value:
    return table[pick_weighted(tuple(weight for _, weight in table), rng.random())][0]


#: What is compared.  Waste counts jobs whose deadline has passed unreported too, else a job that never ends would waste
#: nothing; ``avoidable`` is the waste but for what switching off destroys between two checkpoints.
FIGURES = (
    "useful", "waste", "avoidable", "idleness", "share_violation", "monotony", "rpcs_per_job", "given_up",
    "turnaround", "cpu_seconds",
)  # fmt: skip
USEFUL_ALLOWED = 0.01
SHARE_ALLOWED = 0.05
IDLE_ALLOWED = 0.01
CPU_ALLOWED = 2.0


def run_fresh(task: Mapping[str, Any]) -> dict[str, float]:
    """Run one scenario with one policy and one seed; return its figures."""
    scenario = random_scenario(task["draw"], task["number"])
    policy = read_choice(task["policy"])
    backends = _compiled()
    begun = time.process_time()
    result = simulate(scenario, policy, seed=task["seed"], backends=backends)
    spent = time.process_time() - begun
    metrics = asdict(result.metrics)
    projects, idle = result.books.projects, result.books.idle
    used = float_sum(p.used for p in projects)
    lost = float_sum(p.lost for p in projects)
    late = float_sum(p.late + p.failed + p.unfinished_late for p in projects)
    total = max(used + lost + late + idle, 1.0)
    return {
        **{name: metrics[name] for name in FIGURES if name in metrics},
        "useful": used / total,
        "waste": (lost + late) / total,
        "avoidable": late / total,
        "idleness": idle / total,
        "cpu_seconds": spent,
    }


@cache
def _compiled() -> RoundRobinBackends:
    """Return the compiled round-robin simulations, warmed up, so that no run includes their loading."""
    from cobblestone.simulator.compiled import load_compiled

    backends = load_compiled()
    simulate(random_scenario(0, 0), PolicyChoice(), seed=1, backends=backends)
    return backends


def compare_fresh(
    folder: Path,
    draw: int,
    policies: Sequence[PolicyChoice],
    *,
    scenarios: int,
    seeds: int,
    scheduler: str = "",
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, list[list[dict[str, float]]]]:
    """Return the figures by policy, scenario and seed.

    Every run is kept in ``folder`` as soon as it is there; the same command goes on from what there is, unless the code
    has changed.
    """
    names = [str(policy) for policy in policies]
    tasks = {
        f"{draw}/{number} | {name} | {seed}": {"draw": draw, "number": number, "policy": name, "seed": seed}
        for number in range(scenarios)
        for seed in range(1, seeds + 1)
        for name in names
    }
    runs = run_cells(
        tasks, folder, run_fresh, file="fresh.jsonl", scheduler=scheduler, workers=workers, progress=progress
    )
    return {
        name: [
            [runs[f"{draw}/{number} | {name} | {seed}"] for seed in range(1, seeds + 1)]
            for number in range(scenarios)
        ]
        for name in names
    }


@dataclass(frozen=True, slots=True)
class DemandVerdict:
    """The verdict on one demand."""

    demand: str
    holds: str  #: yes, no, undecided (the interval allows both)
    found: str
    offenders: tuple[MetricDifference, ...] = ()  #: scenarios in which it fails, the worst first


#: The runs of a policy, by scenario and seed.
Worlds = Sequence[Sequence[Run]]


def changes(base: Worlds, ours: Worlds, figure: str) -> list[MetricDifference]:
    """Return a figure's change in every scenario."""
    return [
        MetricDifference.between(str(number), figure, theirs, mine)
        for number, (theirs, mine) in enumerate(zip(base, ours, strict=True))
    ]


def mean_change(found: Sequence[MetricDifference]) -> Estimate:
    """Return the mean change over scenarios, with its interval."""
    return estimate([c.change.mean for c in found])


def verdicts(base: Worlds, ours: Worlds) -> list[DemandVerdict]:
    """Judge every demand."""
    by = {figure: changes(base, ours, figure) for figure in FIGURES}
    share = mean_change(by["share_violation"])
    theirs, spent = _means(by["cpu_seconds"])
    ratio = spent / max(theirs, 1e-9)
    return [
        _nowhere("useful part nowhere lower by more than", by["useful"], USEFUL_ALLOWED, -1.0),
        _half("waste at most half", by["waste"]),
        _half("waste at most half, without what switching off destroys", by["avoidable"]),
        DemandVerdict(
            "share violation not above theirs in the mean",
            share.not_above,
            f"{_mean(by['share_violation'])}, change {share}",
        ),
        _nowhere("share violation nowhere higher by more than", by["share_violation"], SHARE_ALLOWED),
        _nowhere("idleness nowhere higher by more than", by["idleness"], IDLE_ALLOWED),
        DemandVerdict(
            f"at most {CPU_ALLOWED:g} times the CPU time of the simulation",
            "yes" if ratio <= CPU_ALLOWED else "no",
            f"{ratio:.2f} times",
        ),
    ]


def _nowhere(
    demand: str, found: Sequence[MetricDifference], allowed: float, worse: float = 1.0
) -> DemandVerdict:
    """Judge a scenario: it violates the demand if the mean of its seeds does; surely, if its interval does."""
    offenders = sorted(
        [c for c in found if worse * c.change.mean > allowed], key=lambda c: -worse * c.change.mean
    )
    surely = sum(abs(c.change.mean) - c.change.half_width > allowed for c in offenders)
    holds = "yes" if not offenders else "no" if surely else "undecided"
    text = f"fails in {len(offenders)} of {len(found)} ({surely} surely)"
    return DemandVerdict(f"{demand} {allowed:g}", holds, text, tuple(offenders))


def _half(demand: str, found: Sequence[MetricDifference]) -> DemandVerdict:
    over = estimate([c.ours.mean - 0.5 * c.base.mean for c in found])
    base, ours = _means(found)
    part = ours / base if base > 0.0 else 0.0
    wasting = [c for c in found if c.base.mean > 0.02]
    offenders = sorted(
        [c for c in wasting if c.ours.mean > 0.5 * c.base.mean], key=lambda c: 0.5 * c.base.mean - c.ours.mean
    )
    text = (
        f"{_mean(found)}: {part:.2f} of it; more than half in {len(offenders)} of the {len(wasting)} scenarios with waste"
        " above 0.02"
    )
    return DemandVerdict(demand, over.not_above, text, tuple(offenders))


def _means(found: Sequence[MetricDifference]) -> tuple[float, float]:
    return estimate([c.base.mean for c in found]).mean, estimate([c.ours.mean for c in found]).mean


def _mean(found: Sequence[MetricDifference]) -> str:
    base, ours = _means(found)
    return f"{base:.4f} → {ours:.4f}"


Runs = Mapping[str, Worlds]
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
    """Return all figures and verdicts; it is also valid Markdown."""
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


def _offenders(found: Sequence[DemandVerdict], draw: int) -> list[str]:
    lines: list[str] = []
    for verdict in found:
        if verdict.offenders:
            lines += ["", f"Where it fails, the worst first: {verdict.demand}", ""]
            lines += [
                f"* {draw}/{c.scenario}: {c.base.mean:.3f} → {c.ours.mean:.3f} ({_signed(c.change)})"
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
    """Draw each scenario as a point, theirs on the x axis and ours on the y axis, for every figure with a demand."""
    plt = load_matplotlib()
    bases = [name for name in runs if name != ours]
    figures = ("useful", "waste", "share_violation", "idleness")
    fig, table = plt.subplots(
        len(bases), len(figures), figsize=(14, 3.7 * len(bases)), layout="constrained", squeeze=False
    )
    for row, base in zip(table, bases, strict=True):
        for axes, figure in zip(row, figures, strict=True):
            found = changes(runs[base], runs[ours], figure)
            most = max(1.0, *(max(c.base.mean, c.ours.mean) for c in found)) if figure != "idleness" else 1.0
            axes.plot([0, most], [0, most], color="black", linewidth=0.7)
            better = [(c.change.mean > 0.0) == (figure == "useful") or c.change.mean == 0.0 for c in found]
            colours = ["#2a6f97" if good else "#c1121f" for good in better]
            axes.scatter(
                [c.base.mean for c in found], [c.ours.mean for c in found], s=11, c=colours, alpha=0.6
            )
            axes.set(
                title=NAMES.get(figure, figure),
                xlabel=base,
                ylabel=ours,
                xlim=(-0.02, most),
                ylim=(-0.02, most),
            )
            axes.grid(linewidth=0.3)
    fig.suptitle("Each point: one scenario; blue: better or equal, red: worse", fontsize=11)
    save_picture(plt, fig, path, 100)
