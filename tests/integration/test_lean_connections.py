"""Requests to busy endpoints over plain sockets: answered as the HTTP library would, however they arrive."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest
import uvicorn
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from cobblestone.service.http.connections import (
    MAX_HEAD_BYTES,
    MAX_PIPELINED,
    close_silent_connections,
    connection_class,
)
from cobblestone.service.http.lean import _Request, lean_connection_class
from cobblestone.service.http.requests import answer, read_all

pytestmark = pytest.mark.anyio

LIMIT = 60.0


@pytest.fixture
def anyio_backend() -> str:
    """The servers' own event loop."""
    return "asyncio"


class Echo:
    """An endpoint that answers with the body, or as the body says."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()  #: for those that are slow
        self.hung_up = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.begun.set()
        if (b"x-refuse", b"1") in scope["headers"]:
            await answer(send, b"refused", "text/plain")
            return
        if (b"x-slowly", b"1") in scope["headers"]:
            await self.go_on.wait()
            total, more = 0, True
            while more:
                message = await receive()
                total, more = total + len(message["body"]), message["more_body"]
            await answer(send, b"%d" % total, "text/plain")
            return
        try:
            body = await read_all(scope, receive, 10_000_000)
        except ClientDisconnect:
            self.hung_up.set()
            return
        if body == b"fail":
            raise RuntimeError("failed as told")
        await answer(send, self.name.encode() + b":" + body, "text/plain")


async def turns(n: int) -> None:
    """Let the event loop go round."""
    for _ in range(n):
        await asyncio.sleep(0)


async def until(condition: Callable[[], bool]) -> None:
    """Let the event loop go round until something is so."""
    async with asyncio.timeout(LIMIT):
        while not condition():  # noqa: ASYNC110  # the library offers no event for it
            await asyncio.sleep(0)


@asynccontextmanager
async def served() -> AsyncGenerator[tuple[uvicorn.Server, int, Echo]]:
    """A server with one busy endpoint, and an application for all else."""
    busy = Echo("busy")
    library = connection_class(20)
    config = uvicorn.Config(
        Echo("library"),
        http=lean_connection_class(library, {"/busy": busy}),
        lifespan="off",
        log_level="warning",
        port=0,
        server_header=False,
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    async with asyncio.timeout(LIMIT):
        await until(lambda: server.started)
        try:
            yield server, server.servers[0].sockets[0].getsockname()[1], busy
        finally:
            server.should_exit = True
            await serving


def post(path: str, body: bytes, *headers: str, version: str = "1.1") -> bytes:
    """A request as the family's client sends it."""
    lines = [f"POST {path} HTTP/{version}", "Host: here", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


async def talk(port: int, *parts: bytes) -> bytes:
    """Send the parts one after the other and return what comes until the other side closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for part in parts:
        writer.write(part)
        await writer.drain()
        await turns(3)
    received = await reader.read()
    writer.close()
    return received


async def one_answer(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """The next answer on a connection: head and body."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    return head, await reader.readexactly(length)


CLOSE = "Connection: close"


async def test_a_request_leaves_nothing_for_the_search_for_cycles():
    async with served() as (_, port, _):
        gc.collect()
        gc.disable()
        try:
            for _ in range(3):
                await talk(port, post("/busy", b"some", CLOSE))
            await turns(3)
            assert not [each for each in gc.get_objects() if isinstance(each, _Request)]
        finally:
            gc.enable()


async def test_a_request_to_a_busy_path_is_answered_by_its_endpoint_and_any_other_by_the_library() -> None:
    async with served() as (_, port, _):
        own = await talk(port, post("/busy", b"12", CLOSE))
        other = await talk(port, post("/busy/below", b"12", CLOSE))
        query = await talk(port, post("/busy?a=1", b"12", CLOSE))
        got = await talk(port, b"GET /busy HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
    assert own.startswith(b"HTTP/1.1 200 OK\r\n")
    assert own.endswith(b"busy:12")
    assert b"\r\ndate: " in own.lower()
    assert b"\r\nconnection: close\r\n" in own.lower()
    assert other.endswith(b"library:12")
    assert query.endswith(b"library:12")
    assert got.endswith(b"library:")


@pytest.mark.parametrize("size", [1, 40])
async def test_a_request_may_come_in_pieces_of_any_size(size: int) -> None:
    whole = post("/busy", b"a body of some length", CLOSE)
    begin = whole.index(b"Host")  # a first piece without the whole request line is the library's
    pieces = [whole[:begin], *(whole[at : at + size] for at in range(begin, len(whole), size))]
    async with served() as (_, port, _):
        assert (await talk(port, *pieces)).endswith(b"busy:a body of some length")
        split = await talk(port, whole[:3], whole[3:])
    assert split.endswith(b"library:a body of some length")


async def test_a_chunked_body_and_an_expected_continue_are_understood() -> None:
    chunked = b"POST /busy HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    async with served() as (_, port, _):
        assert (await talk(port, chunked, b"3\r\nabc\r\n", b"2\r\nde\r\n0\r\n\r\n")).endswith(b"busy:abcde")
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(post("/busy", b"late", "Expect: 100-continue", CLOSE)[:-4])
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"late")
        assert (await reader.read()).endswith(b"busy:late")
        writer.close()


@pytest.mark.parametrize("path", ["/busy", "/page"])
async def test_a_body_in_pieces_of_one_byte_costs_little(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    handed_on: list[int] = []
    on_body = HttpToolsProtocol.on_body
    monkeypatch.setattr(
        HttpToolsProtocol, "on_body", lambda self, body: [handed_on.append(len(body)), on_body(self, body)]
    )
    head = f"POST {path} HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    async with served() as (_, port, busy):
        answer = await talk(port, head.encode(), b"1\r\na\r\n" * 50_000, b"0\r\n\r\n")
    assert answer.endswith(b":" + b"a" * 50_000)
    assert busy.begun.is_set() == (path == "/busy")
    assert len(handed_on) < 100  # each copies what came before


async def test_requests_by_the_hundred_before_the_first_answer_end_the_connection() -> None:
    async with served() as (_, port, _):
        received = await talk(port, b"GET /page HTTP/1.1\r\nHost: here\r\n\r\n" * 2000)
    assert received.count(b"HTTP/1.1 200") <= MAX_PIPELINED
    assert received.count(b"HTTP/1.1 400") == 1


async def test_a_connection_that_stays_open_takes_busy_and_other_requests_in_turn() -> None:
    async with served() as (_, port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for path, name in (
            ("/busy", b"busy"),
            ("/busy", b"busy"),
            ("/page", b"library"),
            ("/busy", b"library"),
        ):
            writer.write(post(path, b"x"))
            head, body = await one_answer(reader)
            assert b"connection: close" not in head.lower()
            assert body == name + b":x"
        writer.close()
        assert (await talk(port, post("/busy", b"x", version="1.0"))).endswith(b"busy:x")


async def test_a_second_request_before_the_first_answer_ends_the_connection_after_that_answer() -> None:
    async with served() as (_, port, _):
        received = await talk(port, post("/busy", b"first") + post("/busy", b"second"))
    assert received.count(b"HTTP/1.1 200") == 1
    assert received.endswith(b"busy:first")
    assert b"connection: close" in received.lower()


async def test_the_rest_of_what_an_endpoint_refuses_is_read_so_that_the_answer_is_seen() -> None:
    async with served() as (_, port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        whole = post("/busy", bytes(1_000_000), "X-Refuse: 1")
        writer.write(whole[:200_000])
        head, body = await one_answer(reader)
        assert body == b"refused"
        assert b"connection: close" in head.lower()
        writer.write(whole[200_000:])
        assert await reader.read() == b""
        await writer.drain()
        writer.close()


async def test_a_sender_waits_while_nobody_takes_its_body() -> None:
    async with served() as (_, port, busy):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(post("/busy", bytes(50_000_000), "X-Slowly: 1", CLOSE))
        await busy.begun.wait()
        await turns(2000)
        assert writer.transport.get_write_buffer_size() > 20_000_000
        busy.go_on.set()
        assert (await reader.read()).endswith(b"50000000")
        writer.close()


async def test_a_request_after_a_large_one_is_heard() -> None:
    async with served() as (_, port, busy):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        whole = post("/busy", bytes(100_000), "X-Slowly: 1")
        writer.write(whole[:60_000])
        await busy.begun.wait()
        writer.write(whole[60_000:])  # the end of the body is what stops the reading
        await turns(2000)
        busy.go_on.set()
        assert (await one_answer(reader))[1] == b"100000"
        writer.write(post("/busy", b"next"))
        assert (await one_answer(reader))[1] == b"busy:next"
        writer.close()


async def test_no_http_and_a_head_without_end_are_refused_and_a_failure_is_answered() -> None:
    async with served() as (_, port, _):
        bad = await talk(port, b"POST /busy HTTP/1.1\r\nHost here\r\n\r\n")
        long = await talk(port, b"POST /busy HTTP/1.1\r\nX: " + b"x" * (MAX_HEAD_BYTES + 10))
        failed = await talk(port, post("/busy", b"fail"))
    assert bad.startswith(b"HTTP/1.1 400 ")
    assert long.startswith(b"HTTP/1.1 431 ")
    assert failed.startswith(b"HTTP/1.1 500 ")
    assert failed.endswith(b"Internal Server Error")


async def test_an_endpoint_hears_that_its_client_has_gone() -> None:
    async with served() as (server, port, busy):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(post("/busy", b"half of it")[:-5])
        await busy.begun.wait()
        writer.transport.abort()
        await busy.hung_up.wait()
        await until(lambda: not server.server_state.connections)


async def test_silent_connections_end_and_of_too_many_the_one_that_is_silent_longest() -> None:
    async with served() as (server, port, _):
        first = await asyncio.open_connection("127.0.0.1", port)
        await until(lambda: len(server.server_state.connections) == 1)
        others = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
        assert await first[0].read() == b""
        others[-1][1].write(post("/busy", b"unfinished")[:-3])
        guard = asyncio.create_task(close_silent_connections(server, 0.2))
        assert [await reader.read() for reader, _ in others] == [b""] * 20
        guard.cancel()
        for _, writer in (first, *others):
            writer.close()


async def test_at_the_end_idle_connections_close_and_a_request_is_answered_first() -> None:
    async with served() as (server, port, endpoint):
        idle = await asyncio.open_connection("127.0.0.1", port)
        busy = await asyncio.open_connection("127.0.0.1", port)
        busy[1].write(post("/busy", b"123", "X-Slowly: 1"))
        await endpoint.begun.wait()
        server.should_exit = True
        assert await idle[0].read() == b""
        await turns(3)  # all connections are told in one turn
        endpoint.go_on.set()
        received = await busy[0].read()
        assert received.endswith(b"\r\n3")
        assert b"connection: close" in received.lower()
        for _, writer in (idle, busy):
            writer.close()
