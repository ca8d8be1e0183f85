"""Run a statistics site: pages, metrics at ``/metrics`` and the collector in one process."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Generator, Mapping
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute

from cobblestone.domain.errors import StoreError
from cobblestone.ops.environment import Clock, system_clock
from cobblestone.ops.metrics import COMMON_METRICS, Figures, MetricInfo
from cobblestone.service.http.application import application
from cobblestone.service.http.monitoring import WATCHED, Monitoring
from cobblestone.service.pages.pages import LanguagePages
from cobblestone.service.serving import Service
from cobblestone.service.supervision import DaemonTask, run_daemons
from cobblestone.statistics.collector import ExportCollector
from cobblestone.statistics.folder import SiteFolder, load_settings
from cobblestone.statistics.web.entities import EntityPages, SignaturePages
from cobblestone.statistics.web.overview import OverviewPages, RankingPages
from cobblestone.statistics.web.site import StatisticsContext, StatisticsSite

METRICS: Mapping[str, MetricInfo] = {
    **COMMON_METRICS,
    "published_seconds": MetricInfo("gauge", "Unix time of the figures shown on pages; 0: there are none."),
    "project_exported_seconds": MetricInfo("gauge", "Unix time of the figures of a project.", "project"),
    "project_failed": MetricInfo(
        "gauge", "1: the last attempt to collect from the project failed; 0: it did not.", "project"
    ),
    "project_records": MetricInfo("gauge", "Current users, computers and teams of a project.", "project"),
}


def site_monitoring(ctx: StatisticsContext) -> Monitoring:
    """Return what answers those who watch a statistics site."""

    async def ask() -> None:
        if await ctx.read(lambda published: published.projects) is None:
            raise StoreError("no project's figures have come in yet")

    async def figures() -> Figures:
        states = await asyncio.to_thread(
            lambda: {
                source.name: ctx.folder.project(source.name).read_state() for source in ctx.settings.project
            }
        )
        published = ctx.published
        return {
            "published_seconds": published.time if published else 0.0,
            "project_exported_seconds": {name: state.exported for name, state in states.items()},
            "project_failed": {name: float(bool(state.problem)) for name, state in states.items()},
            "project_records": {
                name: state.counts.users + state.counts.hosts + state.counts.teams
                for name, state in states.items()
            },
        }

    return Monitoring(ctx, ctx.folder.root, ask_database=ask, described=METRICS, own_figures=figures)


def create_app(ctx: StatisticsContext) -> Starlette:
    """Create the application, below the path of the site's address."""
    site = StatisticsSite(ctx)
    routes: list[BaseRoute] = [
        site.static_route(),
        *site_monitoring(ctx).routes(),
        *OverviewPages(site).routes(),
        *LanguagePages(site).routes(),
        *RankingPages(site).routes(),
        *SignaturePages(site).routes(),
        *EntityPages(site).routes(),
    ]
    return application(
        ctx,
        routes,
        part_of=lambda path: "health" if path in WATCHED else "web",
        handlers={HTTPException: site.http_error},
    )


#: One project with the largest files over a slow line.
STEP_LIMIT_SECONDS = 12 * 3600.0


@contextlib.contextmanager
def open_site(root: Path, *, clock: Clock = system_clock) -> Generator[StatisticsContext, None, None]:
    """Open a site's folder.

    Raises:
        ConfigError: it is none, or its settings are wrong.
        Busy: another process has it open.
    """
    settings = load_settings(root)
    folder = SiteFolder(root.resolve())
    secret = _read_secret(folder)
    with folder.lock():
        ctx = StatisticsContext(
            folder=folder, settings=settings, secret=secret, master_url=settings.site.url, clock=clock
        )
        ctx.open_newest()
        try:
            yield ctx
        finally:
            if ctx.published is not None:
                ctx.published.close()
            gc.unfreeze()  # else DuckDB complains at the end of what was not collected


def collector_daemon(ctx: StatisticsContext) -> DaemonTask:
    """Return the daemon that collects and publishes exports."""
    collector = ExportCollector(ctx.folder, ctx.settings, clock=ctx.clock)

    async def step() -> int:
        done = await collector.step()
        ctx.open_newest()
        return done

    return DaemonTask(name="collector", step=step, pause=collector.pause, step_limit=STEP_LIMIT_SECONDS)


def check_start(root: Path) -> None:
    """Check that this program can run a site.  Raises ConfigError."""
    load_settings(root)
    _read_secret(SiteFolder(root))


def _read_secret(folder: SiteFolder) -> bytes:
    return folder.secret.read_bytes()


STATISTICS_SERVICE = Service(
    running="statistics_running",
    stopped="statistics_stopped",
    command=("statistics", "run"),
    open=open_site,
    server=lambda ctx: ctx.settings.server,
    app=create_app,
    daemons=lambda ctx: run_daemons(ctx, [collector_daemon(ctx)]),
)
