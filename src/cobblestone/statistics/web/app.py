"""The web application of the statistics site."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Mount

from cobblestone.service.http.middleware import RequestMiddleware
from cobblestone.service.http.monitoring import WATCHED
from cobblestone.statistics.context import StatisticsContext
from cobblestone.statistics.monitoring import StatisticsMonitoring
from cobblestone.statistics.web.entities import EntityPages
from cobblestone.statistics.web.overview import OverviewPages
from cobblestone.statistics.web.rankings import RankingPages
from cobblestone.statistics.web.signatures import Signatures
from cobblestone.statistics.web.site import Site


def create_app(ctx: StatisticsContext) -> Starlette:
    """Compose the application, below the path of the site's own address."""
    site = Site(ctx)
    routes: list[BaseRoute] = [
        site.static_route(),
        *StatisticsMonitoring(ctx).routes(),
        *OverviewPages(site).routes(),
        *RankingPages(site).routes(),
        *Signatures(site).routes(),
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
