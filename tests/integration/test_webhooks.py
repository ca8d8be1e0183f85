"""Finished jobs are told to other programs: webhooks, server-sent events, and the SDK for event loops."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import uvicorn
from tests.helpers.project_world import World
from tests.helpers.served_world import LoopThread, Volunteers, connect

from cobblestone.domain.errors import NotFound
from cobblestone.domain.values import BatchId
from cobblestone.sdk.api.connection import NotFoundError, NotRunning, RequestRefused
from cobblestone.sdk.api.jobs import Job
from cobblestone.sdk.asynchronous import AsyncBatch, connect_async
from cobblestone.sdk.project import Project
from cobblestone.sdk.project import connect as connect_now
from cobblestone.server.api.submission import batches as batch_api
from cobblestone.server.api.submission import webhooks
from cobblestone.server.app import create_app

LINE_END = "one\u2028two"
"""Python's own reader of lines would end one here."""

pytestmark = pytest.mark.both_databases


@dataclass
class Receiver:
    """Somebody's program that hears of finished jobs."""

    statuses: list[int] = field(default_factory=list[int])  #: of the next answers, then 204
    heard: list[tuple[dict[str, str], bytes]] = field(default_factory=list[tuple[dict[str, str], bytes]])
    url: str = ""

    def pages(self) -> list[dict[str, Any]]:
        return [msgspec.json.decode(body) for _, body in self.heard]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A program on this computer."""
    found = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # the library's own name
            body = self.rfile.read(int(self.headers["content-length"]))
            found.heard.append(({key.lower(): value for key, value in self.headers.items()}, body))
            self.send_response(found.statuses.pop(0) if found.statuses else 204)
            self.send_header("location", "http://127.0.0.1:1/")
            self.end_headers()

        def log_message(self, *args: Any, **kwargs: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://localhost:{server.server_address[1]}/hook?of=me"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    """A project whose webhooks may go to this computer."""
    return make_world(server={"private_webhooks": True})


@pytest.fixture
def project(world: World) -> Iterator[Project]:
    """A project with an app."""
    with LoopThread(world), connect(world) as project:
        project.create_app("period", "cat {input}", stdout="output")
        yield project


def tell(world: World) -> int:
    return world.run(webhooks.tell(world.ctx))


def test_the_signature_is_that_of_the_standard():
    """The example of its specification."""
    signed = webhooks.signature(
        "whsec_plJ3nmyCDGBKInavdOK15jsl",
        "msg_loFOjxBNrRLzqYUf",
        1731705121,
        b'{"event_type":"ping","data":{"success":true}}',
    )
    assert signed == "v1,rAvfW3dJ/X/qxhsaXPOyyCGmRKsaKWcsNccKXlIktD0="


def test_jobs_are_told_as_they_finish_and_then_the_end(project: Project, world: World, receiver: Receiver):
    volunteers = Volunteers(world)
    batch = project.submit("period", [1, 2])
    secret = batch.add_webhook(receiver.url)
    assert tell(world) == 0
    volunteers.work()
    assert tell(world) == 1
    assert tell(world) == 0
    (headers, body), (page,) = receiver.heard[0], receiver.pages()
    assert (page["type"], page["batch"]) == ("batch.finished", batch.id)
    assert [job["status"] for job in page["data"]["results"]] == ["done", "done"]
    assert headers["host"] == httpx.URL(receiver.url).netloc.decode()
    assert headers["webhook-signature"] == webhooks.signature(
        secret, headers["webhook-id"], int(headers["webhook-timestamp"]), body
    )
    assert (batch.webhook().state, batch.webhook().told) == ("done", 2)
    assert batch.remove_webhook().state == "removed"
    with pytest.raises(NotFoundError, match="has no webhook"):
        batch.webhook()


def test_what_does_not_arrive_is_sent_again_and_told_if_given_up(
    project: Project, world: World, receiver: Receiver
):
    batch = project.submit("period", [1])
    batch.add_webhook(receiver.url)
    Volunteers(world).work()
    receiver.statuses = [500, 302]
    tell(world)
    assert tell(world) == 0  # not at once
    assert (batch.webhook().state, batch.webhook().attempts) == ("failing", 1)
    assert any("is sent again: it answers with status 500" in note for note in batch.status().notes)
    world.now += webhooks.FIRST_PAUSE_SECONDS + 1
    tell(world)
    assert "status 302" in batch.webhook().error  # nothing is sent to another address
    world.now += 3600
    tell(world)
    assert batch.webhook().state == "done"
    assert len({headers["webhook-id"] for headers, _ in receiver.heard}) == 1
    batch.add_webhook("http://localhost:1/")
    waited = 0.0
    while tell(world):
        waited += (batch.webhook().next_time or world.now) - world.now
        world.now += webhooks.LONGEST_PAUSE_SECONDS
    assert 1.5 * 86400 < waited < 3 * 86400
    assert batch.webhook().state == "given up"
    assert any("is not sent again" in note for note in batch.status().notes)


def test_a_receiver_that_is_gone_gets_nothing_more(project: Project, world: World, receiver: Receiver):
    batch = project.submit("period", [1])
    batch.add_webhook(receiver.url)
    Volunteers(world).work()
    receiver.statuses = [410]
    tell(world)
    assert batch.webhook().state == "given up"


@pytest.mark.of_sqlite
@pytest.mark.parametrize("url", ["http://localhost/", "http://127.0.0.1:8080/x", "http://[::1]/"])
def test_an_address_of_a_private_network_is_refused_where_it_is_given(
    make_world: Callable[..., World], url: str
):
    world = make_world()
    with LoopThread(world), connect(world) as project:
        project.create_app("period", "cat {input}", stdout="output")
        batch = project.submit("period", [1])
        with pytest.raises(RequestRefused, match="an address of a private network") as refused:
            batch.add_webhook(url)
        assert refused.value.member == "url"
        # A name may lead there later, too.
        world.write(
            lambda tx: webhooks.webhooks.put_webhook(tx, BatchId(batch.id), url=url, secret="", now=world.now)
        )
        Volunteers(world).work()
        tell(world)
        assert "private network" in batch.webhook().error


@pytest.mark.of_sqlite
@pytest.mark.parametrize(
    "url", ["ftp://a/", "http://me@a/", "http://", "http://a b/", "http://a/#x", "http://a\\@b/", "x" * 501]
)
def test_what_is_no_address_is_refused(project: Project, url: str):
    batch = project.submit("period", [1])
    with pytest.raises(RequestRefused):
        batch.add_webhook(url)
    with pytest.raises(NotFound):
        batch.webhook()


# -- server-sent events and the SDK for event loops --------------------------------------------------------


@pytest.fixture
def served(world: World, project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, str]]:
    """Address and token of the project, on a socket."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(create_app(world.ctx), log_level="warning", lifespan="off")
    server = uvicorn.Server(config)
    serving = asyncio.run_coroutine_threadsafe(server.serve(sockets=[listener]), world.loop)
    token = project.admin.create_token("async", scopes=["read", "submit"], days=1).token
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/", token
    server.should_exit = True
    serving.result(20)
    listener.close()


