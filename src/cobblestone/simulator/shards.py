"""A large population in parts: each part has its hosts and its part of every project's workunits, and runs by itself.

A workunit's replicas go to hosts of one part, which is no restriction as long as a part has many more hosts than a
workunit has replicas: its hosts are a random sample of all.  The parts' tallies are added up.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce
from operator import add

from cobblestone.domain.errors import ConfigError
from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.simulator.population import (
    PopulationRun,
    require_population,
    run_population,
    worth_compiling,
)
from cobblestone.simulator.scenario import HostModel, ProjectModel, Scenario
from cobblestone.simulator.shared_project import Tally
from cobblestone.sweep.backends import Backend
from cobblestone.sweep.grid import run_grid

#: A part has at least this many hosts.
FEWEST_HOSTS = 20
_EXTREMES: dict[str, Callable[[list[float]], float]] = {
    "longest_wait": max,
    "first_sent": min,
    "last_done": max,
}  #: figures of a tally that are not sums


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """One part, as it travels to another process."""

    scenario: Scenario
    hosts: tuple[HostModel, ...]
    policy: PolicyChoice
    seed: int
    compiled: bool = False  #: whether it pays to compile the hosts


def split(
    scenario: Scenario, hosts: Sequence[HostModel], policy: PolicyChoice, *, seed: int, shards: int
) -> list[Shard]:
    """Deal hosts and workunits out to so many parts, each with random streams of its own.

    Raises :class:`ConfigError` for parts that are too small, or workunits that do not suffice for all.
    """
    require_population(scenario, hosts)
    if not 1 <= shards <= max(1, len(hosts) // FEWEST_HOSTS):
        raise ConfigError(
            f"shards = {shards} is not possible with {len(hosts)} hosts; allowed: 1 to {max(1, len(hosts) // FEWEST_HOSTS)}, so"
            f" that each part has {FEWEST_HOSTS} hosts"
        )
    return [
        Shard(
            scenario=replace(
                scenario,
                projects=tuple(_part_of(project, number, shards) for project in scenario.projects),
            ),
            hosts=tuple(hosts[number::shards]),
            policy=policy,
            seed=seed if shards == 1 else seed * 1_000_003 + number,
            compiled=worth_compiling(scenario, len(hosts)),
        )
        for number in range(shards)
    ]


def _part_of(project: ProjectModel, number: int, shards: int) -> ProjectModel:
    server = project.server
    if 0 < server.workunits < shards:
        raise ConfigError(
            f"project {project.name!r}, server: workunits = {server.workunits} cannot be dealt out to {shards} parts"
        )
    processes = max(1, server.processes // shards)
    return replace(
        project,
        server=replace(
            server,
            workunits=server.workunits // shards + (number < server.workunits % shards),
            workunits_per_day=server.workunits_per_day / shards,
            processes=processes,
            # a process that serves all parts in turn is there for each of them a part of its time
            service_seconds=server.service_seconds * shards * processes / server.processes,
        ),
    )


def run_shard(shard: Shard) -> PopulationRun:
    """Run one part, with compiled twins where they are installed."""
    from cobblestone.simulator.compiled import load_compiled  # Numba: only where it computes

    run = run_population(
        shard.scenario,
        shard.hosts,
        shard.policy,
        seed=shard.seed,
        backends=load_compiled(),
        compiled=shard.compiled,
    )
    gc.collect()  # hosts and clients know each other; a worker goes through hundreds of parts
    return run


def run_shards(
    scenario: Scenario,
    hosts: Sequence[HostModel],
    policy: PolicyChoice,
    *,
    seed: int,
    shards: int,
    backend: Backend,
    progress: Callable[[int, int], None] | None = None,
) -> PopulationRun:
    """Simulate a population in parts on a backend, and put the parts together."""
    parts = split(scenario, hosts, policy, seed=seed, shards=shards)
    tasks = {str(number): part for number, part in enumerate(parts)}
    found = run_grid(run_shard, tasks, backend=backend, progress=progress)
    runs: list[PopulationRun] = [found[key] for key in tasks]
    ordered = replace(scenario, projects=tuple(sorted(scenario.projects, key=lambda p: p.name)))
    return PopulationRun(
        scenario=ordered,
        policy=policy,
        seed=seed,
        hosts=len(hosts),
        tallies=tuple(add_up([run.tallies[i] for run in runs]) for i in range(len(ordered.projects))),
        books=tuple(book for run in runs for book in run.books),
    )


def add_up(tallies: Sequence[Tally]) -> Tally:
    """Return the tally of all parts together."""
    total = Tally()
    for field in fields(Tally):
        values = [getattr(tally, field.name) for tally in tallies]
        if field.name in _EXTREMES:
            setattr(total, field.name, _EXTREMES[field.name](values))
        elif isinstance(values[0], list):
            setattr(total, field.name, [item for value in values for item in value])
        elif isinstance(values[0], dict):
            keys = sorted({key for value in values for key in value})
            setattr(total, field.name, {key: sum(value.get(key, 0) for value in values) for key in keys})
        else:
            setattr(total, field.name, reduce(add, values))  # whole numbers stay so
    return total
