"""Run an account manager: its application and daemons in one process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Route

from cobblestone.account_manager.api import ManagerApi, manager_monitoring
from cobblestone.account_manager.collector import CreditCollector
from cobblestone.account_manager.core.context import CHECKER, COLLECTOR, DAYS, MAILER, MAKER, ManagerContext
from cobblestone.account_manager.core.folder import ManagerFolder
from cobblestone.account_manager.core.members import Members
from cobblestone.account_manager.core.projects_web import new_client
from cobblestone.account_manager.daemons import (
    AccountMaker,
    BalanceKeeper,
    ProjectChecker,
    add_up_days,
    follow_projects,
)
from cobblestone.account_manager.rpc import RPC_PATH, ManagerRpc
from cobblestone.account_manager.web import web_routes
from cobblestone.account_manager.web.site import ManagerSite
from cobblestone.ops.environment import Clock, system_clock
from cobblestone.service.http.application import application
from cobblestone.service.http.monitoring import WATCHED
from cobblestone.service.mail import Mailer
from cobblestone.service.serving import Service
from cobblestone.service.supervision import SWEEP_SECONDS, DaemonTask, in_turn, run_daemons


def create_app(ctx: ManagerContext) -> Starlette:
    """Create the application, below the path of its address."""
    members, site = Members(ctx), ManagerSite(ctx)
    rpc = ManagerRpc(ctx, members)
    routes: list[BaseRoute] = [
        Route(f"/{RPC_PATH}", rpc, methods=["POST"]),
        Route("/get_project_config.php", rpc.project_config),
        *manager_monitoring(ctx).routes(),
        *ManagerApi(ctx).routes(),
        *web_routes(site, members),
    ]
    return application(
        ctx, routes, part_of=_part_of, handlers={HTTPException: site.http_error}, busy={RPC_PATH: rpc}
    )


def _part_of(path: str) -> str:
    if path == RPC_PATH:
        return "contact"
    if path.startswith("api/"):
        return "api"
    return "health" if path in WATCHED else "page"


CHECK_SWEEP_SECONDS = 30.0
DAYS_SWEEP_SECONDS = 60.0
#: All entries of two days are added up each time: with 100,000 computers at many projects for a quarter of a minute.
DAYS_REST = 20.0


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
    lock = folder.lock(shared=bool(settings.database.url))
    with lock, contextlib.closing(folder.open_store(settings)) as store:
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
    await asyncio.to_thread(ctx.join_processes)
    balances = BalanceKeeper(ctx)
    async with new_client() as client:
        single = (
            (CHECKER, ProjectChecker(ctx, client).step, CHECK_SWEEP_SECONDS),
            (MAKER, AccountMaker(ctx, client).step, CHECK_SWEEP_SECONDS),
            (COLLECTOR, CreditCollector(ctx, client).step, CHECK_SWEEP_SECONDS),
            (DAYS, partial(add_up_days, ctx), DAYS_SWEEP_SECONDS),
            (MAILER, Mailer(ctx, ctx.settings.mail, ctx.folder.root).step, CHECK_SWEEP_SECONDS),
        )
        follow = partial(follow_projects, ctx)
        daemons = [
            *(
                DaemonTask(
                    name=name, step=in_turn(ctx.processes, name, step), sweep_seconds=seconds, rest=rest
                )
                for name, step, seconds in single
                for rest in [DAYS_REST if name == DAYS else 0.0]
            ),
            DaemonTask(name="project_list", step=follow, sweep_seconds=CHECK_SWEEP_SECONDS),
            DaemonTask(name="balances", step=balances.step, sweep_seconds=SWEEP_SECONDS),
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
    folder.check_database(settings, replaces=replaces)


MANAGER_SERVICE = Service(
    running="manager_running",
    stopped="manager_stopped",
    command=("manager", "run"),
    open=open_manager,
    server=lambda ctx: ctx.settings.server,
    app=create_app,
    daemons=manager_daemons,
)
