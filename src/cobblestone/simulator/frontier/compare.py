"""The set of scenarios, the runs, and the differences between two policies with their intervals.

Both policies meet the same world for a seed, so the difference is taken seed by seed, and its interval is that of
the paired differences.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cobblestone.domain.errors import ConfigError
from cobblestone.domain.sums import float_sum
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
from cobblestone.simulator.statistics import Estimate, estimate

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One metric in one scenario under both policies."""

    scenario: str
    metric: str
    base: Estimate
    ours: Estimate
    change: Estimate  #: ours minus base, seed by seed

    @property
    def worse(self) -> bool:
        """Is the mean worse by more than is allowed?"""
        return self.change.mean > ALLOWED

    @property
    def surely_worse(self) -> bool:
        """Is it so whatever the luck of the seeds, at 95 %?"""
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
) -> list[Difference]:
    """Run both policies on the set, or the scenarios whose name begins with ``only``.

    Every run is kept in ``folder`` as soon as it is there, so an interrupted comparison, or one with more seeds, goes
    on from what there is, unless the code has changed.
    """
    cells = {choice: scenarios(str(choice)) for choice in (base, policy)}
    names = [name for name in cells[base] if name.startswith(only)]
    if not names:
        kinds = "printed mix, tight mix, slack, error, stdev"
        raise ConfigError(f"only = {only!r}: no scenario's name begins so; they begin with {kinds}")
    tasks = {
        _key(name, choice, seed): {**as_task(cells[choice][name], 1), "seeds": [seed]}
        for seed in range(1, seeds + 1)
        for name in reversed(names)  # the long ones are in the front of the set; short ones fill up the end
        for choice in cells
    }
    results = run_cells(tasks, folder, scheduler=scheduler, workers=workers, progress=progress)
    runs = {key: values[0] for key, values in results.items()}
    return [
        _difference(name, metric, runs, policy, base, seeds)
        for name in names
        for metric in (*METRICS, *FURTHER)
    ]


def _key(name: str, policy: PolicyChoice, seed: int) -> str:
    return f"{name} | {policy} | {seed}"


def _difference(
    name: str,
    metric: str,
    runs: Mapping[str, Mapping[str, float]],
    policy: PolicyChoice,
    base: PolicyChoice,
    seeds: int,
) -> Difference:
    ours = [runs[_key(name, policy, seed)][metric] for seed in range(1, seeds + 1)]
    theirs = [runs[_key(name, base, seed)][metric] for seed in range(1, seeds + 1)]
    return Difference(
        scenario=name,
        metric=metric,
        base=estimate(theirs),
        ours=estimate(ours),
        change=estimate([mine - other for mine, other in zip(ours, theirs, strict=True)]),
    )


def mean_over_scenarios(differences: Sequence[Difference], metric: str) -> tuple[float, float]:
    """Return the means of a metric over all scenarios: base, ours."""
    mine = [d for d in differences if d.metric == metric]
    return float_sum(d.base.mean for d in mine) / len(mine), float_sum(d.ours.mean for d in mine) / len(mine)
