"""Every page of a task, workunit, computer and account is shown in every state that its object can have."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.helpers.project_world import World, failed
from tests.helpers.visitors import Visitor

from cobblestone.domain.work import AssimilateState, FileDeleteState, Outcome, ServerState, ValidateState

PAGES = (
    "result.php?resultid=1", "workunit.php?wuid=1", "results.php?hostid=1", "results.php?userid=1", "hosts_user.php",
    "show_host_detail.php?hostid=1", "show_user.php?userid=1", "home.php", "app.php?appid=1", "server_status.php",
    "ops.php", "ops_workunit.php?id=1", "ops_host.php?id=1", "ops_user.php?id=1", "ops_batch.php?id=1",
)  # fmt: skip
STATES = [
    *((state, Outcome.INIT) for state in (ServerState.INACTIVE, ServerState.UNSENT, ServerState.IN_PROGRESS)),
    *((ServerState.OVER, outcome) for outcome in Outcome),
]


@pytest.fixture
def begun(make_world: Callable[..., World]) -> World:
    """A project with one job that one computer has."""
    world = make_world()
    world.add_jobs(world.add_app())
    host = world.host(world.user("ada"))
    host.rpc(ask=1.0)
    world.write(lambda tx: tx.execute("UPDATE user_account SET role = 'operator'"))
    return world


def faulty_pages(world: World, visitor: Visitor) -> dict[str, int]:
    answers = {page: visitor.get("/" + page).status_code for page in PAGES}
    return {page: status for page, status in answers.items() if status >= 500}


def test_pages_are_shown_in_every_state_of_a_result(begun: World) -> None:
    visitor = Visitor(begun).log_in("ada")
    faults: dict[object, dict[str, int]] = {}
    for state, outcome in STATES:
        for validate_state in ValidateState if outcome is Outcome.SUCCESS else (ValidateState.INIT,):
            values = (int(state), int(outcome), int(validate_state))
            begun.write(
                lambda tx, values=values: tx.execute(
                    "UPDATE result SET server_state = ?, outcome = ?, validate_state = ?", values
                )
            )
            if found := faulty_pages(begun, visitor):
                faults[state.name, outcome.name, validate_state.name] = found
    assert faults == {}


def test_pages_are_shown_in_every_state_of_a_workunit(begun: World) -> None:
    visitor = Visitor(begun).log_in("ada")
    faults: dict[object, dict[str, int]] = {}
    states = [
        *((state, FileDeleteState.INIT, 0) for state in AssimilateState),
        *((AssimilateState.DONE, state, 0) for state in FileDeleteState),
        *((AssimilateState.INIT, FileDeleteState.INIT, mask) for mask in (1, 2, 16, 63)),
    ]
    for assimilate_state, delete_state, mask in states:
        values = (int(assimilate_state), int(delete_state), mask)
        begun.write(
            lambda tx, values=values: tx.execute(
                "UPDATE workunit SET assimilate_state = ?, file_delete_state = ?, error_mask = ?", values
            )
        )
        if found := faulty_pages(begun, visitor):
            faults[assimilate_state.name, delete_state.name, mask] = found
    assert faults == {}


def test_pages_are_shown_of_a_result_that_nothing_is_known_of_any_more(begun: World) -> None:
    """Its computer reported it; version, texts and outputs are gone."""
    host = begun.host(begun.value("SELECT authenticator FROM user_account"))
    host.rpc(reports=[failed(begun.value("SELECT name FROM result"))])
    begun.write(lambda tx: tx.execute("DELETE FROM result_text"))
    begun.write(
        lambda tx: tx.execute("UPDATE result SET app_version_id = NULL, user_id = NULL, host_id = NULL")
    )
    assert faulty_pages(begun, Visitor(begun).log_in("ada")) == {}
