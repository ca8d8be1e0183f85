"""A policy against others on random scenarios of a seed that nobody has tuned on, and what is to be said of each demand.

All policies meet the same worlds, so differences are taken run by run; the interval of a scenario is that of its
seeds, the interval of a mean that of the scenarios.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from cobblestone.domain.sums import float_sum
from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.policy.client.round_robin_backends import RoundRobinBackends
from cobblestone.simulator.code_version import code_version
from cobblestone.simulator.frontier.random_scenarios import random_scenario
from cobblestone.simulator.run import simulate
from cobblestone.simulator.statistics import Estimate, estimate
from cobblestone.sweep.backends import open_backend
from cobblestone.sweep.grid import run_grid

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
    policy = PolicyChoice.parse(task["policy"])
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
    """Return the compiled round-robin simulations, warmed up, so that no run pays for their loading."""
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
        f"{draw}/{number} | {name} | {seed}": {
            "draw": draw,
            "number": number,
            "policy": name,
            "seed": seed,
        }
        for number in range(scenarios)
        for seed in range(1, seeds + 1)
        for name in names
    }
    folder.mkdir(parents=True, exist_ok=True)
    backend = open_backend(scheduler, workers=workers)
    try:
        keep = folder / "fresh.jsonl"
        runs = run_grid(run_fresh, tasks, backend=backend, keep=keep, code=code_version(), progress=progress)
    finally:
        backend.close()
    return {
        name: [
            [runs[f"{draw}/{number} | {name} | {seed}"] for seed in range(1, seeds + 1)]
            for number in range(scenarios)
        ]
        for name in names
    }


@dataclass(frozen=True, slots=True)
class Change:
    """One figure of one scenario under both policies, means of its seeds."""

    scenario: int
    base: float
    ours: float
    change: Estimate  #: ours minus base, seed by seed


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be said of one demand."""

    demand: str
    figure: str  #: of :data:`FIGURES`
    holds: str  #: yes, no, undecided (the interval allows both)
    found: str
    offenders: tuple[Change, ...] = ()  #: scenarios in which it fails, the worst first


def changes(
    base: Sequence[Sequence[Mapping[str, float]]], ours: Sequence[Sequence[Mapping[str, float]]], figure: str
) -> list[Change]:
    """Return a figure's change in every scenario."""
    found: list[Change] = []
    for number, (theirs, mine) in enumerate(zip(base, ours, strict=True)):
        pairs = [(a[figure], b[figure]) for a, b in zip(theirs, mine, strict=True)]
        found.append(
            Change(
                number,
                estimate([a for a, _ in pairs]).mean,
                estimate([b for _, b in pairs]).mean,
                estimate([b - a for a, b in pairs]),
            )
        )
    return found


def mean_change(found: Sequence[Change]) -> Estimate:
    """Return the mean change over scenarios, with its interval."""
    return estimate([c.ours - c.base for c in found])


def verdicts(
    base: Sequence[Sequence[Mapping[str, float]]], ours: Sequence[Sequence[Mapping[str, float]]]
) -> list[Verdict]:
    """Judge every demand."""
    by = {figure: changes(base, ours, figure) for figure in FIGURES}
    useful = sorted(
        [c for c in by["useful"] if c.ours < c.base - USEFUL_ALLOWED], key=lambda c: c.ours - c.base
    )
    shares = sorted(
        [c for c in by["share_violation"] if c.ours > c.base + SHARE_ALLOWED], key=lambda c: c.base - c.ours
    )
    idle = sorted(
        [c for c in by["idleness"] if c.ours > c.base + IDLE_ALLOWED], key=lambda c: c.base - c.ours
    )
    share = mean_change(by["share_violation"])
    spent = [(float_sum(c.base for c in by["cpu_seconds"]), float_sum(c.ours for c in by["cpu_seconds"]))]
    ratio = spent[0][1] / max(spent[0][0], 1e-9)
    count = len(by["useful"])
    return [
        _nowhere(f"useful part nowhere lower by more than {USEFUL_ALLOWED:g}", "useful", useful, count),
        _half("waste at most half", "waste", by["waste"]),
        _half("waste at most half, without what switching off destroys", "avoidable", by["avoidable"]),
        Verdict(
            "share violation not above theirs in the mean",
            "share_violation",
            share.not_above,
            f"{_mean(by['share_violation'])}, change {share}",
        ),
        _nowhere(
            f"share violation nowhere higher by more than {SHARE_ALLOWED:g}", "share_violation", shares, count
        ),
        _nowhere(f"idleness nowhere higher by more than {IDLE_ALLOWED:g}", "idleness", idle, count),
        Verdict(
            f"at most {CPU_ALLOWED:g} times the CPU time of the simulation",
            "cpu_seconds",
            "yes" if ratio <= CPU_ALLOWED else "no",
            f"{ratio:.2f} times",
        ),
    ]


def _nowhere(demand: str, figure: str, offenders: Sequence[Change], count: int) -> Verdict:
    """Judge a scenario: it offends if the mean of its seeds does; surely, if its interval does."""
    allowed = {"useful": USEFUL_ALLOWED, "share_violation": SHARE_ALLOWED, "idleness": IDLE_ALLOWED}[figure]
    surely = sum(abs(c.change.mean) - c.change.half_width > allowed for c in offenders)
    holds = "yes" if not offenders else "no" if surely else "undecided"
    return Verdict(
        demand, figure, holds, f"fails in {len(offenders)} of {count} ({surely} surely)", tuple(offenders)
    )


def _half(demand: str, figure: str, found: Sequence[Change]) -> Verdict:
    over = estimate([c.ours - 0.5 * c.base for c in found])
    base, ours = estimate([c.base for c in found]).mean, estimate([c.ours for c in found]).mean
    part = ours / base if base > 0.0 else 0.0
    offenders = sorted(
        [c for c in found if c.base > 0.02 and c.ours > 0.5 * c.base], key=lambda c: 0.5 * c.base - c.ours
    )
    many = sum(c.base > 0.02 for c in found)
    text = f"{_mean(found)}: {part:.2f} of it; more than half in {len(offenders)} of the {many} scenarios with waste above 0.02"
    return Verdict(demand, figure, over.not_above, text, tuple(offenders))


def _mean(found: Sequence[Change]) -> str:
    base, ours = estimate([c.base for c in found]).mean, estimate([c.ours for c in found]).mean
    return f"{base:.4f} → {ours:.4f}"
