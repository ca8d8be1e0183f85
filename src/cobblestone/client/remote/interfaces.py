"""The control interfaces of the client: GUI RPC on TCP, JSON on a WebSocket, and the page for browsers.

The JSON interface: one WebSocket, questions and commands as JSON objects, and what happens as it happens.

A peer sends ``{"id": 1, "do": "tasks", "with": {...}}`` and gets ``{"id": 1, "ok": true, "result": ...}`` or
``{"id": 1, "ok": false, "error": "a sentence"}``.  After ``{"do": "follow"}`` every line of the event log comes by itself, as
``{"message": {...}}``.  Who has the control token may do everything, who has the reading token may look.
The page that shows all of it in a browser is a peer like any other.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import secrets
import socket
import ssl
import time
from collections.abc import Callable
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from cobblestone.client.remote.access import ACCESS_FILE, Access, known_access
from cobblestone.client.remote.commands import COMMANDS, QUESTIONS, Arguments, Controls
from cobblestone.client.remote.gui_rpc_operations import Operations
from cobblestone.domain.errors import CobblestoneError, ConfigError, RemoteProtocolError
from cobblestone.ops.aside import LITTLE
from cobblestone.ops.files import write_private
from cobblestone.wire.client.gui_rpc import (
    END,
    GuiRpcCall,
    GuiRpcConnection,
    GuiRpcReply,
    write_error,
    write_reply,
)

if TYPE_CHECKING:
    from websockets.asyncio.server import Server, ServerConnection
    from websockets.http11 import Request, Response

    from cobblestone.wire.client.gui_rpc import LoggedMessage


PORT = 31416
MAX_GUI_RPC_CONNECTIONS = 200
IDLE_SECONDS = 600.0
FIRST_REQUEST_SECONDS = 30.0
PIECE = 16 * 1024


class GuiRpcServer:
    """Listens on a port, for this computer alone; every connection is one small task, and their number is limited."""

    def __init__(self, controls: Controls, *, port: int = PORT) -> None:
        self._view = controls.view
        self._operations = Operations(controls)
        self._port = port
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], float] = {}  #: with the time of the last request

    @property
    def port(self) -> int:
        """Return the port that it listens on."""
        return self._port

    async def start(self) -> None:
        """Listen.  Raises ConfigError when the port is taken."""
        self._view.folders.password()  # managers look for its file
        try:
            # As many are accepted at a time, before those that are too many are closed: with more of them a crowd would take all
            # the files that an ordinary user's program may have open (1024).
            self._server = await asyncio.start_server(
                self._accept, "127.0.0.1", self._port, limit=PIECE, backlog=MAX_GUI_RPC_CONNECTIONS
            )
        except OSError as error:
            raise ConfigError(
                f"Port {self._port} cannot be listened on: {error.strerror}."
                " Is another client running? Give this one --gui-port N."
            ) from error
        self._port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening, and end all connections."""
        if self._server is not None:
            self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # the one that has been silent longest gives way
        if len(self._connections) >= MAX_GUI_RPC_CONNECTIONS:
            idle = min(self._connections, key=lambda task: self._connections[task])
            del self._connections[idle]
            idle.cancel()
        task = asyncio.create_task(self._serve(reader, writer))
        self._connections[task] = time.monotonic()
        task.add_done_callback(lambda done: self._connections.pop(done, None))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = GuiRpcConnection(
            password=self._view.folders.password(),
            local=True,
            nonce=f"{secrets.randbits(64)}.{secrets.randbits(32)}",
        )
        patience, held = FIRST_REQUEST_SECONDS, 0
        try:
            while True:
                async with asyncio.timeout(patience):
                    data = await reader.read(PIECE)
                if not data:
                    return
                held += len(data)
                read, aside = (
                    connection.receive_data,
                    END in data and held > LITTLE,
                )  # what has not ended is only kept
                for found in await asyncio.to_thread(read, data) if aside else read(data):
                    patience = IDLE_SECONDS
                    await asyncio.sleep(0)  # others have their turn between the requests of one peer
                    if (task := asyncio.current_task()) in self._connections:
                        self._connections[task] = time.monotonic()
                    answer = found if isinstance(found, GuiRpcReply) else GuiRpcReply(self._answer(found))
                    writer.write(answer.data)
                    await writer.drain()
                    if answer.close:
                        return
                    held = len(data)  # at most so much follows in this piece
        except (TimeoutError, OSError, RemoteProtocolError, asyncio.IncompleteReadError):
            return
        finally:
            with contextlib.suppress(OSError):
                writer.close()

    def _answer(self, call: GuiRpcCall) -> bytes:
        try:
            return write_reply(self._operations.carry_out(call))
        except CobblestoneError as error:
            return write_reply(write_error(str(error)))


PAGE = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
}
#: Nothing from elsewhere, no frame around it, and no address of ours (the token stands in it) for others.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
    "Connection": "close",
}


@cache
def page_part(path: str) -> Response:
    """Return the answer with one of the files of `PAGE`."""
    from websockets.datastructures import Headers
    from websockets.http11 import Response

    name, kind = PAGE[path]
    body = (Path(__file__).parent / "page" / name).read_bytes()
    own = {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(body))}
    return Response(HTTPStatus.OK, "OK", Headers({**HEADERS, **own}), body)


MAX_MESSAGE = 16 * 1024
MAX_JSON_CONNECTIONS = 100
#: Lines of the event log that wait for a slow peer; more, and it is let go.
MAX_WAITING = 1000