def test_results_come_as_events_and_a_reader_goes_on_where_it_was(
    project: Project, world: World, served: tuple[str, str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(batch_api, "KEEP_ALIVE_SECONDS", 0.05)
    url, token = served
    batch = project.submit("period", [1, 2])
    headers = {"authorization": f"Bearer {token}"}
    path = f"{url}api/v1/batches/{batch.id}/events"
    with httpx.stream("GET", path, headers=headers, timeout=30) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.iter_lines()
        assert any(line.startswith(":") for line in lines)  # alive, and nothing new
        Volunteers(world).work()
        events = [line for line in lines if line]
    kinds = [line for line in events if line.startswith("event: ")]
    assert kinds[-1] == "event: finished"
    assert "id: 2" in events
    again = httpx.get(path, headers={**headers, "last-event-id": "1"}, timeout=30).text
    assert again.count('"status":"done"') == 1
    assert httpx.get(f"{url}api/v1/batches/99/events", headers=headers).status_code == 404
    assert httpx.get(path).status_code == 401


def test_a_wait_that_is_given_up_leaves_no_thread_that_keeps_the_program(
    served: tuple[str, str], tmp_path: Path
):
    async def use() -> None:
        async with await connect_async(*served) as project:
            batch = await project.submit("period", [1])
            for call in (batch.save(tmp_path), batch.wait()):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(call, 0.1)

    program = threading.Thread(target=asyncio.run, args=[use()], daemon=True)
    program.start()
    program.join(20)
    try:
        assert not program.is_alive()
    finally:
        with connect_now(*served) as project:
            project.batch(1).cancel()


def test_a_program_with_an_event_loop_gets_results_of_several_batches(
    world: World, served: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(batch_api, "KEEP_ALIVE_SECONDS", 0.05)
    enough = threading.Event()
    thread = threading.Thread(target=Volunteers(world).work_until, args=[enough])

    async def use() -> None:
        async with await connect_async(*served) as project:
            assert [app.name for app in await project.apps()] == ["period"]
            batches = [
                await project.submit("period", [n, Job(inputs=[b"null"], name=LINE_END)]) for n in range(3)
            ]
            with pytest.raises(TimeoutError, match=r"did not finish in 0\.1 s"):
                await anext(batches[0].results(timeout=0.1))
            thread.start()
            found = await asyncio.gather(*(collect(batch) for batch in batches))
            assert found == [[{"got": n}, {"got": None}] for n in range(3)]
            assert (await batches[0].wait()).state == "complete"
            assert len(await batches[0].save(tmp_path)) == 2
            with pytest.raises(NotFoundError):
                await project.batch(99)

    async def collect(batch: AsyncBatch) -> list[Any]:
        return sorted([await result.json() async for result in batch], key=repr)

    try:
        asyncio.run(use())
    finally:
        enough.set()
        if thread.ident is not None:
            thread.join()


@pytest.mark.of_sqlite
def test_without_a_server_there_are_no_events(world: World):
    with LoopThread(world), connect(world, running=False) as project:
        project.create_app("period", "cat {input}", stdout="output")
        batch = AsyncBatch(project.submit("period", [1]))
        with pytest.raises(NotRunning, match="cobblestone run"):
            asyncio.run(anext(batch.results()))


@pytest.mark.of_sqlite
def test_a_server_that_goes_away_is_named(world: World, project: Project, monkeypatch: pytest.MonkeyPatch):
    batch = project.submit("period", [1])
    batch.connection._client.base_url = "http://127.0.0.1:1/"
    monkeypatch.setattr("cobblestone.sdk.api.connection.PATIENT_ATTEMPTS", 2)
    with pytest.raises(Exception, match="does not answer"):
        asyncio.run(anext(AsyncBatch(batch).results()))
