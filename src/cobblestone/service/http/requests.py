"""Request bodies read within bounds, and plain answers.

The two busy endpoints, scheduler and upload handler, are bare ASGI applications: a framework's objects for request and
response would cost them a tenth of their time.
"""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

from cobblestone.domain.errors import Busy, CobblestoneError

#: Of figures that anyone may read, also the pages of other sites, and keep for a minute.
OPEN_HEADERS = {
    "Access-Control-Allow-Origin": "*",
    "Cache-Control": "public, max-age=60",
    "X-Content-Type-Options": "nosniff",
}

#: What any request may send; a client's ordinary request is a tenth of it.
SMALL_BODY_BYTES = 65_536

#: A body of which parts can be left out may be so many times as large as others.
LONGEST = 10

#: What all requests together may have in memory beyond that while they arrive.
LARGE_BODIES_BYTES = 64_000_000


class BodyTooLarge(CobblestoneError):
    """The body is larger than allowed."""


async def read_body(request: Request, max_bytes: int) -> bytes:
    """Return the whole body.

    Raises:
        BodyTooLarge: it is larger than ``max_bytes``; the rest is not read.
    """
    return await read_all(request.scope, request.receive, max_bytes)


async def read_all(
    scope: Scope, receive: Receive, max_bytes: int, *, shorten: Callable[[bytes], bytes] | None = None
) -> bytes:
    """Return the same for a bare ASGI application.

    ``shorten`` leaves out what is not needed of a body that is larger, at most `LONGEST` times, while it arrives.

    Raises:
        BodyTooLarge: it is larger than ``max_bytes``; the rest is not read.
        Busy: many large bodies arrive at this moment; this one must come again later.
    """
    most = max_bytes * (LONGEST if shorten else 1)
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and int(value) > most:
            raise BodyTooLarge
    parts: list[bytes] = []
    size = received = 0
    with _Share() as share:
        async for chunk in BodyStream(receive):
            size += len(chunk)
            received += len(chunk)
            if size > SMALL_BODY_BYTES:
                share.grow(len(chunk))
            parts.append(chunk)
            if size > max_bytes:
                if shorten is None or received > most:
                    raise BodyTooLarge
                parts = [shorten(b"".join(parts))]
                share.grow(len(parts[0]) - size)
                size = len(parts[0])
                if size > max_bytes // 2:  # so that all looks together take no longer than the body is long
                    raise BodyTooLarge
    return parts[0] if len(parts) == 1 else b"".join(parts)


class _Share:
    """One body's part of the memory for large bodies."""

    in_use = 0  #: of all bodies of this process, which has one event loop

    def __init__(self) -> None:
        self._nbytes = 0

    def grow(self, nbytes: int) -> None:
        if _Share.in_use + nbytes > LARGE_BODIES_BYTES:
            raise Busy("Many large requests are arriving at this moment. Send it again in a minute.")
        _Share.in_use += nbytes
        self._nbytes += nbytes

    def __enter__(self) -> _Share:
        return self

    def __exit__(self, *_: object) -> None:
        _Share.in_use -= self._nbytes


class BodyStream:
    """The body piece by piece; iterate over it once.  Lighter than a generator, and it knows its end.

    Raises (while it is read):
        ClientDisconnect: the client hung up before the end.
    """

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self.ended = False  #: whether all of it was read

    def __aiter__(self) -> BodyStream:
        return self

    async def __anext__(self) -> bytes:
        while not self.ended:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            self.ended = not message.get("more_body", False)
            if body := message.get("body", b""):
                return body
        raise StopAsyncIteration


async def answer(send: Send, body: bytes, media_type: str) -> None:
    """Send a complete answer with status 200."""
    headers = [(b"content-type", media_type.encode()), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
