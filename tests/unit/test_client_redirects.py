"""Redirects: a request stays what it is, and what carries a key is not sent from https to http."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import pytest
from tests.helpers.small_server import serving

import cobblestone
from cobblestone.account_manager.core import projects_web
from cobblestone.client.projects.connections import Connections, make_http
from cobblestone.client.projects.http import (
    TransferContext,
    TransferOutcome,
    TransferProgress,
    download,
    upload,
)
from cobblestone.client.projects.web import (
    ProjectNotReached,
    account_request,
    contact_scheduler,
    fetch_config,
    fetch_schedulers,
)
from cobblestone.server.api.submission.webhooks import reachable_address
from cobblestone.wire.client.records import FileRecord
from cobblestone.wire.scheduler.job import FileInfo, OutputFileInfo

FRAME = Path(cobblestone.__file__).parent / "service/pages/templates/frame.html"
OLD, NEW = "https://old.example.org", "https://new.example.org"
SCHEDULER_REPLY = b"<scheduler_reply><scheduler_version>820</scheduler_version></scheduler_reply>"
UPLOAD_REPLY = b"<data_server_reply><status>0</status></data_server_reply>"


class Site:
    """Redirects from the old address to the new one, and notes what arrives there."""

    def __init__(self, status: int, answer: bytes, new: str = NEW) -> None:
        self.status, self.answer, self.new = status, answer, new
        self.arrived: list[tuple[str, bytes]] = []
        self.http = make_http(None)
        self.http._mounts = {}
        self.http._transport = httpx.MockTransport(self._serve)

    async def _serve(self, request: httpx.Request) -> httpx.Response:
        body = await request.aread()
        if request.url.host == "old.example.org":
            return httpx.Response(self.status, headers={"Location": self.new + request.url.path})
        self.arrived.append((request.method, body))
        return httpx.Response(200, content=self.answer)

    def context(self) -> TransferContext:
        async def unhurried(_: int) -> None:
            """No limit of speed."""

        connections = Connections()
        connections._http = self.http
        return TransferContext(connections, 72005, unhurried, unhurried)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_request_to_the_scheduler_stays_a_post_with_its_body(status: int):
    site = Site(status, SCHEDULER_REPLY)
    asyncio.run(contact_scheduler(site.http, (f"{OLD}/cgi",), b"request", random.Random(1)))
    assert site.arrived == [("POST", b"request")]


@pytest.mark.parametrize("nbytes", [100, 200_000])
@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_an_upload_arrives_whole_after_a_redirect(status: int, nbytes: int, tmp_path: Path):
    site = Site(status, UPLOAD_REPLY)
    (tmp_path / "f").write_bytes(bytes(nbytes))
    file = FileRecord(project=OLD, name="f", nbytes=nbytes)
    file.upload = OutputFileInfo(name="f", upload_url=f"{OLD}/upload", max_nbytes=10**6, xml_signature="")
    outcome = asyncio.run(upload(site.context(), file, tmp_path / "f", TransferProgress("")))
    assert outcome.ok
    method, body = site.arrived[-1]
    assert (method, body[-nbytes:]) == ("POST", bytes(nbytes))


def test_after_303_a_request_is_a_get():
    site = Site(303, SCHEDULER_REPLY)
    asyncio.run(contact_scheduler(site.http, (f"{OLD}/cgi",), b"request", random.Random(1)))
    assert site.arrived == [("GET", b"")]


def test_what_carries_a_key_is_not_sent_from_https_to_http(tmp_path: Path):
    site = Site(301, SCHEDULER_REPLY, "http://new.example.org")
    with pytest.raises(ProjectNotReached, match="account key could be read"):
        asyncio.run(contact_scheduler(site.http, (f"{OLD}/cgi",), b"request", random.Random(1)))
    with pytest.raises(ProjectNotReached, match="account key could be read"):
        asyncio.run(account_request(site.http, f"{OLD}/lookup_account.php?passwd_hash=1"))
    (tmp_path / "f").write_bytes(b"x")
    file = FileRecord(project=OLD, name="f", nbytes=1)
    file.upload = OutputFileInfo(name="f", upload_url=f"{OLD}/upload", max_nbytes=10, xml_signature="")
    assert not asyncio.run(upload(site.context(), file, tmp_path / "f", TransferProgress(""))).ok
    assert site.arrived == []


def test_a_file_that_is_checked_may_come_from_a_mirror_without_encryption(tmp_path: Path):
    async def fetch(site: Site) -> TransferOutcome:
        info = FileInfo(name="f", urls=(f"{OLD}/f",), nbytes=4, md5_cksum="")
        file = FileRecord(project=OLD, name="f", download=info)
        return await download(site.context(), file, tmp_path / "f", "", TransferProgress(""))

    assert asyncio.run(fetch(Site(302, b"data", "http://files.example.org"))).ok


async def nothing_there(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(100)
    writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
    await writer.drain()


@pytest.mark.parametrize(
    ("scheme", "words"),
    [("http", "404. Is the address right?"), ("https", "Does its address begin with http://?")],
)
def test_an_address_that_leads_to_no_project_is_doubted(scheme: str, words: str):
    async def ask() -> None:
        async with serving(nothing_there) as port, make_http(None) as http:
            await fetch_config(http, f"{scheme}://127.0.0.1:{port}/")

    with pytest.raises(ProjectNotReached) as raised:
        asyncio.run(ask())
    assert words in str(raised.value)


def test_redirects_without_end_are_given_up():
    site = Site(301, b"", OLD)
    with pytest.raises(ProjectNotReached, match="more than 5 times"):
        asyncio.run(contact_scheduler(site.http, (f"{OLD}/cgi",), b"request", random.Random(1)))


def test_an_address_with_an_impossible_port_cannot_be_reached():
    async def ask(fetch: Callable[[httpx.AsyncClient, str], Awaitable[object]]) -> None:
        async with make_http(None) as http:
            await fetch(http, "http://127.0.0.1:99999/")

    with pytest.raises(ProjectNotReached, match="cannot be reached: the port in its address is larger"):
        asyncio.run(ask(lambda http, url: contact_scheduler(http, (url,), b"request", random.Random(1))))
    with pytest.raises(projects_web.ProjectUnreachable):
        asyncio.run(ask(projects_web.fetch))
    with pytest.raises(OSError, match="port is larger"):
        asyncio.run(reachable_address(httpx.URL("http://127.0.0.1:99999/"), private=True))


def manager_fetch(site: Site) -> bytes:
    return asyncio.run(projects_web.fetch(site.http, f"{OLD}/am_get_info.php?account_key=1"))


def test_an_account_manager_follows_a_redirect_but_not_from_https_to_http():
    assert manager_fetch(Site(301, b"found")) == b"found"
    with pytest.raises(projects_web.ProjectUnreachable, match="keys could be read"):
        manager_fetch(Site(301, b"found", "http://new.example.org"))
    with pytest.raises(projects_web.ProjectUnreachable, match="more than 3 times"):
        manager_fetch(Site(301, b"found", OLD))


@pytest.mark.parametrize("ours", [True, False])
def test_a_front_page_says_whether_the_project_runs_on_this_program(ours: bool):
    mark = next(line for line in FRAME.read_text().splitlines() if "generator" in line) if ours else ""
    page = f"<html><head>{mark}</head><!-- <scheduler>{NEW}/cgi</scheduler> --></html>"
    found = asyncio.run(fetch_schedulers(Site(301, page.encode()).http, f"{OLD}/"))
    assert found == ((f"{NEW}/cgi",), ours)
