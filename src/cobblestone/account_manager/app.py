"""The account manager's application: the RPC of clients, pages for people, the API for programs of the operator."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Mount, Route

from cobblestone.account_manager.api import ManagerApi
from cobblestone.account_manager.context import ManagerContext
from cobblestone.account_manager.members import Members
from cobblestone.account_manager.monitoring import ManagerMonitoring
from cobblestone.account_manager.rpc import RPC_PATH, ManagerRpc
from cobblestone.account_manager.web import web_routes
from cobblestone.account_manager.web.site import ManagerSite
from cobblestone.service.http.middleware import RequestMiddleware
from cobblestone.service.http.monitoring import WATCHED


def create_app(ctx: ManagerContext) -> Starlette:
    """Compose the application, below the path of its address."""
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
