"""For machines that watch the server: ``/healthz``, ``/readyz`` and ``/metrics``."""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from cobblestone.domain.people import Scope
from cobblestone.ops.metrics import CONTENT_TYPE
from cobblestone.server.core.context import ServerContext
from cobblestone.server.core.roles import WATCHER
from cobblestone.server.files.disk_space import database_bytes, free_bytes
from cobblestone.server.files.exports import last_export
from cobblestone.server.operation.figures import StateReader
from cobblestone.service.health import DaemonHealth
from cobblestone.service.http.readiness import Readiness
from cobblestone.store.operation.figures import Endings, ProjectFigures
from cobblestone.store.people import tokens


class Monitoring(Readiness):
    """Answers those who watch."""

    def __init__(self, ctx: ServerContext, *, of_project: bool) -> None:
        """``of_project``: this process may be the one that reports what is the same for all of a project."""
        super().__init__(ctx)
        self._ctx = ctx
        self._of_project = of_project
        self._state = StateReader(ctx)

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [*super().routes(), Route("/metrics", self.metrics)]

    async def metrics(self, request: Request) -> Response:
        """Figures for Prometheus: to this machine, or with a token that may read."""
        if not await self._may_look(request):
            text = "Metrics are for this machine, or for a token: Authorization: Bearer cob_…\n"
            return PlainTextResponse(text, 403)
        figures = process_figures(self._ctx)
        if self._of_project and self._ctx.processes.rank(WATCHER)[0] == 0:
            state = await self._state.get()
            figures |= project_figures(self._ctx, state.figures, state.endings)
        body = await asyncio.to_thread(self._ctx.metrics.exposition, figures)
        return Response(body, headers={"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"})

    async def _may_look(self, request: Request) -> bool:
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            token = await self._ctx.store.aread(lambda db: tokens.token_by_secret(db, secret.strip()))
            return token is not None and token.usable(self._ctx.clock()) and Scope.READ in token.scopes
        # A request that a proxy passed on is not from this machine, whatever its address says.
        return _is_loopback(request) and "x-forwarded-for" not in request.headers


def _is_loopback(request: Request) -> bool:
    try:
        return request.client is not None and ipaddress.ip_address(request.client.host).is_loopback
    except ValueError:
        return False


def process_figures(ctx: ServerContext) -> dict[str, float | Mapping[str, float]]:
    """Return values of :data:`~cobblestone.ops.metrics.METRICS` that each process has for itself."""
    now = ctx.clock()
    beats = ctx.health.daemons
    return {
        "up_seconds": max(0.0, now - ctx.started) if ctx.started else 0.0,
        "draining": float(ctx.health.draining),
        "http_requests_in_progress": ctx.metrics.requests_in_progress,
        "results_sent": ctx.metrics.n_sent,
        "results_reported": ctx.metrics.n_reported,
        "write_backlog": ctx.store.backlog(),
        "disk_free_bytes": free_bytes(ctx),
        "disk_limit_bytes": ctx.settings.server.min_free_disk_bytes,
        "daemon_up": {name: float(beat.health(now) is DaemonHealth.RUNNING) for name, beat in beats.items()},
        "daemon_last_beat_seconds": {name: beat.last_beat for name, beat in beats.items()},
        "daemon_steps": {name: beat.steps for name, beat in beats.items()},
        "daemon_errors": {name: beat.errors for name, beat in beats.items()},
        "warning": dict.fromkeys(ctx.health.warnings, 1.0),
    }


def project_figures(
    ctx: ServerContext, figures: ProjectFigures, ended: Endings
) -> dict[str, float | Mapping[str, float]]:
    """Return values of :data:`~cobblestone.ops.metrics.METRICS` that are the same for all processes of a project."""
    export = last_export(ctx.folder)
    return {
        "results": {"unsent": figures.unsent, "in_progress": figures.in_progress},
        "workunits": {
            name: getattr(figures, name) for name in ("transition", "validation", "assimilation", "deletion")
        },
        "oldest_unsent_seconds": figures.oldest_unsent_seconds,
        "transitioner_backlog_seconds": figures.backlog_seconds,
        "results_created": figures.results_created,
        "credit_entries": figures.credit_entries,
        "users": figures.users,
        "hosts": {"known": figures.hosts, "active": figures.hosts_active},
        "batches_open": figures.batches_open,
        "results_last_day": {name: getattr(ended, name) for name in ("good", "error", "no_reply", "invalid")},
        "database_bytes": database_bytes(ctx.folder.database),
        "export_last_seconds": export.time if export else 0.0,
        "export_duration_seconds": export.seconds if export else 0.0,
        "export_records": export.records if export else {},
    }
