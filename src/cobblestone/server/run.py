"""Run a project: web application and daemons in one process, or divided among several."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import socket
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec

from cobblestone import __version__
from cobblestone.domain.errors import ConfigError, StoreError
from cobblestone.ops.environment import Clock, system_clock, typed_word
from cobblestone.ops.files import write_durably
from cobblestone.ops.running import RunningServer, begun, read_note
from cobblestone.server.api.submission.webhooks import tell
from cobblestone.server.app import create_app
from cobblestone.server.core.comparisons import comparison_kinds
from cobblestone.server.core.context import ServerContext
from cobblestone.server.core.plan_classes import load_plan_classes
from cobblestone.server.core.project import ProjectFolder
from cobblestone.server.core.roles import ALL_ROLES, HTTP_ROLES, WATCHER, Role
from cobblestone.server.credit.trickle_daemon import TrickleCredit
from cobblestone.server.daemons import housekeeping
from cobblestone.server.daemons.assimilator import Assimilator
from cobblestone.server.daemons.file_deleter import delete_files, follow_archive, purge
from cobblestone.server.daemons.storage_proofs import check_storage
from cobblestone.server.daemons.transitioner import Transitioner
from cobblestone.server.daemons.validator import Validator
from cobblestone.server.daemons.workers import Workers
from cobblestone.server.operation.alerts import Watcher
from cobblestone.service import supervision
from cobblestone.service.mail import Mailer
from cobblestone.service.serving import Service, run_service
from cobblestone.store.catalog import files

DELETE_SWEEP_SECONDS = 60.0
PURGE_SWEEP_SECONDS = 600.0
STATISTICS_SWEEP_SECONDS = 3600.0
SCALE_SWEEP_SECONDS = 600.0
ACCOUNT_SWEEP_SECONDS = 600.0
TOP_LIST_SWEEP_SECONDS = 30.0
HISTORY_SWEEP_SECONDS = 30.0
EXPORT_SWEEP_SECONDS = 300.0
WATCH_SECONDS = 15.0
#: For steps that handle a batch and wait for nothing else: readiness shall know soon that one hangs.
SHORT_STEP_SECONDS = 30.0
FAREWELL_SECONDS = 5.0
#: What lies in the staging folder for so long belongs to no process any more.
STAGED_SECONDS = 86400.0


@contextlib.contextmanager
def open_project(root: Path, *, clock: Clock = system_clock) -> Generator[ServerContext, None, None]:
    """Open a project's folder: settings, lock, database.  With SQLite, no other process may have it open.

    Raises:
        ConfigError: it is not a project, or its settings are wrong.
        Busy: another process has it open.
    """
    folder = ProjectFolder(root.resolve())
    settings = folder.settings()
    load_plan_classes(folder.root)
    secret = folder.read_secret()
    several = bool(settings.database.url)
    with folder.lock(shared=several), contextlib.ExitStack() as stack:
        folder.make()
        files.empty_staging(folder.staging, older_than=STAGED_SECONDS if several else 0.0)
        store = stack.enter_context(contextlib.closing(folder.open_store(settings)))
        ctx = ServerContext(
            folder=folder,
            settings=settings,
            store=store,
            secret=secret,
            master_url=settings.project.url,
            clock=clock,
        )
        stack.callback(ctx.processes.close)
        yield ctx


def _statistics(ctx: ServerContext) -> Iterator[tuple[str, supervision.Step, float]]:
    """Yield names, steps and sweeps of the daemons that keep sums, lists, mails and accounts."""
    mailer = Mailer(ctx, ctx.settings.mail, ctx.folder.root)
    yield "statistics", housekeeping.StatisticsUpdater(ctx).step, STATISTICS_SWEEP_SECONDS
    yield "trickles", TrickleCredit(ctx).step, supervision.SWEEP_SECONDS
    yield "scales", partial(housekeeping.set_scales, ctx), SCALE_SWEEP_SECONDS
    yield mailer.name, mailer.step, supervision.SWEEP_SECONDS
    yield "webhooks", partial(tell, ctx), supervision.SWEEP_SECONDS
    yield "accounts", partial(housekeeping.keep_accounts, ctx), ACCOUNT_SWEEP_SECONDS
    yield "top_lists", partial(housekeeping.follow_app_credit, ctx), TOP_LIST_SWEEP_SECONDS
    yield "history", housekeeping.HistoryKeeper(ctx).step, HISTORY_SWEEP_SECONDS
    yield "badges", housekeeping.BadgeKeeper(ctx).step, STATISTICS_SWEEP_SECONDS
    if ctx.settings.contributions.storage:
        yield "storage", partial(check_storage, ctx), ACCOUNT_SWEEP_SECONDS
    if ctx.settings.contributions.network:
        yield "transfers", partial(housekeeping.count_transfers, ctx), HISTORY_SWEEP_SECONDS
    every = ctx.settings.export.every_seconds or math.inf
    yield "exporter", partial(housekeeping.export_if_due, ctx), min(EXPORT_SWEEP_SECONDS, every / 5)


def _in_turn(
    ctx: ServerContext, roles: frozenset[Role]
) -> Iterator[tuple[Role, str, supervision.Step, float]]:
    """Yield daemons that run in one process at a time, with the role that they belong to."""
    if Role.FILE_DELETER in roles:
        yield Role.FILE_DELETER, Role.FILE_DELETER, partial(delete_files, ctx), DELETE_SWEEP_SECONDS
    if Role.PURGER in roles:
        yield Role.PURGER, Role.PURGER, partial(purge, ctx), PURGE_SWEEP_SECONDS
    if Role.STATISTICS in roles:
        for name, step, seconds in _statistics(ctx):
            yield Role.STATISTICS, name, step, seconds


def _daemons(
    ctx: ServerContext, workers: Workers, roles: frozenset[Role]
) -> Iterator[supervision.DaemonTask]:
    """Yield the daemons of some roles."""
    if Role.TRANSITIONER in roles:
        finishes = {Role.VALIDATOR, Role.ASSIMILATOR, Role.FILE_DELETER} <= roles
        transitioner = Transitioner(ctx, finishes=finishes)
        yield supervision.DaemonTask(
            name=Role.TRANSITIONER,
            step=transitioner.step,
            pause=transitioner.until_next,
            step_limit=SHORT_STEP_SECONDS,
        )
    for role, daemon in ((Role.VALIDATOR, Validator), (Role.ASSIMILATOR, Assimilator)):
        if role in roles:
            step = daemon(ctx, workers).step
            yield supervision.DaemonTask(name=role, step=step, step_limit=SHORT_STEP_SECONDS)
    for role, name, step, seconds in _in_turn(ctx, roles):
        turn = supervision.in_turn(ctx.processes, role, step)
        yield supervision.DaemonTask(name=name, step=turn, sweep_seconds=seconds)
    if Role.WEB in roles:
        if ctx.archive.parts is not None:
            step = partial(follow_archive, ctx)
            yield supervision.DaemonTask(name="archive", step=step, sweep_seconds=PURGE_SWEEP_SECONDS)
        yield supervision.DaemonTask(name=WATCHER, step=Watcher(ctx).step, sweep_seconds=WATCH_SECONDS)


@asynccontextmanager
async def _project_daemons(ctx: ServerContext, *, roles: frozenset[Role]) -> AsyncGenerator[None, None]:
    """Run the daemons of some roles while the block runs."""
    await asyncio.to_thread(ctx.join_processes, roles)
    # To find and load them takes several milliseconds, in which nobody shall hold the writer.
    await asyncio.to_thread(comparison_kinds)
    workers = Workers(ctx.settings.checks)
    heartbeat = supervision.Heartbeat(ctx, roles, version=__version__)

    async def step() -> int:
        if fault := ctx.processes.fault():
            raise StoreError(f"The daemons of this process do nothing: it has no leases. {fault}")
        return await heartbeat.step()

    beat = supervision.DaemonTask(name="heartbeat", step=step, sweep_seconds=supervision.BEAT_SECONDS)
    try:
        async with (
            supervision.run_daemons(ctx, (*_daemons(ctx, workers, roles), beat)),
            _noted(ctx) if Role.WEB in roles else contextlib.nullcontext(),
        ):
            yield
    finally:
        await asyncio.to_thread(workers.close)
        with contextlib.suppress(StoreError, TimeoutError):  # the database has gone: the others will miss us
            async with asyncio.timeout(FAREWELL_SECONDS):
                await heartbeat.end()


@asynccontextmanager
async def _noted(ctx: ServerContext) -> AsyncGenerator[None, None]:
    """Keep a note in the folder, from before the first answer, so that a program that sees one also finds the address.

    Of several processes it is that of the last to start; when that has ended, of one that still runs.
    """
    host, port = ctx.listens
    if host in ("0.0.0.0", "::"):  # noqa: S104  # compared
        host = "127.0.0.1"
    path = "/" + "/".join(ctx.master_url.rstrip("/").split("/")[3:])
    direct = f"http://{f'[{host}]' if ':' in host else host}:{port}{path}"
    own = RunningServer(os.getpid(), ctx.started, socket.gethostname(), ctx.master_url, direct, begun())
    file = ctx.folder.run_file
    write_durably(file, msgspec.json.encode(own))
    keeper = asyncio.create_task(supervision.keep_running("note", partial(_renew, file, own)), name="note")
    try:
        yield
    finally:
        keeper.cancel()
        if read_note(file) == own:
            file.unlink(missing_ok=True)


async def _renew(file: Path, own: RunningServer) -> None:
    """Write a process's own note where there is none, or that of a process that was killed."""
    found = read_note(file)
    if found is None or not found.is_alive():
        with contextlib.suppress(OSError):  # a full disk, which others tell of
            write_durably(file, msgspec.json.encode(own))