class JsonInterface:
    """Listens for WebSockets."""

    def __init__(
        self,
        controls: Controls,
        *,
        port: int = 0,
        remote: bool = False,
        certificate: Path | None = None,
        key: Path | None = None,
    ) -> None:
        self._controls = controls
        self._view = controls.view
        self._remote = remote
        self._listening: socket.socket | None = None
        self._opening: asyncio.Task[None] | None = None
        self._server: Server | None = None
        self._tls = _tls(certificate, key) if certificate else None
        if remote and self._tls is None:
            raise ConfigError("Control from other computers needs TLS: give --tls-certificate and --tls-key.")
        known = known_access(self._view.folders.root)
        self.access = Access(
            port=port or (known.port if known else 0),
            control_token=known.control_token if known else secrets.token_urlsafe(24),
            reading_token=known.reading_token if known else secrets.token_urlsafe(24),
            tls=self._tls is not None,
        )

    async def start(self) -> None:
        """Listen.  A port that is in use is replaced by another, unless it was requested."""
        host = "0.0.0.0" if self._remote else "127.0.0.1"  # noqa: S104  # only on demand, and with TLS
        try:
            listening = socket.create_server((host, self.access.port), backlog=MAX_JSON_CONNECTIONS)
        except OSError:
            listening = socket.create_server((host, 0), backlog=MAX_JSON_CONNECTIONS)
        listening.setblocking(False)
        self._listening = listening
        # what serves WebSockets is loaded when someone calls: most clients are never asked over this interface
        asyncio.get_running_loop().add_reader(listening, self._first_call, listening)
        self.access.port = listening.getsockname()[1]
        write_private(self._view.folders.root / ACCESS_FILE, msgspec.json.encode(self.access))

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

    def _rights(self, request: Request) -> bool | None:
        """Return True: full access; False: read-only; None: no access."""
        header = request.headers.get("Authorization", "").removeprefix("Bearer ").strip()
        token = header or (parse_qs(urlsplit(request.path).query).get("token") or [""])[0]
        given = token.encode()
        if hmac.compare_digest(given, self.access.control_token.encode()):
            return True
        if hmac.compare_digest(given, self.access.reading_token.encode()):
            return False
        return None

    def _http(self, connection: ServerConnection, request: Request) -> Response | None:
        """Accept a WebSocket only with a token, and not from pages of other sites."""
        try:
            path, origin = urlsplit(request.path), request.headers.get("Origin")
            origin_host = None if origin is None else urlsplit(origin).netloc
        except ValueError as error:
            return connection.respond(HTTPStatus.BAD_REQUEST, f"This is not a valid address: {error}.\n")
        if path.path in PAGE:
            return page_part(path.path)
        if path.path != "/ws":
            return connection.respond(HTTPStatus.NOT_FOUND, "The JSON interface is at /ws, the page at /.\n")
        if self._rights(request) is None:
            return connection.respond(
                HTTPStatus.UNAUTHORIZED, "A token is needed: see control.json in the data directory.\n"
            )
        if origin_host is not None and origin_host != request.headers.get("Host"):
            return connection.respond(
                HTTPStatus.FORBIDDEN, "Pages of other sites must not control this client.\n"
            )
        if self._server is not None and len(self._server.connections) > MAX_JSON_CONNECTIONS:
            return connection.respond(HTTPStatus.SERVICE_UNAVAILABLE, "Too many connections.\n")
        return None

    async def _serve(self, connection: ServerConnection) -> None:
        from websockets.exceptions import ConnectionClosed

        may_control = connection.request is not None and self._rights(connection.request)
        follower = Follower(connection.send)
        try:
            async for text in connection:
                await connection.send(await self._answer(text, bool(may_control), follower))
                await asyncio.sleep(0)
        except ConnectionClosed:
            return
        finally:
            follower.stop(self._view.journal.listeners)

    async def _answer(self, text: str | bytes, may_control: bool, follower: Follower) -> str:
        number: Any = None  # whatever the peer numbers its questions with
        try:
            question = msgspec.json.decode(text, type=dict[str, Any])
            number = question.get("id")
            name = str(question.get("do", ""))
            if name == "follow":
                follower.start(self._view.journal.listeners)
                return _reply(number, {})
            given = Arguments(question.get("with") or {})
            if name in QUESTIONS:
                return _reply(number, await QUESTIONS[name](self._view, given))
            if name not in COMMANDS:
                names = ", ".join(sorted({*QUESTIONS, *COMMANDS}))
                raise ConfigError(f"There is no command {name!r}; there are {names}.")
            if not may_control:
                raise ConfigError("This token only allows reading.")
            return _reply(number, await COMMANDS[name](self._controls, given))
        except msgspec.DecodeError as error:
            return _refusal(number, f"This is not a JSON object: {error}")
        except CobblestoneError as error:
            return _refusal(number, str(error))


class Follower:
    """Sends the lines of the event log to one peer."""

    def __init__(self, send: Callable[[str], Any]) -> None:
        self._send = send
        self._waiting: asyncio.Queue[LoggedMessage] = asyncio.Queue(MAX_WAITING)
        self._task: asyncio.Task[None] | None = None

    def start(self, listeners: list[Callable[[LoggedMessage], None]]) -> None:
        """Start."""
        if self._task is None:
            listeners.append(self._heard)
            self._task = asyncio.create_task(self._pass_on())

    def stop(self, listeners: list[Callable[[LoggedMessage], None]]) -> None:
        """Stop."""
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
