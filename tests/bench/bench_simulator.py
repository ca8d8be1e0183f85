"""Speed of the simulator: CPU seconds for 100 simulated days.

The C++ simulator as of 2026 takes 0.75 s (one project) and 2.2 s (mix of 20) with its output discarded, 0.31
and 1.36 s without any output, on the machine where the ceilings below were set.
"""

from __future__ import annotations

import time
from dataclasses import replace

from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.simulator.compiled import load_compiled
from cobblestone.simulator.host.run import simulate
from cobblestone.simulator.paper import cells
from cobblestone.simulator.population.run import run_population
from cobblestone.simulator.world.host_tables import draw_hosts
from cobblestone.simulator.world.scenario import DAY, AppModel, JobSizes, ProjectModel, Scenario

CEILINGS = {
    "base scenario, 100 days": 0.35,
    "mix of 20 projects, 100 days": 1.0,
    "1,800 host-days of a population, jobs of a day": 1.8,
}


def cpu_seconds(scenario: Scenario, policy: PolicyChoice) -> float:
    """Return the least of three measurements."""
    best = float("inf")
    for _ in range(3):
        begin = time.process_time()
        simulate(scenario, policy)
        best = min(best, time.process_time() - begin)
    return best


def population_seconds(hosts: int, days: int) -> float:
    """Return CPU seconds of a population with compiled hosts and jobs of a day, without compiling; the least of three."""
    size = 2.2e9 * DAY
    app = AppModel(latency_bound=9 * DAY, flops_estimate=size, sizes=JobSizes(mean=size, stdev=0.2 * size))
    world = replace(cells.base(), duration=days * DAY, projects=(ProjectModel(name="P", apps=(app,)),))
    best = float("inf")
    for duration in (DAY, world.duration, world.duration, world.duration):  # the first one compiles
        scenario = replace(world, duration=duration)
        begin = time.process_time()
        run_population(
            scenario, draw_hosts(hosts, seed=1), PolicyChoice(), backends=load_compiled(), compiled=True
        )
        if duration == world.duration:
            best = min(best, time.process_time() - begin)
    return best


def figures() -> dict[str, float]:
    """Measure everything."""
    policy = PolicyChoice()
    modern = PolicyChoice(4, 4, 1, 2)
    return {
        "base scenario, 100 days": cpu_seconds(cells.base(), policy),
        "mix of 20 projects, 100 days": cpu_seconds(cells.mix(20), policy),
        "tight mix of 20 projects, 100 days": cpu_seconds(cells.mix(20, bound=cells.TIGHT_BOUND), policy),
        "base scenario, today's family": cpu_seconds(cells.base(), modern),
        "mix of 20 projects, today's family": cpu_seconds(cells.mix(20), modern),
        "1,800 host-days of a population, jobs of a day": population_seconds(60, 30),
    }
