"""The folder of a statistics site over two projects that do not exist, with some days of history."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
from tests.helpers.statistics_exports import DAY, Export, cpid, host, next_day, population, team, user

from cobblestone.domain.exports import BadgeHolder, ExportedBadge
from cobblestone.statistics.folder import CollectedProject, CollectedSource, SiteFolder, StatisticsSettings
from cobblestone.statistics.ingest import ingest
from cobblestone.statistics.run import create_app
from cobblestone.statistics.store.build import PublishedProject, build
from cobblestone.statistics.web.site import StatisticsContext

NOON = 20_000 * DAY + DAY / 2
ALICE = cpid("alice")
N_DAYS = 5
MARKUP = "<img src=http://evil.example.net/x.png>"
BADGES = [
    ExportedBadge(id=1, name="top", title=MARKUP, image_url="http://evil.example.net/x.png"),
    ExportedBadge(id=2, name="fast", title="Fast & steady", image_url="img/fast.png"),
]


class Client:
    """Asks an application."""

    def __init__(self, ctx: StatisticsContext) -> None:
        self._app, self._base = create_app(ctx), ctx.master_url

    def get(self, address: str, **wishes: Any) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self._app)
            async with httpx.AsyncClient(transport=transport, base_url=self._base) as client:
                return await client.get(address, **{"headers": {"Accept": "text/html"}, **wishes})

        return asyncio.run(ask())


def two_exports() -> dict[str, Export]:
    one = population(1, n_users=60, time=NOON)
    alice = user(900, "Alice <b>", 9_900, NOON, cpid=ALICE, recent=150, team=1, country="France")
    bob = user(901, "Bob", 10_000, NOON, recent=100)
    formulas = [user(902 + place, f"{sign}SUM(A1:A9)", 1, NOON) for place, sign in enumerate("=+-@")]
    return {
        "one": Export(
            NOON,
            [*one.users, alice, bob, *formulas],
            [*one.hosts, host(900, 900, 50, NOON)],
            [*one.teams, replace(team(77, "Our team", 1, NOON), type=6)],
            badges=BADGES,
            user_badges=[BadgeHolder(900, 1, NOON - DAY), BadgeHolder(900, 2, NOON)],
            team_badges=[BadgeHolder(77, 2, NOON)],
        ),
        "two": Export(
            NOON,
            [user(7, "alice <B>", 500, NOON, cpid=ALICE, recent=10)],
            teams=[replace(team(1, "our  TEAM", 5, NOON), type=99)],
        ),
    }


def open_filled_site(root: Path, url: str) -> StatisticsContext:
    """Alice has accounts at both projects and computers; the two projects have 60 others."""
    folder = SiteFolder(root)
    sources = tuple(
        CollectedSource(name=name, title=f"{name.title()}@home", url=f"http://{name}.example.org/")
        for name in two_exports()
    )
    now = NOON
    for name, first in two_exports().items():
        export = first
        project = folder.project(name)
        for _ in range(N_DAYS):
            export.write(project.incoming)
            before = project.read_state()
            came = ingest(
                project,
                before.generation,
                now=export.time,
                max_rows=10**6,
                url=f"http://{name}.example.org/stats/",
            )
            project.write_state(
                CollectedProject(
                    generation=came.generation, exported=export.time, counts=came.counts, tried=1.0
                )
            )
            now, export = export.time, next_day(export)
    members = [
        PublishedProject(
            number=n, source=source, rows=project.rows(project.read_state().generation), exported=now
        )
        for n, source in enumerate(sources, 1)
        for project in [folder.project(source.name)]
    ]
    build(folder, members, now=now - DAY)
    build(folder, members, now=now)
    settings = StatisticsSettings(project=sources)
    ctx = StatisticsContext(
        folder=folder, settings=settings, secret=b"s" * 32, master_url=url, clock=lambda: now
    )
    ctx.open_newest()
    return ctx
