"""Several policies on several drawings of a population: one run each, side by side, kept as they come."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.policy.client.core.plain import from_plain, to_plain
from cobblestone.simulator.code_version import code_version
from cobblestone.simulator.population import worth_compiling
from cobblestone.simulator.population_report import PopulationRecord, record_of
from cobblestone.simulator.scenario import HostModel, Scenario
from cobblestone.simulator.shards import Shard, run_shard
from cobblestone.sweep.backends import Backend
from cobblestone.sweep.grid import run_grid


def run_side_by_side(
    scenario: Scenario,
    tables: Mapping[int, Sequence[HostModel]],
    policies: Sequence[PolicyChoice],
    *,
    backend: Backend,
    keep: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, list[PopulationRecord]]:
    """Run every policy with every seed of ``tables`` (hosts by seed); return the runs by policy, in the order of the seeds.

    Runs are appended to ``keep`` as they end; those of this scenario, these hosts and this code that are there already are
    not made again.
    """
    compiled = worth_compiling(scenario, sum(map(len, tables.values())) * len(policies))
    shards = {
        (str(policy), seed): Shard(
            scenario=scenario, hosts=tuple(hosts), policy=policy, seed=seed, compiled=compiled
        )
        for seed, hosts in tables.items()
        for policy in policies
    }
    keys = {place: f"{place[0]}, seed {place[1]}, {_digest(shard)}" for place, shard in shards.items()}
    found = run_grid(
        _run_plainly,
        {keys[place]: shard for place, shard in shards.items()},
        backend=backend,
        keep=keep,
        code=code_version(),
        progress=progress,
    )
    return {
        str(policy): [from_plain(PopulationRecord, found[keys[str(policy), seed]]) for seed in tables]
        for policy in policies
    }


def _run_plainly(shard: Shard) -> Any:
    return to_plain(record_of(run_shard(shard)))


def _digest(shard: Shard) -> str:
    """Return a text that another scenario or other hosts would not have."""
    return hashlib.sha256(repr((shard.scenario, shard.hosts)).encode()).hexdigest()[:16]
