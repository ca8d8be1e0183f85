"""For machines that watch a service: figures for Prometheus at ``/metrics``, beside its health."""

from __future__ import annotations

import asyncio
import ipaddress
import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from cobblestone.ops.metrics import COMMON_METRICS, CONTENT_TYPE, MetricInfo
from cobblestone.service.context import ProcessContext
from cobblestone.service.health import DaemonHealth
from cobblestone.service.http.readiness import Readiness

WATCHED = frozenset({"/healthz", "/readyz", "/metrics"})


class Monitoring(Readiness):
    """Answers those who watch; a service says by a subclass what its own figures are, and who else may see them."""

    described: Mapping[str, MetricInfo] = COMMON_METRICS

    def __init__(
        self, ctx: ProcessContext, ask_database: Callable[[], Awaitable[object]], *, folder: Path
    ) -> None:
        """``folder``: that of the service."""
        super().__init__(ctx, ask_database, self.written_folders)
        self._folder = folder

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [*super().routes(), Route("/metrics", self.metrics)]

    async def metrics(self, request: Request) -> Response:
        """Figures for Prometheus: to this machine, or with a token that may read."""
        if not await self._may_look(request):
            text = "Metrics are for this machine, or for a token: Authorization: Bearer cob_…\n"
            return PlainTextResponse(text, 403)
        figures = common_figures(self._service, self._folder) | await self.own_figures()
        body = await asyncio.to_thread(self._service.metrics.exposition, figures, self.described)
        return Response(body, headers={"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"})

    def written_folders(self) -> Sequence[Path]:
        """Return the folders that must take files."""
        return [self._folder]

    async def own_figures(self) -> dict[str, float | Mapping[str, float]]:
        """Return values of what only this service has."""
        return {}

    async def accepts(self, token: str) -> bool:
        """Whether who shows this may see the figures from elsewhere."""
        return False

    async def _may_look(self, request: Request) -> bool:
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return await self.accepts(secret.strip())
        # A request that a proxy passed on is not from this machine, whatever its address says.
        return _is_loopback(request) and "x-forwarded-for" not in request.headers


def _is_loopback(request: Request) -> bool:
    try:
        return request.client is not None and ipaddress.ip_address(request.client.host).is_loopback
    except ValueError:
        return False


def common_figures(ctx: ProcessContext, folder: Path) -> dict[str, float | Mapping[str, float]]:
    """Return values of :data:`~cobblestone.ops.metrics.COMMON_METRICS`, but for those of a database."""
    now = ctx.clock()
    beats = ctx.health.daemons
    return {
        "up_seconds": max(0.0, now - ctx.started) if ctx.started else 0.0,
        "draining": float(ctx.health.draining),
        "http_requests_in_progress": ctx.metrics.requests_in_progress,
        "disk_free_bytes": shutil.disk_usage(folder).free,
        "daemon_up": {name: float(beat.health(now) is DaemonHealth.RUNNING) for name, beat in beats.items()},
        "daemon_last_beat_seconds": {name: beat.last_beat for name, beat in beats.items()},
        "daemon_steps": {name: beat.steps for name, beat in beats.items()},
        "daemon_errors": {name: beat.errors for name, beat in beats.items()},
        "warning": dict.fromkeys(ctx.health.warnings, 1.0),
    }
