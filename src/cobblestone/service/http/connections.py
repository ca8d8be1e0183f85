"""Connections of a server: limits on their cost, and a shutdown without a failed request.

What a connection may cost: the size of a request's head, the time that its sender may be silent, how many there are.

The HTTP library reads whatever comes for as long as it comes.  On the open internet one client opens a thousand connections
and says nothing, or sends a head that never ends; such connections are closed, and the others do not notice.

The end of a server without a failed request: it finishes what it has begun, and hands its socket on.

When it stops or restarts, nothing new is accepted (connections wait in the listening socket, if another process holds it), every
answer closes its connection, and requests that run have some seconds to finish.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import signal
import sys
from collections.abc import Collection, Generator, Sequence
from typing import Any, Protocol, cast

import httptools
import structlog
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from cobblestone.service.context import ProcessContext

log = structlog.get_logger(__name__)

#: Of request line and header fields; a BOINC client sends less than 1,000.
MAX_HEAD_BYTES = 65_536

#: Requests that wait while the first is answered; no browser and no client sends a second one so early.
MAX_PIPELINED = 16

#: Open files that are kept for the database, uploads and downloads, beside the connections.
SPARE_FILES = 512

TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class GuardedConnection(HttpToolsProtocol):
    """A connection that knows whether it waits for its sender, and since when."""

    max_connections = 1000
    silent: dict[Guarded, None]  #: those that wait for their sender, who has been silent longest first

    def __init__(self, *arguments: Any, **options: Any) -> None:  # Any: the library's own arguments
        super().__init__(*arguments, **options)
        self.waits_for_sender = True
        self.quiet_since = self.loop.time()
        self._head_bytes = 0
        self._in_head = False
        self._pieces: list[bytes] = []  #: of a body, out of what was just received

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Accept a connection; if there are too many, close the one that has been silent longest."""
        super().connection_made(transport)
        self.silent[self] = None
        self.make_room(self.connections)

    @classmethod
    def make_room(cls, connections: Collection[object]) -> None:
        """If there are too many connections, close the one that has been silent longest."""
        if len(connections) > cls.max_connections:
            next(iter(cls.silent)).give_up()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self.silent.pop(self, None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read received data, unless it makes the head too large."""
        if not self._in_head:  # within a head the clock is not set back: it must come whole in time
            self.quiet_since = self.loop.time()
            if self.silent.pop(self, self) is None:
                self.silent[self] = None
        super().data_received(data)
        self._pass_on()
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
                log.info("head_too_large", client=self.client)
                self.transport.write(TOO_LARGE)
                self.give_up()

    def on_message_begin(self) -> None:
        """Note that a request starts."""
        if len(self.pipeline) > MAX_PIPELINED:
            raise httptools.HttpParserError("too many requests before the first was answered")
        self.waits_for_sender = self._in_head = True
        self.silent[self] = None
        self._head_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Note that the head is complete; the body follows."""
        self._in_head = False
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Collect the pieces of a body: the library copies what it has with each, and they may be of one byte."""
        self._pieces.append(body)

    def _pass_on(self) -> None:
        if self._pieces:
            super().on_body(b"".join(self._pieces))
            self._pieces.clear()

    def on_message_complete(self) -> None:
        """Stop the sender's clock: the request is complete, and now the time is ours."""
        self._pass_on()
        self.waits_for_sender = False
        self.silent.pop(self, None)
        super().on_message_complete()

    def overdue(self, since: float) -> bool:
        """Return whether the sender has been late since before that time."""
        if self.flow.read_paused:  # it is we who do not read
            return False
        return self.waits_for_sender and self.quiet_since < since

    def give_up(self) -> None:
        """Close without waiting for sent data to arrive."""
        self.silent.pop(self, None)
        if not self.transport.is_closing():
            self.transport.close()


class Guarded(Protocol):
    """The interface required of connections; there are two kinds (see `cobblestone.service.http.lean`)."""

    def overdue(self, since: float) -> bool:
        """Return whether the sender has been late since before that time."""
        ...

    def give_up(self) -> None:
        """Close without waiting for sent data to arrive."""
        ...


async def close_silent_connections(server: uvicorn.Server, idle_seconds: float) -> None:
    """Close connections whose sender has been silent for ``idle_seconds``; runs until it is cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(min(5.0, idle_seconds / 2))
        silent = [
            each
            for each in cast("Collection[Guarded]", server.server_state.connections)
            if each.overdue(loop.time() - idle_seconds)
        ]
        for connection in silent:
            connection.give_up()
        if silent:
            log.info("silent_connections_closed", count=len(silent))


def connection_class(max_connections: int) -> type[GuardedConnection]:
    """Return the class of connections for a server; raises the limit of open files as needed."""
    if sys.platform != "win32":
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = max_connections + SPARE_FILES
        if soft != resource.RLIM_INFINITY and soft < wanted:
            soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
            with contextlib.suppress(OSError, ValueError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            max_connections = max(16, min(max_connections, soft - SPARE_FILES))
    return type("Connection", (GuardedConnection,), {"max_connections": max_connections, "silent": {}})


#: Connections that are idle when the end begins are closed after so long: a request may be on its way.
IDLE_SECONDS = 1.0
CHECK_SECONDS = 60.0


class DrainingServer(uvicorn.Server):
    """A uvicorn server with our shutdown: its own signal handling would end the process before daemons and database close."""

    def __init__(
        self, config: uvicorn.Config, ctx: ProcessContext, *, drain_seconds: float, check: Sequence[str]
    ) -> None:
        """``check``: arguments of the command ``cobblestone`` that test whether a new process could take over."""
        super().__init__(config)
        self._ctx = ctx
        self._drain_seconds = drain_seconds
        self._check = check
        self._ending: asyncio.Task[None] | None = None
        self.restart = False  #: begin again after the end

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave signals to our handlers."""
        yield

    def listen_to_signals(self) -> None:
        """SIGTERM and SIGINT: end; a second one at once.  SIGHUP: restart."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.end)
        loop.add_signal_handler(signal.SIGHUP, self.begin_again)

    def end(self) -> None:
        """End when running requests are done; a second call ends at once."""
        if self._ctx.health.draining:
            self.should_exit = self.force_exit = True
        else:
            self._ctx.health.draining = True  # before the task runs, so that a second call sees it
            self._ending = asyncio.create_task(self._drain())

    def begin_again(self) -> None:
        """Restart with the same socket, if program and settings are valid."""
        if not self._ctx.health.draining and self._ending is None:
            self._ending = asyncio.create_task(self._try_restart())

    async def _try_restart(self) -> None:
        if problem := await _check_start(self._check):
            log.error("restart_refused", problem=problem)
            self._ending = None
        elif not self._ctx.health.draining:
            log.info("restart_begins")
            self.restart = self._ctx.health.draining = True
            await self._drain()

    async def _drain(self) -> None:
        self._ctx.signals.close()  # requests that wait for news answer with what there is
        for server in self.servers:
            server.close()
        loop = asyncio.get_running_loop()
        began = loop.time()
        while self.server_state.connections and not self.force_exit:
            seconds = loop.time() - began
            busy = self._ctx.metrics.requests_in_progress
            if seconds >= self._drain_seconds or (not busy and seconds >= IDLE_SECONDS):
                break
            await asyncio.sleep(0.02)
        self.should_exit = True


async def _check_start(check: Sequence[str]) -> str:
    """Return why a new process could not run this service; empty if it could."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "cobblestone", *check),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            _, errors = await process.communicate()
    except TimeoutError:
        process.kill()
        return f"the check took longer than {CHECK_SECONDS:g} s"
    return "" if process.returncode == 0 else errors.decode(errors="replace").strip()[-500:]
