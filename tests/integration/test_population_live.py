"""The population simulator beside a live project: the same hosts, the same jobs, the real scheduler and daemons."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest
from tests.helpers.live_population import Record, run_live
from tests.helpers.project_world import World

from cobblestone.domain.values import DAY, HOUR
from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.simulator.population.run import run_population
from cobblestone.simulator.world.host_tables import draw_hosts
from cobblestone.simulator.world.scenario import AppModel, JobSizes, ProjectModel, Scenario, ServerModel

JOB = 2.2e9 * 9 * HOUR


def _scenario(*, quorum: int, results: int) -> Scenario:
    """Jobs of nine hours, of which some fail, on hosts that leave after six days on average; work for so many good results."""
    app = AppModel(
        latency_bound=2.5 * DAY,
        flops_estimate=JOB,
        sizes=JobSizes(mean=JOB, stdev=0.4 * JOB, kind="lognormal"),
        error_rate=0.03,
    )
    server = ServerModel(min_quorum=quorum, target_results=quorum, workunits=results // quorum)
    return Scenario(
        name="beside a live project",
        duration=4 * DAY,
        projects=(ProjectModel(name="demo", apps=(app,), server=server),),
        lifetime=6 * DAY,
    )


@pytest.mark.timeout(240)
@pytest.mark.parametrize(("quorum", "results"), [(1, 120), (2, 600)])
def test_a_population_run_does_what_a_live_project_does(tmp_path: Path, quorum: int, results: int) -> None:
    """Result by result: both learn the same speeds, and so the same hosts ask at the same times and get the same jobs."""
    scenario = _scenario(quorum=quorum, results=results)
    hosts = draw_hosts(8, seed=4)
    policy = PolicyChoice.parse("CS2_WF2_WS1_JC2")
    world = World(tmp_path)
    try:
        live = run_live(world, scenario, hosts, policy)
    finally:
        world.close()
    simulated = Record.of(run_population(scenario, hosts, policy))
    assert live.sent > 120
    assert live.timed_out > 0.02
    assert (live.idleness > 0.1) == (results < 600)  # else there is always work
    assert asdict(simulated) == pytest.approx(asdict(live), rel=0.02)
