"""The figures of the simulator of August 2007, draw by draw.

Expected values were made by compiling that simulator unchanged and running it with the paper's parameters;
they are kept in ``cobblestone.simulator.paper.golden``.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.helpers.effort import times

from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.simulator.compiled import load_compiled
from cobblestone.simulator.host.books import FiguresOfMerit
from cobblestone.simulator.host.client_2007 import PollingClient
from cobblestone.simulator.host.run import simulate
from cobblestone.simulator.paper import cells
from cobblestone.simulator.paper.cells import Cell, other_mode
from cobblestone.simulator.paper.golden import Golden, golden
from cobblestone.simulator.population.compiled_runs import knows_whole_run, metrics_of
from cobblestone.simulator.world.scenario import DAY, Compatibility, Scenario

#: A part of the cells is enough here: those with the most to them.  `cobblestone paper` compares all.
QUICK = (
    "slack 2, CS2_WF2_WS2_JC2",
    "slack 2, buffer 3 h",
    "slack 4, error 4, CS2_WF2_WS2_JC1",
    "printed mix 2, CS2_WF2_WS2_JC2",
    "tight mix 4, CS1_WF2_WS2_JC2",
    "tight mix 5, CS2_WF2_WS2_JC2",
    "slack 2, buffer 4 h",
    "slack 5, error 5, CS2_WF2_WS2_JC1",
    "tight mix 5, CS2_WF1_WS2_JC2",
    "stdev 10 x mean, CS2_WF2_WS2_JC2",
    "stdev 100 x mean, CS2_WF2_WS2_JC2",
    "stdev 10 x mean, deadlines from now",
)


def _figures(where: str) -> list[Golden]:
    return [g for g in golden() if g.where == where]


def _differences(where: str, metrics: FiguresOfMerit) -> list[str]:
    right = [pytest.approx(each.value, abs=0.0006) for each in _figures(where)]
    return [
        f"{each.metric}: {getattr(metrics, each.metric)}"
        for each, value in zip(_figures(where), right, strict=True)
        if getattr(metrics, each.metric) != value
    ]


@pytest.mark.parametrize("where", QUICK)
def test_every_figure_of_a_cell_is_what_the_code_of_2007_says(where: str) -> None:
    cell = _figures(where)[0].cell
    scenario, policy = cell.scenario(), PolicyChoice.parse(cell.policy)
    assert knows_whole_run(scenario, policy)
    assert _differences(where, metrics_of(scenario, policy, 1)) == []


@pytest.mark.parametrize("where", QUICK[: times(1)])
def test_the_policies_as_they_are_written_say_the_same(where: str) -> None:
    """Not compiled, they take ten times as long."""
    cell = _figures(where)[0].cell
    metrics = simulate(cell.scenario(), PolicyChoice.parse(cell.policy)).metrics
    assert _differences(where, metrics) == []


def test_the_corrected_admission_test_gives_half_at_slack_two() -> None:
    cell: Cell = other_mode(_figures("slack 2, CS2_WF2_WS2_JC2")[0].cell, "corrected")
    assert simulate(cell.scenario(), PolicyChoice()).metrics.waste == pytest.approx(0.499, abs=0.02)


def _worlds() -> st.SearchStrategy[Scenario]:
    literal = Compatibility.year_2007(literal=True)
    mixes = st.builds(
        lambda count, bound: cells.mix(count, bound=bound, compatibility=literal),
        st.integers(1, 8),
        st.sampled_from([cells.TIGHT_BOUND, cells.PRINTED_BOUND, 30_000.0]),
    )
    slacks = st.builds(
        lambda slack, error: cells.slack(slack, error=error, compatibility=literal),
        st.floats(1.0, 6.0),
        st.sampled_from([0.5, 1.0, 3.0]),
    )
    buffers = st.builds(
        lambda slack, hours: cells.buffer(slack, hours, compatibility=literal),
        st.floats(1.0, 3.0),
        st.floats(1.0, 12.0),
    )
    rare = st.builds(
        lambda stdev: cells.variance(stdev, compatibility=literal), st.sampled_from([0.5, 3.0, 100.0])
    )
    return st.one_of(mixes, slacks, buffers, rare)


@settings(max_examples=times(2), deadline=None)
@example(
    # an endangered job takes the place on top of the heap, and the next on top has outlived its slice
    cells.mix(8, bound=30_000.0, compatibility=Compatibility.year_2007(literal=True)),
    "CS1_WF2_WS2_JC2",
    69,
)
@given(
    _worlds(), st.sampled_from(["CS1_WF2_WS2_JC2", "CS2_WF2_WS2_JC2", "CS2_WF1_WS1_JC1"]), st.integers(1, 99)
)
def test_foreseen_polls_give_the_same_run_as_made_ones(world: Scenario, policy: str, seed: int) -> None:
    world = replace(world, duration=10 * DAY)
    choice = PolicyChoice.parse(policy)
    compiled = load_compiled()

    def run() -> FiguresOfMerit:
        return simulate(world, choice, seed=seed, backends=compiled).metrics

    foreseen = run()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PollingClient, "_may_skip", lambda _: False)
        assert run() == foreseen
