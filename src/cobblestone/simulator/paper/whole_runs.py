"""Whole runs of the published policies in compiled form, for the thousands that the paper's figures take.

What the compiled form does not know is simulated by the policies' own functions.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.simulator import compiled_host
from cobblestone.simulator.compiled import load_compiled
from cobblestone.simulator.engine import Availability
from cobblestone.simulator.kernel.entry import load_kernel
from cobblestone.simulator.kernel.world import C_STATE, DONE, SHORT_TABLES, World, numpy
from cobblestone.simulator.metrics import Metrics, compute_metrics
from cobblestone.simulator.run import require_balance, simulate
from cobblestone.simulator.scenario import OnOff, ProjectModel, Scenario
from cobblestone.simulator.streams import CLibraryRandom, Streams

#: Jobs at a time, at most.
MOST_JOBS = 8192
#: Random numbers of each kind that a run gets at first, and at most.
FEW, MANY = 4096, 1 << 22


def metrics_of(scenario: Scenario, policy: PolicyChoice, seed: int) -> Metrics:
    """Return the figures of merit that ``simulate`` finds, in compiled form where that knows the scenario."""
    scenario = replace(scenario.check(), projects=tuple(sorted(scenario.projects, key=lambda p: p.name)))
    if knows(scenario, policy):
        numbers = FEW
        while numbers <= MANY:
            world = _world(scenario, policy, seed, numbers)
            load_kernel()(world)
            status = world.host[0]["status"]
            if status == DONE:
                books = compiled_host.books_of(world, scenario)
                require_balance(scenario, policy, seed, books)
                return compute_metrics(books)
            if status != SHORT_TABLES:
                break
            numbers *= 8
    return simulate(scenario, policy, seed=seed, backends=load_compiled()).metrics


def knows(scenario: Scenario, policy: PolicyChoice) -> bool:
    """Tell whether the compiled form has everything that a scenario has."""
    model = scenario.host.availability
    plain = model == OnOff(fraction=model.fraction, mean_on=model.mean_on) and model.fraction < 1.0
    return (
        compiled_host.knows(scenario, policy)
        and (plain or not scenario.compatibility.c_library_random)
        and all(len(p.apps) == 1 and p.apps[0].weight > 0.0 for p in scenario.projects)
        and not any(app.error_rate or app.early_exit_rate for p in scenario.projects for app in p.apps)
    )


@lru_cache(maxsize=64)
def _toggles(model: OnOff, quantum: float, duration: float, seed: int) -> tuple[bool, Any]:
    """Return whether the host of a seed is on at first, and when that changes: all policies meet the same host."""
    return compiled_host.toggles(model, Streams(seed), duration, quantum)


def _world(scenario: Scenario, policy: PolicyChoice, seed: int, numbers: int) -> World:
    """Return the world at its beginning."""
    models = scenario.projects
    streams = Streams(seed)
    world = compiled_host.world_of(scenario, policy, places=MOST_JOBS)
    host = world.host[0]
    if scenario.compatibility.c_library_random:
        _take_c_library(world, scenario, seed)
        return world
    host["on"], times = _toggles(
        scenario.host.availability, scenario.compatibility.quantum, scenario.duration, seed
    )
    host["until"] = times[0]
    backoff = streams.stream("backoff")
    parts = [times, numpy.array([backoff.random() for _ in range(numbers)])]
    host["backoff_at"], host["backoff_end"] = len(times), len(times) + numbers
    for i, model in enumerate(models, 1):
        world.projects[i - 1]["sizes_at"] = len(times) + numbers * i
        world.projects[i - 1]["sizes_end"] = len(times) + numbers * (i + 1)
        parts.append(_sizes(model, streams, numbers))
    return world._replace(numbers=numpy.concatenate(parts))


def _sizes(model: ProjectModel, streams: Streams, numbers: int) -> Any:
    sizes = model.apps[0].sizes
    rng = streams.stream("jobs", model.name)
    if sizes.kind == "normal" and sizes.stdev == 0.0:
        return numpy.full(numbers, sizes.mean)
    return numpy.array([sizes.draw(rng) for _ in range(numbers)])


def _take_c_library(world: World, scenario: Scenario, seed: int) -> None:
    host, model = world.host[0], scenario.host.availability
    shared = CLibraryRandom(seed)
    process = Availability(model, shared, start_on=True, quantum=scenario.compatibility.quantum)
    host["shared"], host["on"], host["until"], host["exact"] = 1, process.on, process.until, process.exact
    host["mean_on"], host["mean_off"] = model.mean_on, model.mean_on * (1.0 - model.fraction) / model.fraction
    host["c_index"] = shared.index
    world.lists[C_STATE, :31] = shared.words
