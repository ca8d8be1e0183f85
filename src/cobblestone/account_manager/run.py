"""Run an account manager: its application and daemons in one process."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Mount, Route

from cobblestone.account_manager.api import ManagerApi, ManagerMonitoring
from cobblestone.account_manager.collector import CreditCollector
from cobblestone.account_manager.core.context import ManagerContext
from cobblestone.account_manager.core.folder import ManagerFolder
from cobblestone.account_manager.core.members import Members
from cobblestone.account_manager.core.projects_web import new_client
from cobblestone.account_manager.daemons import (
    AccountMaker,
    BalanceKeeper,
    DayKeeper,
    ProjectChecker,
    ProjectFollower,
)
from cobblestone.account_manager.rpc import RPC_PATH, ManagerRpc
from cobblestone.account_manager.store.schema import MANAGER
from cobblestone.account_manager.web import web_routes
from cobblestone.account_manager.web.site import ManagerSite
from cobblestone.ops.environment import Clock, system_clock
from cobblestone.service.http.monitoring import WATCHED
from cobblestone.service.http.requests import RequestMiddleware
from cobblestone.service.mail import Mailer
from cobblestone.service.serving import address_of, announcing, run_service, serve_http
from cobblestone.service.supervision import SWEEP_SECONDS, DaemonTask, in_turn, run_daemons
from cobblestone.store.maintenance.upgrade import check_revision


def create_app(ctx: ManagerContext) -> Starlette:
    """Create the application, below the path of its address."""
    members, site = Members(ctx), ManagerSite(ctx)
    rpc = ManagerRpc(ctx, members.passwords)
    routes: list[BaseRoute] = [
        Route(f"/{RPC_PATH}", rpc, methods=["POST"]),
        Route("/get_project_config.php", rpc.project_config),
        *ManagerMonitoring(ctx).routes(),
        *ManagerApi(ctx).routes(),
        *web_routes(site, members),
    ]
    prefix = urlsplit(ctx.master_url).path.rstrip("/")

    busy = {f"{prefix}/{RPC_PATH}": rpc}

    def part_of(path: str) -> str:
        if path in busy:
            return "contact"
        if path.removeprefix(prefix).startswith("/api/"):
            return "api"
        return "health" if path.removeprefix(prefix) in WATCHED else "page"

    app = Starlette(
        routes=[Mount(prefix, routes=routes)] if prefix else routes,
        middleware=[Middleware(RequestMiddleware, ctx=ctx, part_of=part_of, busy=busy)],
        exception_handlers={HTTPException: site.http_error},
    )
    app.state.busy = {path: RequestMiddleware(each, ctx, part_of, {}) for path, each in busy.items()}
    return app


log = structlog.get_logger(__name__)

CHECK_SWEEP_SECONDS = 30.0
DAYS_SWEEP_SECONDS = 60.0


@contextlib.contextmanager
def open_manager(root: Path, *, clock: Clock = system_clock) -> Generator[ManagerContext, None, None]:
    """Open an account manager's folder: settings, lock, keys, database.

    Raises:
        ConfigError: it is none, or its settings or keys are wrong.
        Busy: another process has it open.
    """
    folder = ManagerFolder(root.resolve())
    settings = folder.settings()
    secret, key = folder.read_key(folder.secret_file), folder.read_key(folder.sign_public)
    with folder.lock(settings), contextlib.closing(folder.open_store(settings)) as store:
        ctx = ManagerContext(
            store=store,
            secret=bytes.fromhex(secret),
            master_url=settings.manager.url,
            clock=clock,
            folder=folder,
            settings=settings,
            signing_key=key,
        )
        store.read(ctx.projects.load)
        try:
            yield ctx
        finally:
            ctx.processes.close()


@asynccontextmanager
async def manager_daemons(ctx: ManagerContext) -> AsyncGenerator[None, None]:
    """Run the daemons while the block runs."""
    balances = BalanceKeeper(ctx)
    async with new_client() as client:
        follower = ProjectFollower(ctx)
        single = (
            (ProjectChecker(ctx, client), CHECK_SWEEP_SECONDS),
            (AccountMaker(ctx, client), CHECK_SWEEP_SECONDS),
            (CreditCollector(ctx, client), CHECK_SWEEP_SECONDS),
            (DayKeeper(ctx), DAYS_SWEEP_SECONDS),
            (Mailer(ctx, ctx.settings.mail, ctx.folder.root), CHECK_SWEEP_SECONDS),
        )
        daemons = [
            DaemonTask(
                name=each.name, step=in_turn(ctx.processes, each.name, each.step), sweep_seconds=seconds
            )
            for each, seconds in single
        ]
        daemons += [
            DaemonTask(name=follower.name, step=follower.step, sweep_seconds=CHECK_SWEEP_SECONDS),
            DaemonTask(name=balances.name, step=balances.step, sweep_seconds=SWEEP_SECONDS),
        ]
        async with run_daemons(ctx, daemons):
            yield
    await balances.step()


def check_start(root: Path, *, replaces: int = 0) -> None:
    """Check that this program can run an account manager, beside the running one.  Raises ConfigError or StoreError.

    ``replaces``: id of the process whose place the new one takes.
    """
    folder = ManagerFolder(root.resolve())
    settings = folder.settings()
    folder.read_key(folder.sign_public)
    check_revision(folder.location(settings), MANAGER, replaces=(socket.gethostname(), replaces))


def serve(
    root: Path,
    *,
    host: str | None = None,
    port: int | None = None,
    ready: Callable[[ManagerContext], None] | None = None,
) -> None:
    """Run an account manager until it is told to stop (SIGINT, SIGTERM); SIGHUP restarts it without losing a connection.

    Raises:
        ConfigError: settings, folder or port are wrong.
        Busy: another process has it open.
    """

    run_service(
        open_manager(root),
        lambda ctx: address_of(ctx.settings.server, host, port),
        partial(_serve, ready=ready),
    )


async def _serve(
    ctx: ManagerContext, listener: socket.socket, *, ready: Callable[[ManagerContext], None] | None
) -> bool:
    """Serve until the end; return whether to restart."""
    folder = str(ctx.folder.root)
    started = announcing(ctx, ready, "manager_running", folder=folder)
    app = create_app(ctx)
    await asyncio.to_thread(ctx.join_processes)
    async with manager_daemons(ctx):
        again = await serve_http(
            ctx,
            app,
            listener,
            ctx.settings.server,
            check=("manager", "run", "--check", folder),
            started=started,
            busy=app.state.busy,
        )
    log.info("manager_stopped", folder=folder)
    return again
