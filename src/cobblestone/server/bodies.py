"""Reading request bodies within bounds."""

from __future__ import annotations

from starlette.requests import Request

from cobblestone.domain.errors import CobblestoneError


class BodyTooLarge(CobblestoneError):
    """The body is larger than allowed."""


async def read_body(request: Request, max_bytes: int) -> bytes:
    """The whole body.

    Raises:
        BodyTooLarge: it is larger than ``max_bytes``; the rest is not read.
    """
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > max_bytes:
        raise BodyTooLarge
    parts: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > max_bytes:
            raise BodyTooLarge
        parts.append(chunk)
    return b"".join(parts)
