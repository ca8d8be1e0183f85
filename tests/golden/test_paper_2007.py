"""The figures of the simulator of August 2007, draw by draw.

Expected values were made by compiling that simulator unchanged and running it with the paper's parameters;
they are kept in ``cobblestone.simulator.paper.golden``.
"""

from __future__ import annotations

import pytest

from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.simulator.paper.cells import Cell, other_mode
from cobblestone.simulator.paper.golden import Golden, golden
from cobblestone.simulator.run import simulate

#: A part of the cells is enough here: those with the most to them.  `cobblestone paper` compares all.
QUICK = [
    g
    for g in golden()
    if g.where
    in (
        "slack 2, CS2_WF2_WS2_JC2",
        "slack 4, CS2_WF2_WS2_JC2",
        "slack 2, buffer 3 h",
        "slack 4, error 4, CS2_WF2_WS2_JC1",
        "slack 4, error 5, CS2_WF2_WS2_JC2",
    )
]


@pytest.mark.parametrize("item", QUICK, ids=lambda g: g.where)
def test_one_project_wastes_what_the_code_of_2007_says(item: Golden) -> None:
    result = simulate(item.cell.scenario(), PolicyChoice.parse(item.cell.policy))
    assert getattr(result.metrics, item.metric) == pytest.approx(item.value, abs=0.0006)


@pytest.mark.parametrize("policy", ["CS2_WF2_WS2_JC2", "CS2_WF1_WS2_JC2"])
def test_the_published_picture_appears_in_the_tight_mix(policy: str) -> None:
    items = [g for g in golden() if g.where == f"tight mix 4, {policy}"]
    metrics = simulate(items[0].cell.scenario(), PolicyChoice.parse(policy)).metrics
    for item in items:
        assert getattr(metrics, item.metric) == pytest.approx(item.value, abs=0.025)


def test_the_corrected_admission_test_gives_half_at_slack_two() -> None:
    cell: Cell = other_mode(
        next(g for g in golden() if g.where == "slack 2, CS2_WF2_WS2_JC2").cell, "corrected"
    )
    assert simulate(cell.scenario(), PolicyChoice()).metrics.waste == pytest.approx(0.499, abs=0.02)
