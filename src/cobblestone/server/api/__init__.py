"""The JSON API under ``/api/v1``, for the Python package, the command line and other programs; and the family's calls for jobs.

It knows operation and the rooms below it; no page.
"""

from __future__ import annotations

import asyncio
from functools import cache

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from cobblestone.api_schema.values import PREFIX
from cobblestone.server.api import (
    accounting,
    browsers,
    credit,
    explain,
    hosts,
    operator,
    people,
    status,
    workunits,
)
from cobblestone.server.api.endpoints.docs import CONTENT_SECURITY_POLICY, docs_page
from cobblestone.server.api.endpoints.openapi import openapi_document
from cobblestone.server.api.endpoints.routing import AnsweredEndpoint, make_routes
from cobblestone.server.api.submission import apps, batches, files, signing, webhooks
from cobblestone.server.api.submission.remote import remote_routes
from cobblestone.server.core.context import ServerContext
from cobblestone.service.http.api import unknown_paths

_MODULES = (
    batches,
    files,
    apps,
    signing,
    webhooks,
    people,
    hosts,
    workunits,
    status,
    browsers,
    credit,
    accounting,
    explain,
    operator,
)
#: All that declare themselves in these modules.
ENDPOINTS = tuple(
    each for module in _MODULES for each in vars(module).values() if isinstance(each, AnsweredEndpoint)
)


def api_routes(ctx: ServerContext) -> list[BaseRoute]:
    """Return all routes of the API, its description, and a JSON reply for unknown paths."""

    @cache
    def description() -> tuple[bytes, str]:
        """Return the OpenAPI document and the page made of it; made when first asked for, for that takes a while."""
        document = openapi_document(ENDPOINTS, title=ctx.settings.project.name, server_url=ctx.master_url)
        return msgspec.json.encode(document), docs_page(document)

    async def openapi(request: Request) -> Response:
        described, _ = await asyncio.to_thread(description)
        return Response(described, media_type="application/json")

    async def docs(request: Request) -> Response:
        _, page = await asyncio.to_thread(description)
        return Response(
            page, media_type="text/html", headers={"Content-Security-Policy": CONTENT_SECURITY_POLICY}
        )

    return [
        Route(f"{PREFIX}/openapi.json", openapi),
        Route(f"{PREFIX}/docs", docs),
        *make_routes(ctx, ENDPOINTS),
        *remote_routes(ctx),
        unknown_paths(f"{ctx.url(PREFIX)}/docs lists the endpoints."),
    ]
