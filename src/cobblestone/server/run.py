"""Run a project: web application and daemons in one process."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import socket
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager
from pathlib import Path

import structlog
import uvicorn
import uvloop

from cobblestone.domain.errors import ConfigError
from cobblestone.ops.clock import Clock, system_clock
from cobblestone.ops.service_manager import inherited_listener, notify, replace_process
from cobblestone.ops.settings import Settings
from cobblestone.server.app import create_app
from cobblestone.server.connections import close_silent_connections, connection_class
from cobblestone.server.context import ServerContext
from cobblestone.server.daemons.assimilator import Assimilator
from cobblestone.server.daemons.file_deleter import FileDeleter, Purger
from cobblestone.server.daemons.loop import run_daemon
from cobblestone.server.daemons.statistics import ScaleUpdater, StatisticsUpdater
from cobblestone.server.daemons.transitioner import Transitioner
from cobblestone.server.daemons.trickle_credit import TrickleCredit
from cobblestone.server.daemons.validator import Validator
from cobblestone.server.daemons.watcher import Watcher
from cobblestone.server.daemons.workers import Workers
from cobblestone.server.drain import DrainingServer
from cobblestone.server.plan_classes import load_plan_classes
from cobblestone.server.project import ProjectFolder, write_durably
from cobblestone.store import files
from cobblestone.store.upgrade import check_revision

log = structlog.get_logger(__name__)

DELETE_SWEEP_SECONDS = 60.0
PURGE_SWEEP_SECONDS = 600.0
STATISTICS_SWEEP_SECONDS = 3600.0
SCALE_SWEEP_SECONDS = 600.0
WATCH_SECONDS = 15.0


@contextlib.contextmanager
def open_project(
    root: Path, *, clock: Clock = system_clock, settings: Settings | None = None
) -> Generator[ServerContext, None, None]:
    """Open a project's folder exclusively: settings, lock, database.

    Raises:
        ConfigError: it is not a project, or its settings are wrong.
        Busy: another process has it open.
    """
    folder = ProjectFolder(root.resolve())
    settings = settings or folder.settings()
    load_plan_classes(folder.root)
    secret = folder.read_secret()
    with folder.lock():
        folder.make()
        files.empty_staging(folder.staging)
        store = folder.open_store(settings)
        try:
            yield ServerContext(folder=folder, settings=settings, store=store, secret=secret, clock=clock)
        finally:
            store.close()


@asynccontextmanager
async def run_daemons(ctx: ServerContext) -> AsyncGenerator[None, None]:
    """Run all daemons while the block runs."""
    ctx.bell.bind(asyncio.get_running_loop())
    workers = Workers(ctx.settings.checks)
    transitioner = Transitioner(ctx)
    tasks = [
        asyncio.create_task(coroutine, name=name)
        for name, coroutine in (
            (
                "transitioner",
                run_daemon(ctx, "transitioner", transitioner.step, pause=transitioner.until_next),
            ),
            ("validator", run_daemon(ctx, "validator", Validator(ctx, workers).step)),
            ("assimilator", run_daemon(ctx, "assimilator", Assimilator(ctx, workers).step)),
            (
                "file_deleter",
                run_daemon(ctx, "file_deleter", FileDeleter(ctx).step, sweep_seconds=DELETE_SWEEP_SECONDS),
            ),
            ("purger", run_daemon(ctx, "purger", Purger(ctx).step, sweep_seconds=PURGE_SWEEP_SECONDS)),
            (
                "statistics",
                run_daemon(
                    ctx, "statistics", StatisticsUpdater(ctx).step, sweep_seconds=STATISTICS_SWEEP_SECONDS
                ),
            ),
            ("trickles", run_daemon(ctx, "trickles", TrickleCredit(ctx).step)),
            ("watcher", run_daemon(ctx, "watcher", Watcher(ctx).step, sweep_seconds=WATCH_SECONDS)),
            ("scales", run_daemon(ctx, "scales", ScaleUpdater(ctx).step, sweep_seconds=SCALE_SWEEP_SECONDS)),
        )
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.to_thread(workers.close)


def calm_collector() -> None:
    """Let the garbage collector look at what was made since the start only, and less often.

    Requests and batches make many small values that die by themselves; searching them for cycles over and over costs a
    sixth of the validator's time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def bind_socket(host: str, port: int) -> socket.socket:
    """Open the listening socket.

    Raises:
        ConfigError: the address is in use or not ours; the text says what to do.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"Cannot listen on {host}:{port}: {error.strerror}. Stop the program that uses it, or change [server] port"
            " (and project.url) in the settings."
        ) from error
    return listener


def check_start(root: Path) -> None:
    """Check that a project can be run by this program, without touching a server that has it open.

    Raises:
        ConfigError: settings, plan classes or keys are wrong.
        StoreError: the database is not one that this program understands.
    """
    folder = ProjectFolder(root.resolve())
    folder.settings()
    load_plan_classes(folder.root)
    folder.read_secret()
    check_revision(folder.database)


def serve(root: Path, *, ready: Callable[[ServerContext], None] | None = None) -> None:
    """Run a project until it is told to stop (SIGINT, SIGTERM); SIGHUP begins anew without losing a connection.

    Raises:
        ConfigError: settings, folder or port are wrong.
        Busy: another process has the project open.
    """
    inherited = inherited_listener()
    with open_project(root) as ctx:
        address = ctx.settings.server
        with contextlib.ExitStack() as stack:
            listener = stack.enter_context(inherited or bind_socket(address.host, address.port))
            # The server closes its own copy as soon as it ends; in this one connections wait for whoever comes next.
            held = stack.enter_context(listener.dup())
            runner = stack.enter_context(asyncio.Runner(loop_factory=uvloop.new_event_loop))
            again = runner.run(_serve(ctx, listener, ready))
            if again:
                stack.pop_all()
    if again:
        replace_process(held)


async def _serve(
    ctx: ServerContext, listener: socket.socket, ready: Callable[[ServerContext], None] | None
) -> bool:
    """Serve until the end; whether to begin again."""
    ctx.started = ctx.clock()
    calm_collector()
    drain_seconds = ctx.settings.server.drain_seconds
    server = DrainingServer(
        uvicorn.Config(
            create_app(ctx),
            http=connection_class(ctx.settings.server.max_connections),
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=max(1, int(drain_seconds)),
            lifespan="off",
            proxy_headers=bool(ctx.settings.server.trusted_proxies),
            forwarded_allow_ips=ctx.settings.server.trusted_proxies,
        ),
        ctx,
    )
    async with run_daemons(ctx):
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        guard = asyncio.create_task(close_silent_connections(server, ctx.settings.server.idle_seconds))
        while not server.started and not serving.done():  # noqa: ASYNC110  # uvicorn offers no event for it
            await asyncio.sleep(0.01)
        server.listen_to_signals()
        running = {"url": ctx.master_url, "pid": os.getpid(), "started": ctx.started}
        write_durably(ctx.folder.run_file, json.dumps(running).encode())
        log.info("project_running", url=ctx.master_url, folder=str(ctx.folder.root))
        notify("READY=1")
        if ready is not None:
            ready(ctx)
        try:
            await serving
        finally:
            guard.cancel()
            notify("RELOADING=1" if server.restart else "STOPPING=1")
            ctx.folder.run_file.unlink(missing_ok=True)
    log.info("project_stopped", folder=str(ctx.folder.root))
    return server.restart
