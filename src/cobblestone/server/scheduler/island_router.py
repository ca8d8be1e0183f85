"""The way of a scheduler request to the island of its computer: a redirection, which needs no database.

Clients of the family follow it with the whole request, again at each call, so nothing about it is to be remembered here.
"""

from __future__ import annotations

import re

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cobblestone.policy.dispatch.islands import choose_island, island_of_host
from cobblestone.server.core.islands import Islands
from cobblestone.server.scheduler.endpoint import claimed_host
from cobblestone.service.http.bodies import BodyTooLarge, read_all

_COMPUTER = re.compile(rb"<host_cpid>\s*([^<]{1,100}?)\s*</host_cpid>")
_ACCOUNT = re.compile(rb"<authenticator>\s*([^<]{1,100}?)\s*</authenticator>")


class IslandRouter:
    """Sends requests of an island's computers there, and lets ``own`` answer the others."""

    def __init__(self, own: ASGIApp, islands: Islands, path: str, *, max_bytes: int) -> None:
        self._own = own
        self._shares = islands.shares
        self._addresses = {each.number: (each.url + path).encode() for each in islands.island}
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer over HTTP."""
        try:
            body = await read_all(scope, receive, self._max_bytes)
        except BodyTooLarge:
            await _send_status(send, 413)
            return
        address = self._addresses.get(self._number(body))
        if address is None:
            await self._own(scope, _once(body), send)
            return
        await _send_status(send, 307, (b"location", address))

    def _number(self, body: bytes) -> int:
        host = claimed_host(body)
        if host is not None:
            return island_of_host(int(host))
        computer = _COMPUTER.search(body) or _ACCOUNT.search(body)
        return choose_island(self._shares, "" if computer is None else computer[1].decode("latin-1"))


async def _send_status(send: Send, status: int, *headers: tuple[bytes, bytes]) -> None:
    """Send an answer without a body."""
    await send(
        {"type": "http.response.start", "status": status, "headers": [*headers, (b"content-length", b"0")]}
    )
    await send({"type": "http.response.body", "body": b""})


def _once(body: bytes) -> Receive:
    """Return what gives a body that was read already."""

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive
