"""Two projects of ours export, a statistics site collects, and the page of a volunteer shows both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import httpx
import pytest
from tests.helpers.manager_world import ManagerWorld
from tests.helpers.project_world import World
from tests.integration.test_account_manager import add, settle
from tests.integration.test_export import add_host, add_user, export, say

from cobblestone.account_manager.store import accounts
from cobblestone.server.app import create_app as project_app
from cobblestone.statistics.collector import ExportCollector
from cobblestone.statistics.folder import CollectSection, SiteFolder, StatisticsSettings
from cobblestone.statistics.run import create_app
from cobblestone.statistics.web.site import StatisticsContext
from cobblestone.wire.project.account import external_cpid

ANA = external_cpid("c" * 32, "ana@example.org")


class ProjectsByHost(httpx.AsyncBaseTransport):
    """Several projects, each under its own name."""

    def __init__(self, worlds: Mapping[str, World]) -> None:
        self._apps = {
            f"{name}.example.org": httpx.ASGITransport(project_app(world.ctx))
            for name, world in worlds.items()
        }

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await self._apps[request.url.host].handle_async_request(request)


class Site:
    """A statistics site over two projects."""

    def __init__(self, worlds: Mapping[str, World], root: Path) -> None:
        settings = StatisticsSettings.model_validate(
            {
                "project": [
                    {"name": name, "title": f"Project {name}", "url": f"http://{name}.example.org/stats/"}
                    for name in worlds
                ],
                "collect": {"pause_seconds": 0},
            }
        )
        self.now = worlds["one"].now
        self.ctx = StatisticsContext(
            folder=SiteFolder(root),
            settings=settings,
            secret=b"s",
            master_url="http://stats.example.org/",
            clock=lambda: self.now,
        )
        self.transport = ProjectsByHost(worlds)
        self._collector = ExportCollector(
            self.ctx.folder, settings, clock=self.ctx.clock, run=asyncio.to_thread, connect=self._connect
        )

    def _connect(self, collect: CollectSection) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=self.transport)

    def collect(self) -> None:
        async def steps() -> None:
            while await self._collector.step():
                self.ctx.open_newest()

        asyncio.run(steps())
        known = self.ctx.folder.known_projects()
        assert [project.read_state().problem for project in known] == ["", ""]

    def page(self, address: str) -> httpx.Response:
        async def get() -> httpx.Response:
            transport = httpx.ASGITransport(create_app(self.ctx))
            async with httpx.AsyncClient(transport=transport, base_url=self.ctx.master_url) as client:
                return await client.get(address)

        return asyncio.run(get())


@pytest.fixture
def worlds(make_world: Callable[..., World]) -> dict[str, World]:
    return {"one": make_world(), "two": make_world()}


def test_the_page_of_a_volunteer_shows_both_projects_until_she_takes_it_back(
    worlds: dict[str, World], tmp_path: Path
):
    for credit, world in zip((500.0, 250.0), worlds.values(), strict=True):
        ana = add_user(world, "ana", credit=credit)
        add_host(world, ana, credit=credit, host_cpid="d" * 32)
        add_user(world, "silent", agreed=False, credit=9000.0)
        export(world)
    site = Site(worlds, tmp_path / "site")
    site.collect()
    shown = site.page(f"user/{ANA}").text
    assert "Project one" in shown
    assert "Project two" in shown
    assert "750.00" in shown
    assert "silent" not in site.page("ranking/user").text

    for world in worlds.values():
        say(world, 1, False)
        export(world)
    site.now += 2 * 86400
    site.collect()
    assert site.page(f"user/{ANA}").status_code == 404


@pytest.fixture
def manager(worlds: dict[str, World], tmp_path: Path) -> Iterator[ManagerWorld]:
    made = ManagerWorld(tmp_path / "manager", projects_http=ProjectsByHost(worlds))
    yield made
    made.close()


def test_accounts_that_an_account_manager_made_are_one_person_until_she_takes_it_back(
    worlds: dict[str, World], manager: ManagerWorld, tmp_path: Path
):
    for name in worlds:
        add(manager, f"http://{name}.example.org/")
    manager.join()
    settle(manager)
    manager.post("sharing.php", statistics="1", team_name="")
    settle(manager)
    found = manager.read(lambda db: accounts.account_by_email(db, "ann@example.org"))
    ann = external_cpid(found[0].cross_project_id, "ann@example.org")
    for world in worlds.values():
        world.write(lambda tx: tx.execute("UPDATE user_account SET total_credit = 300.0"))
        export(world)
    site = Site(worlds, tmp_path / "site")
    site.collect()
    assert "600.00" in site.page(f"user/{ann}").text

    manager.post("sharing.php", team_name="")
    settle(manager)
    for world in worlds.values():
        assert world.value("SELECT agreed FROM consent ORDER BY id DESC LIMIT 1") == 0
        export(world)
    site.now += 2 * 86400
    site.collect()
    assert site.page(f"user/{ann}").status_code == 404
