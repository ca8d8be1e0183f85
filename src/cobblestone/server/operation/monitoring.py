"""Endpoints for monitoring systems: ``/healthz``, ``/readyz`` and ``/metrics``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from cobblestone.domain.people import Scope
from cobblestone.ops.metrics import METRICS
from cobblestone.server.core.context import ServerContext
from cobblestone.server.core.roles import WATCHER
from cobblestone.server.files.exports import last_export
from cobblestone.server.operation.alerts import StateReader
from cobblestone.service.http import monitoring
from cobblestone.service.http.monitoring import read_and_write
from cobblestone.store.engine.sqlite import database_bytes
from cobblestone.store.operation.figures import Endings, ProjectFigures
from cobblestone.store.people import credentials


class ProjectMonitoring(monitoring.Monitoring):
    """Answers monitoring requests about a project."""

    described = METRICS

    def __init__(self, ctx: ServerContext, *, of_project: bool) -> None:
        """``of_project``: this process may report the figures that are the same for all of a project."""
        super().__init__(ctx, partial(read_and_write, ctx.store), folder=ctx.folder.root)
        self._ctx = ctx
        self._of_project = of_project
        self._state = StateReader(ctx)

    def written_folders(self) -> Sequence[Path]:
        """Return the folders that must be writable; some may be on separate disks."""
        folder = self._ctx.folder
        return [folder.root, folder.database.resolve().parent, folder.upload, folder.download]

    async def own_figures(self) -> dict[str, float | Mapping[str, float]]:
        """Return values that only a project has."""
        ctx = self._ctx
        figures: dict[str, float | Mapping[str, float]] = {
            "results_sent": ctx.metrics.n_sent,
            "results_reported": ctx.metrics.n_reported,
            "write_backlog": ctx.store.backlog(),
            "disk_limit_bytes": ctx.settings.server.min_free_disk_bytes,
        }
        if self._of_project and ctx.processes.rank(WATCHER)[0] == 0:
            state = await self._state.get()
            figures |= project_figures(ctx, state.figures, state.endings)
        return figures

    async def accepts(self, token: str) -> bool:
        """Return whether a token may read."""
        found = await self._ctx.store.aread(lambda db: credentials.token_by_secret(db, token))
        return found is not None and found.usable(self._ctx.clock()) and Scope.READ in found.scopes


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
