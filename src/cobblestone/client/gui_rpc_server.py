"""GUI RPC on TCP: connections of managers such as boinccmd, boinctui and the BOINC Manager."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import secrets
import socket
from typing import TYPE_CHECKING

from cobblestone.client.gui_rpc_operations import Operations
from cobblestone.domain.errors import CobblestoneError, ConfigError, RemoteProtocolError
from cobblestone.wire.gui_rpc import Call, GuiRpcConnection, Reply, write_error, write_reply

if TYPE_CHECKING:
    from cobblestone.client.daemon import Client

PORT = 31416
MAX_CONNECTIONS = 200
MAX_FROM_ELSEWHERE = 50
IDLE_SECONDS = 600.0
FIRST_REQUEST_SECONDS = 30.0
PIECE = 16 * 1024
REMOTE_HOSTS = "remote_hosts.cfg"


class GuiRpcServer:
    """Listens; every connection is one small task, and there are never too many of them."""

    def __init__(self, client: Client, *, port: int = PORT, remote: bool = False) -> None:
        self._client = client
        self._operations = Operations(client)
        self._port = port
        self._remote = remote
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._complained = 0.0

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._port

    async def start(self) -> None:
        """Listen.  Raises ConfigError when the port is taken."""
        self._client.folders.password()  # managers look for its file
        host = "0.0.0.0" if self._remote else "127.0.0.1"  # noqa: S104  # only when the volunteer allows it
        try:
            # As many are accepted at a time, before those that are too many are closed: with more of them a crowd would take all
            # the files that an ordinary user's program may have open (1024).
            self._server = await asyncio.start_server(
                self._accept, host, self._port, limit=PIECE, backlog=MAX_CONNECTIONS
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
        peer = str((writer.get_extra_info("peername") or ("",))[0])
        local = _is_local(peer)
        limit = MAX_CONNECTIONS if local else MAX_FROM_ELSEWHERE
        if len(self._connections) >= limit or not (local or self._may_connect(peer)):
            self._complain(peer, len(self._connections) >= limit)
            writer.close()
            return
        task = asyncio.create_task(self._serve(reader, writer, local=local))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    def _may_connect(self, peer: str) -> bool:
        """Whether ``remote_hosts.cfg`` names the peer; with remote control allowed to all it need not."""
        if self._remote:
            return True
        path = self._client.folders.root / REMOTE_HOSTS
        with contextlib.suppress(OSError, UnicodeDecodeError):
            for line in path.read_text(encoding="utf-8").splitlines():
                name = line.strip()
                if name and name[0] not in "#;" and peer in _addresses(name):
                    return True
        return False

    def _complain(self, peer: str, full: bool) -> None:
        now = self._client.clock()
        if now - self._complained > 600:
            self._complained = now
            why = "too many connections" if full else "it is not allowed to control this client"
            self._client.journal.say(f"GUI RPC connection from {peer} refused: {why}")

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, local: bool
    ) -> None:
        connection = GuiRpcConnection(
            password=self._client.folders.password(),
            local=local,
            nonce=f"{secrets.randbits(64)}.{secrets.randbits(32)}",
        )
        patience = FIRST_REQUEST_SECONDS
        try:
            while True:
                async with asyncio.timeout(patience):
                    data = await reader.read(PIECE)
                if not data:
                    return
                for found in connection.receive_data(data):
                    patience = IDLE_SECONDS
                    answer = found if isinstance(found, Reply) else Reply(self._answer(found))
                    writer.write(answer.data)
                    await writer.drain()
                    if answer.close:
                        return
        except (TimeoutError, OSError, RemoteProtocolError, asyncio.IncompleteReadError):
            return
        finally:
            with contextlib.suppress(OSError):
                writer.close()

    def _answer(self, call: Call) -> bytes:
        try:
            return write_reply(self._operations.carry_out(call))
        except CobblestoneError as error:
            return write_reply(write_error(str(error)))


def _is_local(peer: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(peer).is_loopback
    return False


def _addresses(name: str) -> set[str]:
    with contextlib.suppress(OSError):
        return {str(info[4][0]) for info in socket.getaddrinfo(name, None)}
    return set()
