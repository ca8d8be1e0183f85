"""The population simulator beside a live project: the same hosts, the same jobs, the real scheduler and daemons."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.helpers.live_population import Record, run_live
from tests.helpers.project_world import World

from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.simulator.host_tables import draw_hosts
from cobblestone.simulator.population import run_population
from cobblestone.simulator.scenario import DAY, HOUR, AppModel, JobSizes, ProjectModel, Scenario, ServerModel

JOB = 2.2e9 * 9 * HOUR


def _scenario(*, quorum: int) -> Scenario:
    """Jobs of nine hours, of which some fail, on hosts that leave after three weeks on average."""
    app = AppModel(
        latency_bound=2.5 * DAY,
        flops_estimate=JOB,
        sizes=JobSizes(mean=JOB, stdev=0.4 * JOB, kind="lognormal"),
        error_rate=0.03,
    )
    server = ServerModel(min_quorum=quorum, target_results=quorum, workunits=600 // quorum)
    return Scenario(
        name="beside a live project",
        duration=4 * DAY,
        projects=(ProjectModel(name="demo", apps=(app,), server=server),),
        lifetime=20 * DAY,
    )


@pytest.mark.timeout(240)
@pytest.mark.parametrize("quorum", [1, 2])
def test_a_population_run_says_what_a_live_project_shows(tmp_path: Path, quorum: int) -> None:
    scenario = _scenario(quorum=quorum)
    hosts = draw_hosts(8, seed=4)
    policy = PolicyChoice.parse("CS2_WF2_WS1_JC2")
    world = World(tmp_path)
    try:
        live = run_live(world, scenario, hosts, policy)
    finally:
        world.close()
    simulated = Record.of(run_population(scenario, hosts, policy))
    assert live.sent > 150
    assert simulated.workunits_per_day == pytest.approx(live.workunits_per_day, rel=0.05)
    assert simulated.turnaround == pytest.approx(live.turnaround, rel=0.05)
    assert simulated.timed_out == pytest.approx(live.timed_out, abs=0.02)
    assert simulated.idleness == pytest.approx(live.idleness, abs=0.01)
