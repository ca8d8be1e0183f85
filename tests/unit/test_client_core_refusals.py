"""The daemon when its core refuses an event, and contacts that end otherwise than by an answer."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.helpers.client_state import URL, World, play
from tests.helpers.daemon_in_test import said

from cobblestone.client.daemon.daemon import Client
from cobblestone.client.projects import contacts
from cobblestone.client.projects.web import ProjectNotReached
from cobblestone.client.records.decisions import CoreDriver
from cobblestone.client.records.state import ClientDatabase
from cobblestone.domain.errors import StoreError
from cobblestone.policy.client.core.events import ContactAsked, ContactProject, JobFailed, ProjectAttached
from cobblestone.policy.client.core.values import ProjectDescription


def test_an_event_that_is_refused_takes_no_other_along_and_the_log_is_as_the_core_was_told(
    tmp_path: Path,
) -> None:
    def check(world: World) -> None:
        client = world.client
        client.decisions.store()
        now, done = client.clock(), f"{URL}|wide_0_r"
        client.post(
            ProjectAttached(now, ProjectDescription(id="https://other.example.org/")),
            JobFailed(now, "nobody", 1.0),
            JobFailed(now, done, 1.0),
        )
        client.drain()
        core = client.decisions.core
        assert [job.id for job in core.state.finished] == [done]
        assert len(core.state.projects) == 2
        assert "the core refused JobFailed: job 'nobody' is not known" in said(client)
        client.state.flush()
        again = CoreDriver(client.state, policy="recent", seed=1)
        assert again.core.snapshot() == core.snapshot()

    play(tmp_path, check)


def under_way(client: Client) -> ContactProject:
    """Return a contact that the core has just asked for."""
    core = client.decisions.core
    if core.state.contact is None:
        client.post(ContactAsked(client.clock(), URL))
        client.drain()
    (contact,) = [each for each in core.instructions_in_force() if isinstance(each, ContactProject)]
    return contact


@pytest.mark.parametrize(
    "error", [ProjectNotReached("gone"), StoreError("the disk is full"), KeyError("a workunit")], ids=repr
)
def test_however_a_contact_ends_the_core_hears_of_it(
    tmp_path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise error

    async def check(world: World) -> None:
        client = world.client
        wanted = under_way(client)
        monkeypatch.setattr(contacts, "fetch_schedulers", broken)
        try:
            await client.contacts.contact(wanted)
        except KeyError:
            assert isinstance(error, KeyError), "told to whoever keeps the event log"
        client.drain()
        assert client.decisions.core.state.contact is None
        assert "The contact failed" in said(client)

    play(tmp_path, check)


@pytest.mark.parametrize("again", [False, True])
def test_a_contact_that_fails_when_its_project_has_been_left_does_not_bring_it_back(
    tmp_path: Path, again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check(world: World) -> None:
        client = world.client
        wanted = under_way(client)

        async def left_meanwhile(*_: object) -> None:
            await client.contacts.detach(world.content)
            if again:
                client.contacts.attach(URL, "a_key")
                client.drain()
            raise ProjectNotReached("gone")

        monkeypatch.setattr(contacts, "fetch_schedulers", left_meanwhile)
        await client.contacts.contact(wanted)
        client.drain()
        client.state.flush()
        assert "refused" not in said(client)
        assert "The contact failed" not in said(client)
        assert len(client.decisions.core.state.projects) == len(client.state.contents) == int(again)
        stored = ClientDatabase(client.folders.root, lock=False)
        assert len(stored.contents) == int(again)
        assert not any(content.jobs for content in stored.contents.values())
        stored.close()

    play(tmp_path, check)
