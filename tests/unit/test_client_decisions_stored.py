"""What the core has learnt is stored by one version of the program and may be read by another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.helpers.client_state import URL, World, play

from cobblestone.client.records import state
from cobblestone.client.records.decisions import CoreDriver


def of_another_version(stored: dict[str, Any]) -> None:
    stored["core"]["version"] = -1


def with_what_is_unknown_here(stored: dict[str, Any]) -> None:
    stored["core"]["state"]["phase_of_the_moon"] = 0.5


def without_its_seed(stored: dict[str, Any]) -> None:
    del stored["seed"]


@pytest.mark.parametrize(
    "damage",
    [of_another_version, with_what_is_unknown_here, without_its_seed],
    ids=lambda each: each.__name__,
)
def test_a_client_whose_stored_core_cannot_be_read_goes_on_with_all_its_jobs(
    tmp_path: Path, damage: Callable[[dict[str, Any]], None]
) -> None:
    def store(world: World) -> None:
        client = world.client
        for name, workunit in world.content.workunits.items():
            client.state.put("workunit", URL, name, workunit)
        for name, app in world.content.apps.items():
            client.state.put("app", URL, name, app)
        for job in world.content.jobs.values():
            client.state.put_job(job)
        for number, version in enumerate(world.content.versions):
            client.state.put("version", URL, str(number), version)
        client.decisions.store()
        client.state.flush()
        stored = client.state.note("core", dict[str, Any])
        assert stored is not None
        damage(stored)
        client.state.keep("core", stored)
        client.state.flush()

    def go_on(world: World) -> None:
        decisions = world.client.decisions
        assert decisions.forgotten
        assert not decisions.restored
        assert world.content.jobs
        assert {job.id for job in decisions.core.state.jobs} == {
            f"{URL}|{name}" for name in world.content.jobs
        }
        decisions.store()
        world.client.state.flush()
        assert CoreDriver(world.client.state, policy="recent", seed=2).restored

    play(tmp_path, store)
    play(tmp_path, go_on)


def test_of_the_log_of_inputs_the_newest_part_stays_up_to_a_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "MAX_EVENT_BYTES", 1000)
    database = state.ClientDatabase(tmp_path)
    for number in range(10):
        database.add_event(b"%d" % number * 300)
    database.trim_events()
    database.flush()
    assert [body[:1] for body in database.events()] == [b"7", b"8", b"9"]
    database.close()
