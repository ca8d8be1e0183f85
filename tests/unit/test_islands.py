"""Which island a computer belongs to."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from cobblestone.policy.dispatch.islands import HOST_IDS, MAX_NUMBER, choose_island, island_of_host
from cobblestone.server.core.islands import Islands, made_island
from cobblestone.server.scheduler.island_router import IslandRouter

COMPUTERS = [f"{number:032x}" for number in range(4000)]


def test_numbers_tell_the_island_and_fit_into_31_bits() -> None:
    assert island_of_host(1) == 0
    assert island_of_host(HOST_IDS - 1) == 0
    assert island_of_host(3 * HOST_IDS + 1) == 3
    assert (MAX_NUMBER + 1) * HOST_IDS < 2**31


def test_new_computers_are_shared_by_weight() -> None:
    counts = Counter(choose_island({0: 0.0, 1: 1.0, 2: 3.0}, each) for each in COMPUTERS)
    assert counts[0] == 0
    assert abs(counts[2] / len(COMPUTERS) - 0.75) < 0.05


def test_a_further_island_takes_computers_and_moves_none_between_the_others() -> None:
    before = {each: choose_island({0: 1.0, 1: 1.0}, each) for each in COMPUTERS}
    after = {each: choose_island({0: 1.0, 1: 1.0, 2: 1.0}, each) for each in COMPUTERS}
    moved = {each for each in COMPUTERS if before[each] != after[each]}
    assert {after[each] for each in moved} == {2}
    assert abs(len(moved) / len(COMPUTERS) - 1 / 3) < 0.05


def ask(body: bytes, *, centre_share: float = 0.0, max_bytes: int = 1000) -> tuple[int, str]:
    """What a router answers; the scheduler behind it says 200 and how much of the body reached it."""
    sent: list[dict[str, Any]] = []

    async def own(scope: Scope, receive: Receive, send: Send) -> None:
        given = await receive()
        assert given["body"] == body
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    island = made_island(name="a", number=2, url="http://127.0.0.2/", database="postgresql:///a", share=1.0)
    router = IslandRouter(own, Islands(centre_share, (island,)), "cgi", max_bytes=max_bytes)
    asyncio.run(router({"type": "http", "headers": []}, receive, send))
    return sent[0]["status"], dict(sent[0]["headers"]).get(b"location", b"").decode()


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"<hostid>200000001</hostid>", 307),
        (b"<hostid> 299999999 </hostid>", 307),
        (b"<hostid>7</hostid>", 200),  # the centre's own
        (
            b"<hostid>300000001</hostid>",
            200,
        ),  # an island that is gone: the centre knows no such computer, and makes one
        (b"<hostid>9223372036854775807</hostid>", 200),
        (b"<hostid>0</hostid><host_cpid>0123</host_cpid>", 307),
        (b"<hostid>-5</hostid><authenticator>\xff\xfe</authenticator>", 307),
        (b"", 307),
        (b"x" * 1001, 413),
    ],
)
def test_a_request_goes_where_its_number_says(body: bytes, status: int) -> None:
    assert ask(body) == (status, "http://127.0.0.2/cgi" if status == 307 else "")


def test_a_centre_may_serve_new_computers_itself() -> None:
    found = Counter(ask(b"<host_cpid>%d</host_cpid>" % n, centre_share=1.0)[0] for n in range(100))
    assert 30 < found[200] < 70
