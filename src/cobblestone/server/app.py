"""The web application: all endpoints of a project, at their usual paths."""

from __future__ import annotations

from functools import partial
from typing import Any

import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from cobblestone.domain.errors import Busy, Conflict, NotFound, StoreError
from cobblestone.server.accounts.account_rpc import AccountRpc
from cobblestone.server.accounts.service import Accounts
from cobblestone.server.api import api_routes
from cobblestone.server.core.context import ServerContext
from cobblestone.server.core.roles import ALL_ROLES, Role
from cobblestone.server.credit.scales import ScaleExport
from cobblestone.server.files.download import DownloadHandler
from cobblestone.server.files.exports import ExportFiles
from cobblestone.server.files.uploads import UploadHandler
from cobblestone.server.operation.monitoring import project_monitoring
from cobblestone.server.scheduler.endpoint import SchedulerRpc
from cobblestone.server.scheduler.reply import UPLOAD_PATH
from cobblestone.server.web import web_routes
from cobblestone.server.web.presentation.feeds import FeedPages
from cobblestone.server.web.presentation.site import ProjectSite
from cobblestone.service.http.application import application

log = structlog.get_logger(__name__)

SCHEDULER_PATH = "cgi-bin/cgi"

_PARTS = {
    "cgi-bin": "upload",
    "download": "download",
    "stats": "download",
    "api": "api",
    "static": "static",
    "pyodide": "static",
    "healthz": "health",
    "readyz": "health",
    "metrics": "health",
}
_ACCOUNT_RPCS = {
    "get_project_config.php": AccountRpc.get_project_config,
    "create_account.php": AccountRpc.create_account,
    "lookup_account.php": AccountRpc.lookup_account,
    "am_get_info.php": AccountRpc.am_get_info,
    "am_set_info.php": AccountRpc.am_set_info,
    "login_token_lookup.php": AccountRpc.login_token_lookup,
    "team_lookup.php": AccountRpc.team_lookup,
    "team_email_list.php": AccountRpc.team_members,
}
_FEEDS = {"rss_main.php": FeedPages.news, "notices.php": FeedPages.notices}

_STATUS: dict[type[Exception], int] = {NotFound: 404, Conflict: 409, Busy: 503, StoreError: 503}


def create_app(ctx: ServerContext, roles: frozenset[Role] = ALL_ROLES) -> Starlette:
    """Create the application: the endpoints of some roles, below the path of the master URL."""
    routes: list[BaseRoute] = []
    busy: dict[str, ASGIApp] = {}
    if Role.SCHEDULER in roles:
        busy[SCHEDULER_PATH] = SchedulerRpc(ctx, ctx.offers)
    if Role.UPLOAD in roles:
        busy[UPLOAD_PATH] = UploadHandler(ctx)
        routes.append(Route("/download/{fanout}/{name}", DownloadHandler(ctx), methods=["GET"]))
    # They have routes too, for the answers to other methods and unusual spellings.
    routes += [Route(f"/{path}", endpoint, methods=["POST"]) for path, endpoint in busy.items()]
    routes += project_monitoring(ctx, of_project=Role.WEB in roles).routes()
    # Any: Starlette's type for keys and values
    handlers: dict[Any, Any] = {error: _problem(status) for error, status in _STATUS.items()}
    if Role.WEB in roles:
        routes += _web(ctx)
        handlers[HTTPException] = ProjectSite(ctx).http_error
    return application(ctx, routes, part_of=_part_of, handlers=handlers, busy=busy)


def _web(ctx: ServerContext) -> list[BaseRoute]:
    """Return the routes for people, programs and account managers."""
    accounts = Accounts(ctx)
    rpc = AccountRpc(ctx, accounts)
    feeds = FeedPages(ctx)
    return [
        *(Route(f"/{path}", partial(answer, rpc)) for path, answer in _ACCOUNT_RPCS.items()),
        *(Route(f"/{path}", partial(answer, feeds)) for path, answer in _FEEDS.items()),
        *ScaleExport(ctx).routes(),
        ExportFiles(ctx.folder).route(),
        *api_routes(ctx),
        *web_routes(ctx, accounts),
    ]


def _part_of(path: str) -> str:
    """Return the part of the server that a path belongs to."""
    if path == SCHEDULER_PATH:
        return "scheduler"
    first = path.partition("/")[0]
    if first in _ACCOUNT_RPCS or first in _FEEDS:
        return "account"
    return "operator" if first.startswith("ops") else _PARTS.get(first, "page")


def _problem(status: int):  # noqa: ANN202  # the handler's type is Starlette's own alias
    def handler(request: Request, error: Exception) -> Response:
        if status >= 500:
            log.error("request_failed", path=request.url.path, error=str(error))
        headers = {"Retry-After": "2"} if status == 503 else None
        return JSONResponse({"error": {"code": type(error).__name__, "message": str(error)}}, status, headers)

    return handler