def check_start(root: Path, *, replaces: int = 0) -> None:
    """Check that this program can run a project, without disturbing a server that has it open.

    ``replaces``: id of the process whose place the new one takes.

    Raises:
        ConfigError: settings, plan classes or keys are wrong.
        StoreError: the database is not one that this program understands.
    """
    folder = ProjectFolder(root.resolve())
    settings = folder.settings()
    load_plan_classes(folder.root)
    folder.read_secret()
    folder.check_database(settings, replaces=replaces)


def serve(
    root: Path,
    *,
    roles: frozenset[Role] = ALL_ROLES,
    host: str | None = None,
    port: int | None = None,
    ready: Callable[[ServerContext], None] | None = None,
) -> None:
    """Run a project until it is told to stop (SIGINT, SIGTERM); SIGHUP restarts it without losing a connection.

    ``host`` and ``port`` replace those of the settings.  A process without a role that clients or people ask for takes
    any port, for its health and metrics only.

    Raises:
        ConfigError: settings, folder or port are wrong, or SQLite shall be shared.
        Busy: another process has the project open.
    """

    if roles != ALL_ROLES and not ProjectFolder(root.resolve()).settings().database.url:
        raise ConfigError(
            "--role: a SQLite project runs in one process, with all roles. Move it to PostgreSQL first:"
            f" cobblestone project move {typed_word(root)} --to postgresql://USER@HOST/DATABASE"
        )
    if not roles & HTTP_ROLES:
        host, port = host or "127.0.0.1", port or 0
    project = Service(
        running="project_running",
        stopped="project_stopped",
        command=("run",),
        open=open_project,
        server=lambda ctx: ctx.settings.server,
        app=partial(create_app, roles=roles),
        daemons=partial(_project_daemons, roles=roles),
    )
    named = "all" if roles == ALL_ROLES else ",".join(sorted(roles))
    run_service(project, root, host=host, port=port, ready=ready, roles=named)
