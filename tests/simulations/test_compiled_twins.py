"""The compiled twins of the round-robin simulations give the same numbers, to the last bit."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers.effort import times

from cobblestone.domain.values import DAY
from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.policy.client.published.round_robin import PURE, ProjectQueue
from cobblestone.simulator.compiled import load_compiled
from cobblestone.simulator.host.books import compute_metrics
from cobblestone.simulator.host.run import simulate
from cobblestone.simulator.host.server import sorted_2007
from cobblestone.simulator.paper import cells
from cobblestone.simulator.population import compiled_runs
from cobblestone.simulator.population.compiled_runs import knows_whole_run, metrics_of
from cobblestone.simulator.population.run import run_population
from cobblestone.simulator.world.host_tables import draw_hosts
from cobblestone.simulator.world.scenario import (
    AppModel,
    Compatibility,
    JobSizes,
    ProjectModel,
    Scenario,
    ServerModel,
)

#: The first of them compiles: a minute alone, and some on a busy machine.
pytestmark = pytest.mark.timeout(900)

#: Few different sizes, so that jobs end at the same moment.
SIZES = st.one_of(st.sampled_from([0.0, 100.0, 3600.0, 13_000.0, 26_000.0]), st.floats(0.0, 1e6))
SHARES = st.one_of(st.sampled_from([0.0, 100.0, 200.0]), st.floats(0.0, 1e3))


@st.composite
def queues(draw: st.DrawFn) -> list[ProjectQueue]:
    """Jobs of some projects."""
    found: list[ProjectQueue] = []
    for _ in range(draw(st.integers(1, 7))):
        remaining = draw(st.lists(SIZES, max_size=7))
        cutoffs = draw(st.lists(st.floats(-1e5, 1e6), min_size=len(remaining), max_size=len(remaining)))
        found.append(ProjectQueue(draw(SHARES), remaining, cutoffs))
    return found


@settings(deadline=None)
@given(
    queues(),
    st.floats(0.0, 1e6),
    st.integers(1, 5),
    st.floats(0.0, 1.5),
    st.sampled_from([1.0, 30_240.0, 172_800.0]),
    st.randoms(use_true_random=False),
)
def test_compiled_and_pure_round_robin_are_equal(
    projects: list[ProjectQueue], now: float, ncpus: int, fraction: float, buffer: float, rng: object
) -> None:
    compiled = load_compiled()
    assert compiled is not PURE
    total = sum(p.share for p in projects)
    assert compiled.queues(projects, now, ncpus, fraction, buffer, total) == PURE.queues(
        projects, now, ncpus, fraction, buffer, total
    )
    jobs = [
        (i, left, cutoff)
        for i, p in enumerate(projects)
        for left, cutoff in zip(p.remaining, p.cutoffs, strict=True)
    ]
    rng.shuffle(jobs)  # type: ignore[attr-defined]  # Hypothesis hands over a random.Random
    shares = [p.share for p in projects]
    assert compiled.steps(jobs, now, ncpus, fraction, buffer, shares) == PURE.steps(
        jobs, now, ncpus, fraction, buffer, shares
    )


@pytest.mark.parametrize("literal", [True, False])
def test_a_run_with_compiled_twins_is_the_same_run(literal: bool) -> None:
    compatibility = Compatibility.year_2007(literal=True) if literal else None
    scenario = replace(cells.mix(6, bound=cells.TIGHT_BOUND, compatibility=compatibility), duration=20 * DAY)
    runs = [
        simulate(scenario, PolicyChoice(), backends=backends).metrics for backends in (PURE, load_compiled())
    ]
    assert runs[0] == runs[1]


def test_equal_deadlines_come_in_the_order_of_the_c_library() -> None:
    # found with GCC's std::sort on (k mod 3) for k = 0 ... 19
    jobs = [(float(k % 3), float(k), -1.0) for k in range(20)]
    assert [int(job[1]) for job in sorted_2007(jobs)] == [
        18, 3, 15, 6, 12, 9, 0, 10, 19, 16, 13, 7, 4, 1, 11, 8, 14, 5, 17, 2
    ]  # fmt: skip


@st.composite
def worlds(draw: st.DrawFn) -> Scenario:
    """A world of the paper, for two days: as it is, with the faults of 2007, or as the code of 2007."""
    ways = draw(
        st.sampled_from([Compatibility(), Compatibility.year_2007(), Compatibility.year_2007(literal=True)])
    )
    if draw(st.booleans()):
        ways = replace(ways, faults=replace(ways.faults, absolute_admission_deadlines=False))
    kind = draw(st.sampled_from(["mix", "slack", "buffer", "variance"]))
    if kind == "mix":
        bound = draw(st.sampled_from([cells.TIGHT_BOUND, cells.PRINTED_BOUND, 30_000.0]))
        world = cells.mix(draw(st.integers(1, 6)), bound=bound, compatibility=ways)
    elif kind == "slack":
        error = draw(st.sampled_from([0.5, 1.0, 3.0]))
        world = cells.slack(draw(st.floats(1.0, 6.0)), error=error, compatibility=ways)
    elif kind == "buffer":
        share = draw(st.sampled_from([0.0, 0.3]))
        world = cells.buffer(2.0, draw(st.floats(1.0, 12.0)), minimum_share=share, compatibility=ways)
    else:
        world = cells.variance(draw(st.sampled_from([0.5, 3.0, 100.0, 1000.0])), compatibility=ways)
    belief = world.host.believed_availability
    if not ways.every_poll:
        belief = draw(st.sampled_from([belief, 0.7, "true"]))
    host = replace(world.host, ncpus=draw(st.sampled_from([1, 2, 2, 5])), believed_availability=belief)
    return replace(world, duration=2 * DAY, host=host)


@settings(max_examples=times(4), deadline=None)
@given(
    worlds(),
    st.tuples(st.integers(1, 2), st.integers(1, 2), st.integers(1, 2), st.integers(1, 2)),
    st.integers(1, 99),
)
def test_a_whole_run_in_compiled_form_gives_the_same_figures(
    world: Scenario, parts: tuple[int, int, int, int], seed: int
) -> None:
    policy = PolicyChoice(*parts)
    assert knows_whole_run(world, policy)
    assert (
        metrics_of(world, policy, seed)
        == simulate(world, policy, seed=seed, backends=load_compiled()).metrics
    )


def test_what_the_compiled_form_does_not_know_is_left_to_the_policies() -> None:
    policy = PolicyChoice()
    world = replace(cells.slack(3.0), duration=3 * DAY)
    app = replace(world.projects[0].apps[0], error_rate=0.3)
    failing = replace(world, projects=(replace(world.projects[0], apps=(app,)),))
    assert not knows_whole_run(failing, policy)
    assert not knows_whole_run(world, PolicyChoice.parse("CS3_WF3_WS2_JC2"))
    assert metrics_of(failing, policy, 1) == simulate(failing, policy, seed=1).metrics


def test_more_jobs_than_numbers_were_drawn_for_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_runs, "FEW", 2)
    world = replace(cells.variance(0.5), duration=5 * DAY)
    found = simulate(world, PolicyChoice(), seed=1).metrics
    assert found.jobs > compiled_runs.FEW
    assert metrics_of(world, PolicyChoice(), 1) == found


@settings(max_examples=times(2), deadline=None)
@given(
    st.sampled_from(["CS2_WF2_WS2_JC2", "CS1_WF1_WS1_JC1", "CS2_WF2_WS1_JC2"]),
    st.booleans(),
    st.sampled_from([0.0, 2.0 * DAY]),
    st.integers(1, 99),
)
def test_a_population_of_compiled_hosts_is_the_same_population(
    policy: str, two: bool, lifetime: float, seed: int
) -> None:
    sizes = JobSizes(mean=1e14, stdev=5e13, kind="lognormal")
    app = AppModel(latency_bound=DAY, flops_estimate=1e14, sizes=sizes, error_rate=0.1, early_exit_rate=0.1)
    short = replace(app, name="short", sizes=JobSizes(mean=2e12), flops_estimate=2e12)
    server = ServerModel(min_quorum=2, target_results=2, wrong_rate=0.05)
    projects = [ProjectModel(name="P1", apps=(app, short), server=server)]
    if two:
        projects.append(ProjectModel(name="P2", share=50.0, apps=(app,)))
    world = Scenario(duration=3 * DAY, projects=tuple(projects), lifetime=lifetime)
    hosts = draw_hosts(6, seed=seed)
    choice = PolicyChoice.parse(policy)
    runs = [
        run_population(world, hosts, choice, seed=seed, backends=load_compiled(), compiled=compiled)
        for compiled in (False, True)
    ]
    assert runs[0].tallies == runs[1].tallies
    for ours, theirs in zip(*(run.books for run in runs), strict=True):
        assert compute_metrics(ours) == compute_metrics(theirs)
        assert (ours.available, ours.delivered, ours.idle) == (
            theirs.available,
            theirs.delivered,
            theirs.idle,
        )
        assert ours.projects == theirs.projects
