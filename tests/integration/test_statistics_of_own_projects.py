"""Two projects of ours export, a statistics site collects, and the page of a volunteer shows both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import httpx
from tests.helpers.project_world import World
from tests.integration.test_export import add_host, add_user, export, say

from cobblestone.server.app import create_app as project_app
from cobblestone.statistics.collector import Collector
from cobblestone.statistics.context import StatisticsContext
from cobblestone.statistics.settings import CollectSection, StatisticsSettings
from cobblestone.statistics.state import SiteFolder
from cobblestone.statistics.web.app import create_app
from cobblestone.wire.identity import external_cpid

ANA = external_cpid("c" * 32, "ana@example.org")


def test_the_page_of_a_volunteer_shows_both_projects_until_she_takes_it_back(
    make_world: Callable[..., World], tmp_path: Path
):
    worlds = {"one": make_world(), "two": make_world()}
    apps = {
        f"http://{name}.example.org": httpx.ASGITransport(project_app(w.ctx)) for name, w in worlds.items()
    }
    for credit, world in zip((500.0, 250.0), worlds.values(), strict=True):
        ana = add_user(world, "ana", credit=credit)
        add_host(world, ana, credit=credit, host_cpid="d" * 32)
        add_user(world, "silent", agreed=False, credit=9000.0)
        export(world)
    settings = StatisticsSettings.model_validate(
        {
            "project": [
                {"name": name, "title": f"Project {name}", "url": f"http://{name}.example.org/stats/"}
                for name in worlds
            ],
            "collect": {"pause_seconds": 0},
        }
    )
    now = worlds["one"].now
    ctx = StatisticsContext(
        folder=SiteFolder(tmp_path / "site"),
        settings=settings,
        secret=b"s",
        master_url="http://stats.example.org/",
        clock=lambda: now,
    )

    def connect(collect: CollectSection) -> httpx.AsyncClient:
        return httpx.AsyncClient(mounts=dict(apps))

    collector = Collector(ctx.folder, settings, clock=ctx.clock, run=asyncio.to_thread, connect=connect)

    async def collect() -> None:
        while await collector.step():
            ctx.open_newest()

    async def page(address: str) -> httpx.Response:
        transport = httpx.ASGITransport(create_app(ctx))
        async with httpx.AsyncClient(transport=transport, base_url=ctx.master_url) as client:
            return await client.get(address)

    asyncio.run(collect())
    assert [state.problem for _source, state in collector.states()] == ["", ""]
    shown = asyncio.run(page(f"user/{ANA}")).text
    assert "Project one" in shown
    assert "Project two" in shown
    assert "750.00" in shown
    assert "silent" not in asyncio.run(page("ranking/user")).text

    for world in worlds.values():
        say(world, 1, False)
        export(world)
    now += 2 * 86400
    asyncio.run(collect())
    assert [state.problem for _source, state in collector.states()] == ["", ""]
    assert asyncio.run(page(f"user/{ANA}")).status_code == 404
