"""The web application of a service: its routes below its address, and what surrounds every request."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import structlog
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect
from starlette.routing import BaseRoute, Mount
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cobblestone.ops.logging import writes_debug_lines
from cobblestone.service.context import ProcessContext

log = structlog.get_logger(__name__)

_REQUEST_ID = re.compile(rb"[A-Za-z0-9_.\-]{1,64}")
#: The status, for metrics and log, of a request whose sender left before its end, as nginx counts it.
_HUNG_UP = 499


def application(
    ctx: ProcessContext,
    routes: Sequence[BaseRoute],
    *,
    part_of: Callable[[str], str],
    handlers: Mapping[Any, Any],  # Any: Starlette's type for keys and values
    busy: Mapping[str, ASGIApp] | None = None,
) -> Starlette:
    """Compose the application of a service, below the path of its address.

    ``part_of`` names the part of the service that a path belongs to, for the metrics: few names, whatever is asked for.
    ``busy``: endpoints by path that POST requests reach at once, without a search through all routes; ``state.busy`` has them
    by whole path, for connections that find them without the framework.  ``part_of`` and ``busy`` are told paths from the
    service's address on, without a slash before them.
    """
    prefix = urlsplit(ctx.master_url).path.rstrip("/")

    def part_of_whole(path: str) -> str:
        return part_of(path.removeprefix(prefix)[1:])

    observe = partial(_RequestMiddleware, ctx=ctx, part_of=part_of_whole)
    at_once = {f"{prefix}/{path}": endpoint for path, endpoint in (busy or {}).items()}
    app = Starlette(
        routes=[Mount(prefix, routes=routes)] if prefix else routes,
        middleware=[Middleware(observe, busy=at_once)],
        exception_handlers=handlers,
    )
    app.state.busy = {path: observe(endpoint, busy={}) for path, endpoint in at_once.items()}
    return app


class _RequestMiddleware:
    """Wrap an application: every request gets an id, is counted and logged."""

    def __init__(
        self, app: ASGIApp, ctx: ProcessContext, part_of: Callable[[str], str], busy: Mapping[str, ASGIApp]
    ) -> None:
        """Wrap ``app``; ``busy``: endpoints by path that POST requests reach instead."""
        self._app = app
        self._busy = busy
        self._part_of = part_of
        self._health = ctx.health
        self._metrics = ctx.metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 500
        request_id = _request_id(scope)

        async def observed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = [*message.get("headers", ()), (b"x-request-id", request_id)]
                if self._health.draining:
                    headers.append((b"connection", b"close"))
                message["headers"] = headers
            await send(message)

        started = time.perf_counter()
        self._metrics.requests_in_progress += 1
        structlog.contextvars.bind_contextvars(request=request_id.decode())
        try:
            app = self._busy.get(scope["path"], self._app) if scope["method"] == "POST" else self._app
            await app(scope, receive, observed)
        except ClientDisconnect:
            status = _HUNG_UP
        finally:
            self._metrics.requests_in_progress -= 1
            seconds = time.perf_counter() - started
            part = self._part_of(scope["path"])
            self._metrics.request(part, status, seconds)
            if writes_debug_lines():
                log.debug("request", part=part, path=scope["path"], status=status, seconds=round(seconds, 4))
            structlog.contextvars.unbind_contextvars("request")


def _request_id(scope: Scope) -> bytes:
    """Return the id that a proxy gave, if it is one; else a new one."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _REQUEST_ID.fullmatch(value):
            return value
    return secrets.token_hex(8).encode()
