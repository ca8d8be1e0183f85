"""Run a statistics site: pages, metrics at ``/metrics`` and the collector in one process."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import socket
from collections.abc import Callable, Generator, Mapping
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Mount

from cobblestone.domain.errors import ConfigError, StoreError
from cobblestone.ops.environment import Clock, system_clock
from cobblestone.ops.metrics import COMMON_METRICS, MetricInfo
from cobblestone.service.folder import take_folder
from cobblestone.service.http import monitoring
from cobblestone.service.http.monitoring import WATCHED
from cobblestone.service.http.requests import RequestMiddleware
from cobblestone.service.serving import address_of, announcing, run_service, serve_http
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


class StatisticsMonitoring(monitoring.Monitoring):
    """Answers monitoring requests about a statistics site."""

    described = METRICS

    def __init__(self, ctx: StatisticsContext) -> None:
        async def ask() -> None:
            if await ctx.read(lambda published: published.projects) is None:
                raise StoreError("no figures have come in from any project yet")

        super().__init__(ctx, ask, folder=ctx.folder.root)
        self._ctx = ctx

    async def own_figures(self) -> dict[str, float | Mapping[str, float]]:
        """Return values that only a statistics site has."""
        ctx = self._ctx
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


def create_app(ctx: StatisticsContext) -> Starlette:
    """Create the application, below the path of the site's address."""
    site = StatisticsSite(ctx)
    routes: list[BaseRoute] = [
        site.static_route(),
        *StatisticsMonitoring(ctx).routes(),
        *OverviewPages(site).routes(),
        *RankingPages(site).routes(),
        *SignaturePages(site).routes(),
        *EntityPages(site).routes(),
    ]
    prefix = urlsplit(ctx.master_url).path.rstrip("/")

    def part_of(path: str) -> str:
        return "health" if path.removeprefix(prefix) in WATCHED else "web"

    app = Starlette(
        routes=[Mount(prefix, routes=routes)] if prefix else routes,
        middleware=[Middleware(RequestMiddleware, ctx=ctx, part_of=part_of, busy={})],
        exception_handlers={HTTPException: site.http_error},
    )
    app.state.ctx = ctx
    return app


log = structlog.get_logger(__name__)

STEP_LIMIT_SECONDS = 12 * 3600.0
"""One project with the largest files over a slow line."""


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
    with take_folder(folder.root, folder.lock, what="statistics site"):
        ctx = StatisticsContext(
            folder=folder, settings=settings, secret=secret, master_url=settings.site.url, clock=clock
        )
        ctx.open_newest()
        try:
            yield ctx
        finally:
            if ctx.published is not None:
                ctx.published.close()
            gc.unfreeze()  # else DuckDB complains at the end of what nobody collected


def collector_daemon(ctx: StatisticsContext) -> DaemonTask:
    """Return the daemon that collects and publishes exports."""
    collector = ExportCollector(ctx.folder, ctx.settings, clock=ctx.clock)

    async def step() -> int:
        done = await collector.step()
        ctx.open_newest()
        return done

    return DaemonTask(name="collector", step=step, pause=collector.pause, step_limit=STEP_LIMIT_SECONDS)


def serve(
    root: Path,
    *,
    host: str | None,
    port: int | None,
    ready: Callable[[StatisticsContext], None] | None = None,
) -> None:
    """Run a site until it is told to stop (SIGINT, SIGTERM).  Raises ConfigError, Busy."""

    run_service(
        open_site(root), lambda ctx: address_of(ctx.settings.server, host, port), partial(_serve, ready=ready)
    )


async def _serve(
    ctx: StatisticsContext, listener: socket.socket, *, ready: Callable[[StatisticsContext], None] | None
) -> bool:
    app = create_app(ctx)
    folder = str(ctx.folder.root)
    started = announcing(ctx, ready, "statistics_running", folder=folder, pid=os.getpid())
    check = ("statistics", "run", "--check", folder)
    async with run_daemons(ctx, [collector_daemon(ctx)]):
        again = await serve_http(ctx, app, listener, ctx.settings.server, check=check, started=started)
    log.info("statistics_stopped", folder=folder)
    return again


def check_start(root: Path) -> None:
    """Check that this program can run a site.  Raises ConfigError."""
    load_settings(root)
    _read_secret(SiteFolder(root))


def _read_secret(folder: SiteFolder) -> bytes:
    try:
        return folder.secret.read_bytes()
    except OSError as error:
        raise ConfigError(f"{folder.secret} cannot be read: {error.strerror}.") from error
