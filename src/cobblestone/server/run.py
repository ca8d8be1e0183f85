"""Run a project: web application and daemons in one process, or some of them in each of several."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog
import uvicorn
import uvloop

from cobblestone.domain.errors import ConfigError, StoreError
from cobblestone.ops.clock import Clock, system_clock
from cobblestone.ops.durable_files import write_durably
from cobblestone.ops.service_manager import inherited_listener, notify, replace_process
from cobblestone.ops.settings import Settings
from cobblestone.server.accounts.account_daemon import AccountKeeper, AppCreditFollower
from cobblestone.server.app import create_app
from cobblestone.server.core.context import ServerContext
from cobblestone.server.core.plan_classes import load_plan_classes
from cobblestone.server.core.project import ProjectFolder
from cobblestone.server.core.roles import ALL_ROLES, HTTP_ROLES, WATCHER, Role
from cobblestone.server.credit.trickle_daemon import TrickleCredit
from cobblestone.server.daemons.assimilator import Assimilator
from cobblestone.server.daemons.file_deleter import FileDeleter, Purger
from cobblestone.server.daemons.loop import SWEEP_SECONDS, run_daemon
from cobblestone.server.daemons.statistics import ScaleUpdater, StatisticsUpdater
from cobblestone.server.daemons.transitioner import Transitioner
from cobblestone.server.daemons.validator import Validator
from cobblestone.server.daemons.workers import Workers
from cobblestone.server.http.drain import DrainingServer
from cobblestone.server.operation.alert_daemon import Watcher
from cobblestone.server.operation.mailer import Mailer
from cobblestone.server.operation.processes import BEAT_SECONDS, Heartbeat
from cobblestone.service.http.connections import close_silent_connections, connection_class
from cobblestone.store.schema.upgrade import check_revision
from cobblestone.store.work import files

log = structlog.get_logger(__name__)

DELETE_SWEEP_SECONDS = 60.0
PURGE_SWEEP_SECONDS = 600.0
STATISTICS_SWEEP_SECONDS = 3600.0
SCALE_SWEEP_SECONDS = 600.0
ACCOUNT_SWEEP_SECONDS = 600.0
TOP_LIST_SWEEP_SECONDS = 30.0
WATCH_SECONDS = 15.0
STAGED_SECONDS = 86400.0
"""What lies in the staging folder for so long belongs to no process any more."""


@contextlib.contextmanager
def open_project(
    root: Path, *, clock: Clock = system_clock, settings: Settings | None = None
) -> Generator[ServerContext, None, None]:
    """Open a project's folder: settings, lock, database.  On SQLite nobody else may have it open.

    Raises:
        ConfigError: it is not a project, or its settings are wrong.
        Busy: another process has it open.
    """
    folder = ProjectFolder(root.resolve())
    settings = settings or folder.settings()
    load_plan_classes(folder.root)
    secret = folder.read_secret()
    several = bool(settings.database.url)
    with folder.lock(shared=several):
        folder.make()
        files.empty_staging(folder.staging, older_than=STAGED_SECONDS if several else 0.0)
        store = folder.open_store(settings)
        try:
            ctx = ServerContext(folder=folder, settings=settings, store=store, secret=secret, clock=clock)
            try:
                yield ctx
            finally:
                ctx.crew.close()
        finally:
            store.close()


Step = Callable[[], Awaitable[int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """What `run_daemon` needs to run one."""

    name: str
    step: Step
    pause: Callable[[], Awaitable[float]] | None = None
    sweep_seconds: float = SWEEP_SECONDS


def _daemons(ctx: ServerContext, workers: Workers, roles: frozenset[Role]) -> Iterator[Daemon]:
    """The daemons of some roles."""
    if Role.TRANSITIONER in roles:
        transitioner = Transitioner(ctx)
        yield Daemon(name=Role.TRANSITIONER, step=transitioner.step, pause=transitioner.until_next)
    if Role.VALIDATOR in roles:
        yield Daemon(name=Role.VALIDATOR, step=Validator(ctx, workers).step)
    if Role.ASSIMILATOR in roles:
        yield Daemon(name=Role.ASSIMILATOR, step=Assimilator(ctx, workers).step)
    if Role.FILE_DELETER in roles:
        step = _in_turn(ctx, Role.FILE_DELETER, FileDeleter(ctx).step)
        yield Daemon(name=Role.FILE_DELETER, step=step, sweep_seconds=DELETE_SWEEP_SECONDS)
    if Role.PURGER in roles:
        step = _in_turn(ctx, Role.PURGER, Purger(ctx).step)
        yield Daemon(name=Role.PURGER, step=step, sweep_seconds=PURGE_SWEEP_SECONDS)
    if Role.STATISTICS in roles:
        for name, daemon, seconds in (
            ("statistics", StatisticsUpdater(ctx), STATISTICS_SWEEP_SECONDS),
            ("trickles", TrickleCredit(ctx), SWEEP_SECONDS),
            ("scales", ScaleUpdater(ctx), SCALE_SWEEP_SECONDS),
            ("mailer", Mailer(ctx), SWEEP_SECONDS),
            ("accounts", AccountKeeper(ctx), ACCOUNT_SWEEP_SECONDS),
            ("top_lists", AppCreditFollower(ctx), TOP_LIST_SWEEP_SECONDS),
        ):
            yield Daemon(name=name, step=_in_turn(ctx, Role.STATISTICS, daemon.step), sweep_seconds=seconds)
    if Role.WEB in roles:
        yield Daemon(name=WATCHER, step=Watcher(ctx).step, sweep_seconds=WATCH_SECONDS)


def _in_turn(ctx: ServerContext, role: Role, step: Step) -> Step:
    """A step that only one process of the project takes; the others have nothing to do."""

    async def in_turn() -> int:
        with ctx.crew.working(role) as turn:
            return 0 if turn == () else await step()

    return in_turn


@asynccontextmanager
async def run_daemons(ctx: ServerContext, roles: frozenset[Role] = ALL_ROLES) -> AsyncGenerator[None, None]:
    """Run the daemons of some roles while the block runs."""
    ctx.bell.bind(asyncio.get_running_loop())
    workers = Workers(ctx.settings.checks)
    heartbeat = Heartbeat(ctx, roles)
    tasks = [
        asyncio.create_task(
            run_daemon(ctx, daemon.name, daemon.step, pause=daemon.pause, sweep_seconds=daemon.sweep_seconds),
            name=daemon.name,
        )
        for daemon in (
            *_daemons(ctx, workers, roles),
            Daemon(name="heartbeat", step=heartbeat.step, sweep_seconds=BEAT_SECONDS),
        )
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.to_thread(workers.close)
        with contextlib.suppress(StoreError):  # the database has gone: the others will miss us
            await heartbeat.end()


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
    settings = folder.settings()
    load_plan_classes(folder.root)
    folder.read_secret()
    check_revision(settings.database.url or folder.database)


def serve(
    root: Path,
    *,
    roles: frozenset[Role] = ALL_ROLES,
    host: str | None = None,
    port: int | None = None,
    ready: Callable[[ServerContext], None] | None = None,
) -> None:
    """Run a project until it is told to stop (SIGINT, SIGTERM); SIGHUP begins anew without losing a connection.

    ``host`` and ``port`` replace those of the settings.  A process without a role that clients or people ask for takes
    any port, for its health and metrics only.

    Raises:
        ConfigError: settings, folder or port are wrong, or SQLite shall be shared.
        Busy: another process has the project open.
    """
    inherited = inherited_listener()
    with open_project(root) as ctx:
        if roles != ALL_ROLES and not ctx.settings.database.url:
            raise ConfigError(
                "--role: a SQLite project runs in one process, with all roles. Move it to PostgreSQL first:"
                f" cobblestone project move {root} --to postgresql://USER@HOST/DATABASE"
            )
        address = ctx.settings.server
        if port is None:
            port = address.port if roles & HTTP_ROLES else 0
        if host is None:
            host = address.host if roles & HTTP_ROLES else "127.0.0.1"
        with contextlib.ExitStack() as stack:
            listener = stack.enter_context(inherited or bind_socket(host, port))
            # The server closes its own copy as soon as it ends; in this one connections wait for whoever comes next.
            held = stack.enter_context(listener.dup())
            runner = stack.enter_context(asyncio.Runner(loop_factory=uvloop.new_event_loop))
            again = runner.run(_serve(ctx, listener, roles, ready))
            if again:
                stack.pop_all()
    if again:
        replace_process(held)


async def _serve(
    ctx: ServerContext,
    listener: socket.socket,
    roles: frozenset[Role],
    ready: Callable[[ServerContext], None] | None,
) -> bool:
    """Serve until the end; whether to begin again."""
    ctx.started = ctx.clock()
    calm_collector()
    drain_seconds = ctx.settings.server.drain_seconds
    server = DrainingServer(
        uvicorn.Config(
            create_app(ctx, roles),
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
    await asyncio.to_thread(ctx.join_crew, roles)
    async with run_daemons(ctx, roles):
        # Before the first answer, so that whoever sees the server answer also finds its address.
        running = {"url": ctx.master_url, "pid": os.getpid(), "started": ctx.started}
        if Role.WEB in roles:
            write_durably(ctx.folder.run_file, json.dumps(running).encode())
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        guard = asyncio.create_task(close_silent_connections(server, ctx.settings.server.idle_seconds))
        while not server.started and not serving.done():  # noqa: ASYNC110  # uvicorn offers no event for it
            await asyncio.sleep(0.01)
        server.listen_to_signals()
        log.info(
            "project_running",
            url=ctx.master_url,
            folder=str(ctx.folder.root),
            roles=sorted(roles),
            port=listener.getsockname()[1],
        )
        notify("READY=1")
        if ready is not None:
            ready(ctx)
        try:
            await serving
        finally:
            guard.cancel()
            notify("RELOADING=1" if server.restart else "STOPPING=1")
            if Role.WEB in roles:
                ctx.folder.run_file.unlink(missing_ok=True)
    log.info("project_stopped", folder=str(ctx.folder.root))
    return server.restart
