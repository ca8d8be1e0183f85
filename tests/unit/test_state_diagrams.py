"""The page of states is drawn from the tables."""

from __future__ import annotations

from tools import state_diagrams

from cobblestone.domain.work import AssimilateState
from cobblestone.policy.lifecycle import states
from cobblestone.policy.lifecycle.states import Cause


def test_the_page_is_as_the_tables_are() -> None:
    """After a change of a table: ``python -m tools.state_diagrams``."""
    assert state_diagrams.PAGE.read_text(encoding="utf-8") == state_diagrams.page()


def test_the_page_shows_every_step_of_every_table() -> None:
    page = state_diagrams.page()
    for table, _ in state_diagrams.TABLES.values():
        for (state, cause), after in table.items():
            if state != after:
                lines = [
                    line
                    for line in page.splitlines()
                    if line.strip().startswith(f"{state.name} --> {after.name}:")
                ]
                assert any(cause.value in line for line in lines)


def test_steps_that_the_server_takes_are_known() -> None:
    taken = state_diagrams.taken()
    assert {Cause.SENT, Cause.AGREED, Cause.DETACHED, Cause.ASSIMILATED, Cause.STOPPED} <= taken
    assert Cause.RELEASED not in taken


def test_a_drawing_changes_with_its_table() -> None:
    table = dict(states.ASSIMILATE_TRANSITIONS)
    del table[AssimilateState.READY, Cause.DEFERRED]
    before = state_diagrams.draw(states.ASSIMILATE_TRANSITIONS, AssimilateState.INIT)
    assert state_diagrams.draw(table, AssimilateState.INIT) != before
    assert "READY --> INIT: handler wants to wait" in before
