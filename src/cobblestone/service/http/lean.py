"""Connections of a busy service: requests to its busy endpoints are handled here, all others by the HTTP library.

A connection whose first bytes are the usual request line of a busy endpoint costs a third of what it costs in the library, which
must be ready for everything: upgrades, chunked and endless answers, a log of its own.  Any other first bytes make the connection
the library's, for good; it finds the same endpoints behind it, only later.  `httptools` takes the requests apart in both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, cast

import httptools
import structlog
import uvicorn
from starlette.types import ASGIApp, Message, Scope
from uvicorn.protocols.http.httptools_impl import STATUS_LINE
from uvicorn.server import ServerState

from cobblestone.service.http.connections import MAX_HEAD_BYTES, TOO_LARGE, GuardedConnection

log = structlog.get_logger(__name__)

#: Of a body that was not taken yet; with more the sender must wait.
HIGH_WATER_BYTES = 65_536

_BAD_REQUEST = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class LeanConnection(asyncio.Protocol):
    """A connection between two requests, or with the one in progress.

    The library's server makes, lists, stops and ends it as it does with its own.
    """

    library: type[GuardedConnection]
    apps: Mapping[bytes, ASGIApp]  #: busy endpoints by path
    lines: tuple[bytes, ...]  #: the beginnings of requests to them

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],  # Any: the library's own type
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.config = config
        self.server_state = server_state
        self.app_state = app_state
        self.loop = _loop or asyncio.get_running_loop()
        self.quiet_since = self.loop.time()
        self.transport: asyncio.Transport = None  # pyright: ignore[reportAttributeAccessIssue]  # set at once, see below
        self.client: tuple[str, int] | None = None
        self._request: _Request | None = None
        self._idle: asyncio.TimerHandle | None = None

    # ------------------------------------------------------------------ what the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Accept a connection; if there are too many, close the one that has been silent longest."""
        self.transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self.client = (peer[0], peer[1]) if isinstance(peer, tuple) else None
        self.server_state.connections.add(self)  # pyright: ignore[reportArgumentType]  # it knows its own classes only
        self.library.silent[self] = None
        self.library.make_room(self.server_state.connections)

    def data_received(self, data: bytes) -> None:
        """Read a part of a request, or hand the connection over to the library."""
        request = self._request
        if request is None:
            if self._idle is not None:
                self._idle.cancel()
                self._idle = None
            if not data.startswith(self.lines):
                self._hand_over(data)
                return
            request = self._request = _Request(self)
        if not request.in_head:  # within a head the clock is not set back: it must come whole in time
            self.listen()
        request.feed(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the request that its client has gone."""
        self._forget()
        if self._idle is not None:
            self._idle.cancel()
        if self._request is not None:
            self._request.disconnect()

    def pause_writing(self) -> None:
        """Accept no more requests while answers are not read."""
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        """Accept requests again."""
        self.transport.resume_reading()

    # ------------------------------------------------------------------ what the server calls

    @property
    def waits_for_sender(self) -> bool:
        """Return whether it is the sender's turn."""
        return self._request is None or not self._request.complete

    def overdue(self, since: float) -> bool:
        """Return whether the sender has been late since before that time."""
        if self._request is not None and self._request.paused:  # it is we who do not read
            return False
        return self.waits_for_sender and self.quiet_since < since

    def give_up(self) -> None:
        """Close without waiting for sent data to arrive."""
        self.library.silent.pop(self, None)
        if not self.transport.is_closing():
            self.transport.close()

    def shutdown(self) -> None:
        """End: at once between requests, else after the answer."""
        if self._request is None:
            self.transport.close()
        else:
            self._request.keep_alive = False

    # ------------------------------------------------------------------ what requests call

    def start(self, request: _Request, app: ASGIApp) -> None:
        """Let an endpoint work on a request."""
        task = self.loop.create_task(request.run(app))
        self.server_state.tasks.add(task)
        task.add_done_callback(self.server_state.tasks.discard)

    def answered(self, *, keep_alive: bool) -> None:
        """Close, or wait for the next request."""
        self._request = None
        if not keep_alive:
            self.transport.close()
        elif not self.transport.is_closing():
            self.listen()
            self._idle = self.loop.call_later(self.config.timeout_keep_alive, self.give_up)

    def listen(self) -> None:
        """Restart the sender's clock, if it is the sender's turn."""
        self.quiet_since = self.loop.time()
        self.library.silent.pop(self, None)
        if self.waits_for_sender:
            self.library.silent[self] = None

    def _forget(self) -> None:
        self.library.silent.pop(self, None)
        self.server_state.connections.discard(self)

    def _hand_over(self, data: bytes) -> None:
        self._forget()
        heir = self.library(self.config, self.server_state, self.app_state, self.loop)
        self.transport.set_protocol(heir)
        heir.connection_made(self.transport)
        heir.data_received(data)


class _Request:
    """One request and its answer: called by `httptools` and by the endpoint, an ASGI application."""

    def __init__(self, connection: LeanConnection) -> None:
        self.in_head = True
        self.complete = False  #: the request is here
        self.paused = False  #: we do not read, since what came is not taken
        self.keep_alive = True
        self._connection = connection
        self._transport = connection.transport
        self._parser = httptools.HttpRequestParser(self)
        self._path = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []
        self._nbytes = 0  # of the head
        self._expects_continue = False
        self._disconnected = False
        self._waiter: asyncio.Future[None] | None = None
        self._start: Message | None = None  # of the answer
        self._parts: list[bytes] = []
        self._answered = False

    def feed(self, data: bytes) -> None:
        """Read received data, unless it is not HTTP or makes the head too large."""
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if self.complete:  # another request came before the answer: it must be sent again
                self.keep_alive = False
            else:
                log.info("bad_http_request", error=str(error))
                self._refuse(_BAD_REQUEST)
            return
        if self.in_head:
            self._nbytes += len(data)
            if self._nbytes > MAX_HEAD_BYTES:
                log.info("head_too_large", client=self._connection.client)
                self._refuse(TOO_LARGE)
        elif self._body:
            if not self.paused and sum(map(len, self._body)) > HIGH_WATER_BYTES:
                self.paused = True
                self._transport.pause_reading()
            self._wake()

    def disconnect(self) -> None:
        """Note that the client has gone."""
        self._disconnected = True
        self._wake()

    def _refuse(self, answer: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(answer)
            self._connection.give_up()

    # ------------------------------------------------------------------ what httptools calls

    def on_message_begin(self) -> None:
        """Refuse a request sent before the last one was answered: the connection ends with that answer."""
        if self.complete:
            raise httptools.HttpParserError("a second request came before the first was answered")

    def on_url(self, url: bytes) -> None:
        """Take the path, which may arrive in pieces."""
        self._path += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a field of the head."""
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self._expects_continue = True
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Start the endpoint, which may want to read a large body as it arrives."""
        self.in_head = False
        self.keep_alive = self._parser.get_http_version() != "1.0" and self._parser.should_keep_alive()
        self._connection.start(self, self._connection.apps[self._path])

    def on_body(self, body: bytes) -> None:
        """Take a part of the body, which may be of one byte: all else is done once for all that came."""
        if not self._answered:  # an endpoint need not read what it refuses
            self._body.append(body)

    def on_message_complete(self) -> None:
        """Note the end of the request: now the time is ours."""
        self.complete = True
        self._connection.listen()
        self._wake()
        if self._answered:
            self._end(keep_alive=False)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # ------------------------------------------------------------------ what the endpoint calls

    async def run(self, app: ASGIApp) -> None:
        """Let the endpoint answer."""
        path = self._path.decode("ascii")
        scope: Scope = {
            "type": "http",
            "http_version": self._parser.get_http_version(),
            "method": "POST",
            "scheme": "http",
            "path": path,
            "query_string": b"",
            "root_path": "",
            "headers": self._headers,
            "client": self._connection.client,
            "server": None,
        }
        try:
            await app(scope, self._receive, self._send)
        except Exception:
            log.exception("request_failed", path=path)
            self.keep_alive = False
            self._write(500, ((b"content-length", b"21"),), b"Internal Server Error")

    async def _receive(self) -> Message:
        if self._expects_continue and not self._body:
            self._transport.write(_CONTINUE)
        self._expects_continue = False
        while not (self._body or self.complete or self._disconnected):
            self._read_on()
            self._waiter = self._connection.loop.create_future()
            await self._waiter
        if self._disconnected:
            return {"type": "http.disconnect"}
        body = b"".join(self._body)
        self._body.clear()
        return {"type": "http.request", "body": body, "more_body": not self.complete}

    def _read_on(self) -> None:
        if self.paused:
            self.paused = False
            self._transport.resume_reading()

    async def _send(self, message: Message) -> None:
        if self._start is None:
            self._start = message
            return
        self._parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            self._write(self._start["status"], self._start["headers"], b"".join(self._parts))

    def _write(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> None:
        """Send the whole answer; its lower-case headers state its length if they describe a body."""
        if self._answered or self._disconnected or self._transport.is_closing():
            return
        # Of a request that is still on its way the rest is read and thrown away, so that its sender gets to see the answer.
        self.keep_alive = self.keep_alive and self.complete
        head = [STATUS_LINE[status]]
        for name, value in (*self._connection.server_state.default_headers, *headers):
            if name == b"connection":
                self.keep_alive = self.keep_alive and value != b"close"
            else:
                head.append(b"%b: %b\r\n" % (name, value))
        head.append(b"\r\n" if self.keep_alive else b"connection: close\r\n\r\n")
        self._transport.write(b"".join((*head, body)))
        self._answered = True
        self._read_on()  # the last part of a large body may have stopped the reading: the next request must be heard
        if self.complete:
            self._end(keep_alive=self.keep_alive)
        else:
            self._body.clear()

    def _end(self, *, keep_alive: bool) -> None:
        # It knows our methods, so that both would stay until a search for cycles, which stops everything for some milliseconds.
        del self._parser
        self._connection.answered(keep_alive=keep_alive)


def lean_connection_class(
    library: type[GuardedConnection], apps: Mapping[str, ASGIApp]
) -> type[LeanConnection]:
    """Return a connection class that serves busy endpoints, given by path, and leaves the rest to the library."""
    by_path = {path.encode(): app for path, app in apps.items()}
    lines = tuple(b"POST %b HTTP/1." % path for path in by_path)
    return type("Connection", (LeanConnection,), {"library": library, "apps": by_path, "lines": lines})
