"""A scheduler to which more come than it can serve: whoever is sent away loses nothing, and comes again later."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from tests.helpers.project_world import World
from tests.helpers.wire_elements import read_elements
from tests.helpers.wire_requests import written_request

from cobblestone.server.scheduler import endpoint


@pytest.mark.both_databases
def test_whoever_is_sent_away_hears_when_to_come_again_and_reports_then(
    make_world, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(endpoint, "PLACES", 1)
    monkeypatch.setattr(endpoint, "MAX_WAITING", 1)
    world: World = make_world()
    world.add_jobs(world.add_app())
    world.settle()
    worker = world.host(world.user("ada"))
    worker.rpc(ask=1)
    (name,) = worker.new_results()
    report = worker.finish(name, b"answer")
    others = [world.host(world.user(f"u{i}")) for i in range(6)]

    async def all_at_once() -> list[httpx.Response]:
        bodies = [written_request(other.request) for other in others]
        return await asyncio.gather(*(world.http.post("/cgi-bin/cgi", content=body) for body in bodies))

    replies = [read_elements(answer.content) for answer in world.run(all_at_once())]
    sent_away = [reply for reply in replies if not reply.has("hostid")]
    assert 1 <= len(sent_away) <= 4
    assert all(45 <= float(reply.get("request_delay")) <= 600 for reply in sent_away)
    assert world.value("SELECT COUNT(*) FROM host") == 1 + len(replies) - len(sent_away)
    assert worker.rpc(reports=[report]).all("result_ack")
