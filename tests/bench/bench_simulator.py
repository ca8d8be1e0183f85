"""Speed of the simulator: CPU seconds for 100 simulated days.

The C++ simulator as of 2026 takes 0.75 s (one project) and 2.2 s (mix of 20) with its output discarded, 0.31
and 1.36 s without any output, on the machine where the ceilings below were set.
"""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from tempfile import TemporaryDirectory

from cobblestone.domain.values import DAY
from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.simulator.compiled import load_compiled
from cobblestone.simulator.host.run import simulate
from cobblestone.simulator.paper import cells
from cobblestone.simulator.population.run import run_population
from cobblestone.simulator.world.host_tables import draw_hosts
from cobblestone.simulator.world.scenario import AppModel, JobSizes, ProjectModel, Scenario

CEILINGS = {
    "base scenario, 100 days": 0.35,
    "mix of 20 projects, 100 days": 1.0,
    "1,800 host-days of a population, jobs of a day": 1.5,
}


def cpu_seconds(scenario: Scenario, policy: PolicyChoice) -> float:
    """Return the least of three measurements."""
    best = float("inf")
    for _ in range(3):
        begin = time.process_time()
        simulate(scenario, policy)
        best = min(best, time.process_time() - begin)
    return best


def population_seconds(hosts: int, days: int, policy: PolicyChoice) -> float:
    """Return CPU seconds of a population with jobs of a day, with hosts compiled where that can be, without compiling; the least
    of three.
    """
    size = 2.2e9 * DAY
    app = AppModel(latency_bound=9 * DAY, flops_estimate=size, sizes=JobSizes(mean=size, stdev=0.2 * size))
    world = replace(cells.base(), duration=days * DAY, projects=(ProjectModel(name="P", apps=(app,)),))
    best = float("inf")
    for duration in (DAY, world.duration, world.duration, world.duration):  # the first one compiles
        scenario = replace(world, duration=duration)
        begin = time.process_time()
        run_population(scenario, draw_hosts(hosts, seed=1), policy, backends=load_compiled(), compiled=True)
        if duration == world.duration:
            best = min(best, time.process_time() - begin)
    return best


def command_seconds() -> float:
    """Return CPU seconds of the whole command for one host and 100 days, as a user starts it; the least of five."""
    best = float("inf")
    with TemporaryDirectory() as folder:
        path = Path(folder, "one.toml")
        path.write_text('[[project]]\nname = "P"\n[[project.app]]\n', encoding="utf-8")
        for _ in range(5):
            before = getrusage(RUSAGE_CHILDREN)
            command = [sys.executable, "-m", "cobblestone", "simulate", str(path)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            after = getrusage(RUSAGE_CHILDREN)
            best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
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
        "whole command, one host, 100 days": command_seconds(),
        "1,800 host-days of a population, jobs of a day": population_seconds(60, 30, policy),
        "300 host-days of a population, today's family": population_seconds(20, 15, modern),
        "300 host-days of a population, own": population_seconds(20, 15, PolicyChoice.parse("own")),
    }
