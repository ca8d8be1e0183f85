"""A project that changes its address: with https the client takes the new one over, any other change is said once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.helpers import client_state
from tests.helpers.client_state import World, play
from tests.helpers.daemon_in_test import make_client, said

from cobblestone.client.projects import contacts
from cobblestone.client.projects.web import ProjectNotReached
from cobblestone.client.records.decisions import job_id
from cobblestone.client.records.state import ClientDatabase
from cobblestone.wire.client.records import DailyCredit, FileRecord

OLD, NEW = "http://project.example.org/", "https://project.example.org/"
OTHER = "http://project.example.org/other/"


@pytest.fixture(autouse=True)
def over_http(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_state, "URL", OLD)

    async def fetch(_: object, url: str) -> tuple[tuple[str, ...], bool]:
        if "unreachable" in url or url.startswith("http:"):
            raise ProjectNotReached(f"{url} cannot be reached")
        return (f"{url}cgi",), True

    monkeypatch.setattr(contacts, "fetch_schedulers", fetch)


def keep_everything(world: World) -> None:
    """Put the records of the world into the file, as a client does with each."""
    state, content = world.client.state, world.content
    content.project.resource_share = 25.0
    state.put_project(content.project)
    for job in content.jobs.values():
        state.put_job(job)
    for name, workunit in content.workunits.items():
        state.put("workunit", OLD, name, workunit)
    for version in content.versions:
        state.put_version(OLD, version)
    state.put_file(FileRecord(project=OLD, name="f"))
    state.add_credit_day(
        OLD,
        DailyCredit(
            day=86400.0,
            user_total_credit=7.0,
            user_expavg_credit=1.0,
            host_total_credit=7.0,
            host_expavg_credit=1.0,
        ),
    )
    state.add_estimated(OLD, 1, "CPU", 3.0, 60.0)
    state.add_run(OLD, "wide_0_r", 1.0, 2.0)
    world.client.contacts.attach(OTHER, "b_key")
    world.client.loop.drain()


def test_with_https_everything_goes_along(tmp_path: Path) -> None:
    before: dict[str, object] = {}

    async def check(world: World) -> None:
        keep_everything(world)
        client, content = world.client, world.content
        await client.contacts._move(content.project, "https://PROJECT.example.org")
        assert client.stopping.is_set()
        assert client.restarting
        client.decisions.store()
        assert client.loop.save()
        before.update({each.id.partition("|")[2]: each.raw for each in client.decisions.core.state.jobs})

    play(tmp_path, check)
    client = make_client(tmp_path / "own")
    try:
        assert set(client.state.contents) == {NEW, OTHER}
        content = client.state.contents[NEW]
        assert content.project.master_url == NEW
        assert content.project.scheduler_urls == (f"{NEW}cgi",)
        assert (content.project.authenticator, content.project.resource_share) == ("a_key", 25.0)
        assert {job.project for job in content.jobs.values()} == {NEW}
        assert (len(content.jobs), len(content.versions), content.files["f"].project) == (4, 2, NEW)
        assert [each.user_total_credit for each in client.state.credit_days(NEW)] == [7.0]
        assert client.state.estimated()[0][0] == client.state.runs(0.0)[0][0] == NEW
        core = client.decisions.core.state
        assert client.decisions.restored
        assert {each.description.id for each in core.projects} == {NEW, OTHER}
        assert {each.id: each.raw for each in core.jobs} == {
            job_id(NEW, name): raw for name, raw in before.items()
        }
        assert [each.project for each in core.jobs] == [0] * 4
        assert len(before) == 4
        assert client.folders.project(NEW) == client.folders.project(OLD)
        assert client.folders.account_file(NEW) == client.folders.account_file(OLD)
    finally:
        client.state.close()
    state = ClientDatabase(tmp_path / "own")  # once is enough
    assert set(state.contents) == {NEW, OTHER}
    state.close()


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("https://elsewhere.example.org/", "detach from the project and attach it there"),
        ("https://project.example.org/unreachable/", "detach"),
        ("http://elsewhere.example.org/", "detach"),
        ("no address", "detach"),
    ],
)
def test_any_other_address_is_said_once_with_what_to_do(address: str, words: str, tmp_path: Path) -> None:
    async def check(world: World) -> None:
        for _ in range(3):
            await world.client.contacts._move(world.content.project, address)
        assert said(world.client).count(address) == 1
        assert words in said(world.client)
        assert not world.client.stopping.is_set()

    play(tmp_path, check)


def test_https_that_does_not_answer_yet_is_said_once_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [False, False, True]

    async def fetch(_: object, url: str) -> tuple[tuple[str, ...], bool]:
        if not answers.pop(0):
            raise ProjectNotReached(f"{url} cannot be reached")
        return (f"{url}cgi",), True

    monkeypatch.setattr(contacts, "fetch_schedulers", fetch)

    async def check(world: World) -> None:
        for stopped in (False, False, True):
            await world.client.contacts._move(world.content.project, NEW)
            assert world.client.stopping.is_set() == stopped
        assert said(world.client).count("cannot be reached") == 1

    play(tmp_path, check)


def test_our_own_address_in_another_spelling_is_no_move(tmp_path: Path) -> None:
    async def check(world: World) -> None:
        await world.client.contacts._move(world.content.project, "HTTP://project.example.org")
        assert "address" not in said(world.client)
        await asyncio.sleep(0)

    play(tmp_path, check)
