"""The daemon when its core refuses an event, and contacts that end otherwise than by an answer."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from tests.helpers.client_state import URL, World, add_job, play
from tests.helpers.daemon_in_test import said

from cobblestone.client.daemon.daemon import Client
from cobblestone.client.daemon.news import _unknown_jobs
from cobblestone.client.projects import contacts
from cobblestone.client.projects.web import ProjectNotReached
from cobblestone.client.records.decisions import CoreDriver
from cobblestone.client.records.state import ClientDatabase
from cobblestone.client.tasks.description import Ended
from cobblestone.domain.errors import StoreError
from cobblestone.policy.client.core.events import ContactAsked, ContactProject, JobFailed, ProjectAttached
from cobblestone.policy.client.core.machine import ClientCore
from cobblestone.policy.client.core.values import ProjectDescription
from cobblestone.policy.client.host.tasks import Ending
from cobblestone.wire.client.records import ClientJobState
from cobblestone.wire.scheduler.reply import (
    ReadReply,
    SchedulerReply,
    parse_scheduler_reply,
    write_scheduler_reply,
)


def test_an_event_that_is_refused_takes_no_other_along_and_the_log_is_as_the_core_was_told(
    tmp_path: Path,
) -> None:
    def check(world: World) -> None:
        client = world.client
        client.decisions.store()
        now, done = client.clock(), f"{URL}|wide_0_r"
        client.loop.post(
            ProjectAttached(now, ProjectDescription(id="https://other.example.org/")),
            JobFailed(now, "nobody", 1.0),
            JobFailed(now, done, 1.0),
        )
        client.loop.drain()
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
        client.loop.post(ContactAsked(client.clock(), URL))
        client.loop.drain()
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
        client.loop.drain()
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
                client.loop.drain()
            raise ProjectNotReached("gone")

        monkeypatch.setattr(contacts, "fetch_schedulers", left_meanwhile)
        await client.contacts.contact(wanted)
        client.loop.drain()
        client.state.flush()
        assert "refused" not in said(client)
        assert "The contact failed" not in said(client)
        assert len(client.decisions.core.state.projects) == len(client.state.contents) == int(again)
        stored = ClientDatabase(client.folders.root, lock=False)
        assert len(stored.contents) == int(again)
        assert not any(content.jobs for content in stored.contents.values())
        stored.close()

    play(tmp_path, check)


def test_what_many_tasks_tell_in_one_turn_of_the_loop_is_decided_upon_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check(world: World) -> None:
        client, rounds = world.client, list[int]()
        client.loop.may_act = may_act
        handle = ClientCore.handle
        monkeypatch.setattr(
            ClientCore,
            "handle",
            lambda core, *events, **more: (rounds.append(1), handle(core, *events, **more))[1],
        )
        for name in world.content.jobs:
            client._task_event(Ended(name=f"{URL}|{name}", ending=Ending.STOPPED))
        await asyncio.sleep(0)
        assert len(rounds) == 1

    for may_act in (True, False):  # False: the client is being stopped
        play(tmp_path / str(may_act), check)


def test_a_request_reports_no_more_jobs_and_words_than_servers_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[list[str]] = []

    async def taken(_http: object, _urls: object, body: bytes, _rng: object) -> ReadReply:
        assert len(body) < 8_000_000, "what servers take"
        names = re.findall(r"<result>\s*<name>(.*)</name>", body.decode())
        sent.append(names)
        return parse_scheduler_reply(
            write_scheduler_reply(SchedulerReply(master_url=URL, result_acks=tuple(names)))
        )

    async def check(world: World) -> None:
        client, content = world.client, world.content
        content.project.master_url_fetch_pending, content.project.scheduler_urls = False, (f"{URL}cgi",)
        monkeypatch.setattr(contacts, "contact_scheduler", taken)
        some = content.versions[0]
        for number in range(1200):
            job = add_job(content, some, f"more_{number}", client.clock())
            job.state, job.ready_to_report, job.completed_time = ClientJobState.UPLOADED, True, 1.0
            job.stderr = "\N{SNOWMAN}" * 21_000 if number >= 1100 else ""
        client.loop.post(*_unknown_jobs(content, set(client.decisions.core.state.by_id), client.clock()))
        client.loop.drain()
        while any(job.ready_to_report for job in content.jobs.values()):
            await client.contacts.contact(under_way(client))
            client.loop.drain()
        assert sum(map(len, sent)) == 1200
        assert max(map(len, sent)) == 1000

    play(tmp_path, check)
