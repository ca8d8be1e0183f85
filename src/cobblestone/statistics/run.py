"""Run a statistics site: pages and collector in one process."""

from __future__ import annotations

import contextlib
import gc
import os
import socket
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path

import structlog

from cobblestone.domain.errors import ConfigError
from cobblestone.ops.clock import Clock, system_clock
from cobblestone.service.folder_lock import take_folder
from cobblestone.service.serving import address_of, announcing, run_service, serve_http
from cobblestone.service.supervision import Daemon, run_daemons
from cobblestone.statistics.collector import Collector
from cobblestone.statistics.context import StatisticsContext
from cobblestone.statistics.settings import load_settings
from cobblestone.statistics.state import SiteFolder
from cobblestone.statistics.web.app import create_app

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


def collector_daemon(ctx: StatisticsContext) -> Daemon:
    """Return the daemon that collects and publishes."""
    collector = Collector(ctx.folder, ctx.settings, clock=ctx.clock)

    async def step() -> int:
        done = await collector.step()
        ctx.open_newest()
        return done

    return Daemon(name="collector", step=step, pause=collector.pause, step_limit=STEP_LIMIT_SECONDS)


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
    """Check that a site can be run by this program.  Raises ConfigError."""
    load_settings(root)
    _read_secret(SiteFolder(root))


def _read_secret(folder: SiteFolder) -> bytes:
    try:
        return folder.secret.read_bytes()
    except OSError as error:
        raise ConfigError(f"{folder.secret} cannot be read: {error.strerror}.") from error
