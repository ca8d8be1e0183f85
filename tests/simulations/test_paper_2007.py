"""The figures of the simulator of August 2007, draw by draw.

Expected values were made by compiling that simulator unchanged and running it with the paper's parameters;
they are kept in ``cobblestone.simulator.paper.golden``.
"""

from __future__ import annotations

import pytest
from tests.helpers.effort import times

from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.simulator.host.books import FiguresOfMerit
from cobblestone.simulator.host.run import simulate
from cobblestone.simulator.paper.cells import Cell, other_mode
from cobblestone.simulator.paper.golden import Golden, golden
from cobblestone.simulator.population.compiled_runs import knows_whole_run, metrics_of

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
    """Not compiled, they take far longer."""
    cell = _figures(where)[0].cell
    metrics = simulate(cell.scenario(), PolicyChoice.parse(cell.policy)).metrics
    assert _differences(where, metrics) == []


def test_the_corrected_admission_test_gives_half_at_slack_two() -> None:
    cell: Cell = other_mode(_figures("slack 2, CS2_WF2_WS2_JC2")[0].cell, "corrected")
    assert simulate(cell.scenario(), PolicyChoice()).metrics.waste == pytest.approx(0.499, abs=0.02)
