"""A project whose server is not running: this process stands in for it."""

from __future__ import annotations

import contextlib
import pkgutil
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any, Protocol, cast

import httpx
from anyio.from_thread import start_blocking_portal

# The SDK speaks HTTP and does not know the server; where both are installed, the server announces itself by this name.
_SERVER = "cobblestone.server.in_process:InProcessServer"


class InProcessServer(Protocol):
    """The functions that the server offers for use in this process."""

    url: str
    app: Any  # an ASGI application: its type needs the server's framework

    async def start(self) -> None: ...

    def close(self) -> None: ...


class InProcessTransport(httpx.BaseTransport):
    """Runs a project's web application in a thread of this process, as long as the transport is open."""

    def __init__(self, server: InProcessServer) -> None:
        stack = contextlib.ExitStack()
        # Also for programs that do not close it: the interpreter's end would wait for a thread that has ended.
        self._end = weakref.finalize(self, stack.close)
        stack.callback(server.close)
        self.url = server.url
        self._portal = stack.enter_context(start_blocking_portal("asyncio"))
        self._inner = httpx.ASGITransport(server.app)
        self._portal.call(server.start)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request and read the whole answer."""
        return self._portal.call(
            cast("Callable[[httpx.Request], Awaitable[httpx.Response]]", self._send), request
        )

    async def _send(self, request: httpx.Request) -> httpx.Response:
        outgoing = httpx.Request(
            request.method,
            request.url,
            headers=request.headers,
            content=_pieces(cast("Iterable[bytes]", request.stream)),
        )
        answer = await self._inner.handle_async_request(outgoing)
        return httpx.Response(answer.status_code, headers=answer.headers, content=await answer.aread())

    def close(self) -> None:
        """Close the project."""
        self._end()


def open_in_process(folder: Path) -> InProcessTransport:
    """Open the project in ``folder``; raises what the server raises, e.g. Busy."""
    make = cast("Callable[[Path], InProcessServer]", pkgutil.resolve_name(_SERVER))
    return InProcessTransport(make(folder))


async def _pieces(stream: Iterable[bytes]) -> AsyncIterator[bytes]:
    for piece in stream:
        yield piece
