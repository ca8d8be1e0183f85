"""A project that answers slowly, acknowledges nothing or asks for impossible delays costs the others nothing."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from tests.helpers.client_state import World, play
from tests.helpers.daemon_in_test import make_client, running, until
from tests.helpers.small_server import serving

from cobblestone.client.projects import connections, contacts, web
from cobblestone.client.projects.connections import make_http
from cobblestone.client.projects.scheduler_reply import TakenReply
from cobblestone.client.remote import commands
from cobblestone.policy.client.core.events import ContactProject, ReplyReceived


def head(length: int) -> bytes:
    return f"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n".encode()


async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One byte after the other."""
    await reader.readuntil(b"\r\n\r\n")
    writer.write(head(10**6))
    while True:
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.05)


def test_while_one_project_drips_another_is_contacted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contacts, "SLOW_SECONDS", 0.5)
    visits: list[bytes] = []

    async def good(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visits.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(head(0))
        await writer.drain()

    async def check() -> None:
        client = make_client(tmp_path / "own")
        async with serving(drip) as bad_port, serving(good) as good_port, running(client):
            await until(lambda: client.jobs.runner is not None, seconds=60, what="start")
            bad = client.contacts.attach(f"http://127.0.0.1:{bad_port}/", "1" * 32)
            await until(lambda: bad.project.scheduler_rpc_in_progress, seconds=30, what="the slow contact")
            client.contacts.attach(f"http://127.0.0.1:{good_port}/", "1" * 32)
            await until(lambda: visits != [], seconds=30, what="a contact with the other")
            assert bad.project.scheduler_rpc_in_progress

    asyncio.run(check())


BUSY = b"""<scheduler_reply><master_url>http://a.example/</master_url><project_name>Ill</project_name>
<request_delay>60</request_delay><message priority="low">The server is busy.</message>%s</scheduler_reply>"""


@pytest.mark.parametrize("answer", [b"no reply", b"", BUSY % b"", BUSY % b"<project_is_down/>"])
def test_an_attachment_says_that_the_project_has_not_accepted_it_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    """Its scheduler fails, is silent, is busy, or is down."""
    monkeypatch.setattr(commands, "FIRST_ANSWER_SECONDS", 60.0 if answer else 1.0)

    async def scheduler_out_of_order(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        host = re.search(rb"(?i)host: (\S+)", request)
        assert host is not None
        if b"get_project_config" in request:
            page = b"<project_config><name>Ill</name></project_config>"
        elif b"POST" not in request:
            page = b"<scheduler>http://%s/cgi</scheduler>" % host[1]
        elif answer:
            page = answer.replace(b"a.example", host[1])
        else:
            await asyncio.sleep(3600)
            return
        writer.write(head(len(page)) + page)
        await writer.drain()

    async def check() -> None:
        client = make_client(tmp_path / "own")
        async with serving(scheduler_out_of_order) as port, running(client):
            await until(lambda: client.jobs.runner is not None, seconds=60, what="start")
            url = f"http://127.0.0.1:{port}/"
            client.journal.notices.add(  # of another project with the same name
                title="", text="Your key is unknown.", category="scheduler", project_name="Ill"
            )
            found = await commands.attach(client.controls, commands.Arguments({"url": url, "key": "1" * 32}))
            assert found == {"url": url, "name": "Ill", "accepted": False}
            assert url in client.state.contents

    asyncio.run(check())


def test_an_answer_that_hardly_comes_or_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fetch() -> None:
        async with serving(drip) as port, make_http(None) as opened:
            await web.fetch(opened, f"http://127.0.0.1:{port}/")

    monkeypatch.setattr(connections, "SLOW_AFTER_SECONDS", 0.3)
    with pytest.raises(web.ProjectNotReached, match="sent only"):
        asyncio.run(fetch())
    monkeypatch.setattr(connections, "SLOW_AFTER_SECONDS", 100.0)
    monkeypatch.setattr(web, "MOST_SECONDS", 0.3)
    with pytest.raises(web.ProjectNotReached, match="did not answer within"):
        asyncio.run(fetch())


def test_reports_that_are_not_acknowledged_wait_longer_each_time(tmp_path: Path) -> None:
    def check(world: World) -> None:
        url = world.content.project.master_url
        wanted = ContactProject(project=url, requests={}, report=("a", "b"))

        def delay(*acknowledged: str) -> float:
            event = ReplyReceived(1.0, url, acknowledged=acknowledged, request_delay=-1e300)
            return world.client.contacts._least_delay(wanted, TakenReply(event))

        assert [delay() for _ in range(3)] == [20.0, 40.0, 80.0]
        assert delay("a") == 160.0
        assert delay("a", "b") == 10.0
        assert delay() == 20.0
        assert max(delay() for _ in range(40)) == contacts.LONGEST_UNHEARD

    play(tmp_path, check)
