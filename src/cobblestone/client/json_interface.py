"""The JSON interface: one WebSocket, questions and commands as JSON objects, and what happens as it happens.

A peer sends ``{"id": 1, "do": "tasks", "with": {...}}`` and gets ``{"id": 1, "ok": true, "result": ...}`` or
``{"id": 1, "ok": false, "error": "a sentence"}``.  After ``{"do": "follow"}`` every line of the event log comes by itself, as
``{"message": {...}}``.  Who has the control token may do everything, who has the reading token may look.
The page that shows all of it in a browser is a peer like any other (`web_page`).
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import secrets
import socket
import ssl
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from cobblestone.client.access import ACCESS_FILE, Access, known_access
from cobblestone.client.commands import COMMANDS, READING, Arguments
from cobblestone.client.web_page import PAGE, page_part
from cobblestone.domain.errors import CobblestoneError, ConfigError
from cobblestone.ops.durable_files import write_private

if TYPE_CHECKING:
    from websockets.asyncio.server import Server, ServerConnection
    from websockets.http11 import Request, Response

    from cobblestone.client.daemon import Client
    from cobblestone.wire.gui_rpc_answers import LoggedMessage

MAX_MESSAGE = 256 * 1024
MAX_CONNECTIONS = 100
MAX_WAITING = 1000
"""Lines of the event log that wait for a slow peer; more, and it is let go."""


class JsonInterface:
    """Listens for WebSockets."""

    def __init__(
        self,
        client: Client,
        *,
        port: int = 0,
        remote: bool = False,
        certificate: Path | None = None,
        key: Path | None = None,
    ) -> None:
        self._client = client
        self._remote = remote
        self._listening: socket.socket | None = None
        self._opening: asyncio.Task[None] | None = None
        self._server: Server | None = None
        self._tls = _tls(certificate, key) if certificate else None
        if remote and self._tls is None:
            raise ConfigError("Control from other computers needs TLS: give --tls-certificate and --tls-key.")
        known = known_access(client.folders.root)
        self.access = Access(
            port=port or (known.port if known else 0),
            control_token=known.control_token if known else secrets.token_urlsafe(24),
            reading_token=known.reading_token if known else secrets.token_urlsafe(24),
            tls=self._tls is not None,
        )

    async def start(self) -> None:
        """Listen.  A port that is taken meanwhile is replaced by another, unless it was asked for."""
        host = "0.0.0.0" if self._remote else "127.0.0.1"  # noqa: S104  # only on demand, and with TLS
        try:
            listening = socket.create_server((host, self.access.port), backlog=MAX_CONNECTIONS)
        except OSError:
            listening = socket.create_server((host, 0), backlog=MAX_CONNECTIONS)
        listening.setblocking(False)
        self._listening = listening
        # what serves WebSockets is loaded when somebody calls: most clients are never asked over this interface
        asyncio.get_running_loop().add_reader(listening, self._first_call, listening)
        self.access.port = listening.getsockname()[1]
        write_private(self._client.folders.root / ACCESS_FILE, msgspec.json.encode(self.access))

    def _first_call(self, listening: socket.socket) -> None:
        asyncio.get_running_loop().remove_reader(listening)
        self._opening = asyncio.create_task(self._open(listening))

    async def _open(self, listening: socket.socket) -> None:
        from websockets.asyncio.server import serve

        self._server = await serve(
            self._serve,
            sock=listening,
            process_request=self._http,
            max_size=MAX_MESSAGE,
            ssl=self._tls,
            compression=None,
            server_header=None,
            open_timeout=10,
        )

    async def close(self) -> None:
        """Stop listening."""
        if self._opening is not None:
            await self._opening
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
        elif self._listening is not None:
            asyncio.get_running_loop().remove_reader(self._listening)
            self._listening.close()

    def _rights(self, token: str) -> bool | None:
        """Return True: everything; False: looking; None: nothing."""
        given = token.encode()
        if hmac.compare_digest(given, self.access.control_token.encode()):
            return True
        if hmac.compare_digest(given, self.access.reading_token.encode()):
            return False
        return None

    def _http(self, connection: ServerConnection, request: Request) -> Response | None:
        """Return a WebSocket only with a token, and not from pages of other sites."""
        try:
            path, origin = urlsplit(request.path), request.headers.get("Origin")
            origin_host = None if origin is None else urlsplit(origin).netloc
        except ValueError as error:
            return connection.respond(HTTPStatus.BAD_REQUEST, f"This is no address: {error}.\n")
        if path.path in PAGE:
            return page_part(path.path)
        if path.path != "/ws":
            return connection.respond(HTTPStatus.NOT_FOUND, "The JSON interface is at /ws, the page at /.\n")
        token = (parse_qs(path.query).get("token") or [""])[0]
        header = request.headers.get("Authorization", "").removeprefix("Bearer ").strip()
        if self._rights(header or token) is None:
            return connection.respond(
                HTTPStatus.UNAUTHORIZED, "A token is needed: see control.json in the data directory.\n"
            )
        if origin_host is not None and origin_host != request.headers.get("Host"):
            return connection.respond(
                HTTPStatus.FORBIDDEN, "Pages of other sites may not control this client.\n"
            )
        if self._server is not None and len(self._server.connections) > MAX_CONNECTIONS:
            return connection.respond(HTTPStatus.SERVICE_UNAVAILABLE, "Too many connections.\n")
        return None

    async def _serve(self, connection: ServerConnection) -> None:
        from websockets.exceptions import ConnectionClosed

        request = connection.request
        path = urlsplit(request.path if request else "")
        header = request.headers.get("Authorization", "").removeprefix("Bearer ").strip() if request else ""
        may_control = self._rights(header or (parse_qs(path.query).get("token") or [""])[0])
        follower = Follower(connection.send)
        try:
            async for text in connection:
                await connection.send(await self._answer(text, bool(may_control), follower))
        except ConnectionClosed:
            return
        finally:
            follower.stop(self._client.journal.listeners)

    async def _answer(self, text: str | bytes, may_control: bool, follower: Follower) -> str:
        number: Any = None  # whatever the peer numbers its questions with
        try:
            question = msgspec.json.decode(text, type=dict[str, Any])
            number = question.get("id")
            name = str(question.get("do", ""))
            if name == "follow":
                follower.start(self._client.journal.listeners)
                return _reply(number, {})
            command = COMMANDS.get(name)
            if command is None:
                raise ConfigError(f"There is no command {name!r}; there are {', '.join(sorted(COMMANDS))}.")
            if name not in READING and not may_control:
                raise ConfigError("This token only allows looking.")
            return _reply(number, await command(self._client, Arguments(question.get("with") or {})))
        except msgspec.DecodeError as error:
            return _refusal(number, f"This is no JSON object: {error}")
        except CobblestoneError as error:
            return _refusal(number, str(error))


class Follower:
    """Sends the lines of the event log to one peer."""

    def __init__(self, send: Callable[[str], Any]) -> None:
        self._send = send
        self._waiting: asyncio.Queue[LoggedMessage] = asyncio.Queue(MAX_WAITING)
        self._task: asyncio.Task[None] | None = None

    def start(self, listeners: list[Callable[[LoggedMessage], None]]) -> None:
        """Begin."""
        if self._task is None:
            listeners.append(self._heard)
            self._task = asyncio.create_task(self._pass_on())

    def stop(self, listeners: list[Callable[[LoggedMessage], None]]) -> None:
        """End."""
        if self._task is not None:
            self._task.cancel()
            listeners.remove(self._heard)

    def _heard(self, message: LoggedMessage) -> None:
        with contextlib.suppress(asyncio.QueueFull):
            self._waiting.put_nowait(message)

    async def _pass_on(self) -> None:
        while True:
            message = await self._waiting.get()
            await self._send(msgspec.json.encode({"message": message}).decode())


def _reply(number: object, result: object) -> str:
    return msgspec.json.encode({"id": number, "ok": True, "result": result}).decode()


def _refusal(number: object, sentence: str) -> str:
    return msgspec.json.encode({"id": number, "ok": False, "error": sentence}).decode()


def _tls(certificate: Path, key: Path | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"The TLS certificate {certificate} cannot be used: {error}") from error
    return context
