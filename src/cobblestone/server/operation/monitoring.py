"""Endpoints for monitoring systems: ``/healthz``, ``/readyz`` and ``/metrics``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial

from cobblestone.domain.people import Scope
from cobblestone.ops.metrics import METRICS, Figures
from cobblestone.server.core.context import ServerContext
from cobblestone.server.core.roles import WATCHER
from cobblestone.server.files.exports import last_export
from cobblestone.service.http.monitoring import Monitoring, read_and_write
from cobblestone.store.engine.sqlite import database_bytes
from cobblestone.store.operation.figures import Endings, ProjectFigures
from cobblestone.store.people import credentials


def project_monitoring(ctx: ServerContext, *, of_project: bool) -> Monitoring:
    """Return what answers those who watch a project.

    ``of_project``: this process may be the one that reports what is the same for all of a project.
    """
    folder = ctx.folder

    async def figures() -> Figures:
        own: dict[str, float | Mapping[str, float]] = {
            "results_sent": ctx.metrics.n_sent,
            "results_reported": ctx.metrics.n_reported,
            "write_backlog": ctx.store.backlog(),
            "disk_limit_bytes": ctx.settings.server.min_free_disk_bytes,
        }
        if of_project and ctx.processes.rank(WATCHER)[0] == 0:
            found = await ctx.state.get()
            own |= project_figures(ctx, found.figures, found.endings)
        return own

    async def accepts(token: str) -> bool:
        found = await ctx.store.aread(lambda db: credentials.token_by_secret(db, token))
        if found is None or found.user_id is not None:  # an account that submits sees its own jobs only
            return False
        return found.usable(ctx.clock()) and Scope.READ in found.scopes

    return Monitoring(
        ctx,
        folder.root,
        ask_database=partial(read_and_write, ctx.store),
        described=METRICS,
        own_figures=figures,
        # Some may lie on disks of their own.
        written_folders=(folder.database.resolve().parent, folder.upload, folder.download),
        accepts=accepts,
    )


_AS_COUNTED = ("oldest_unsent_seconds", "results_created", "credit_entries", "users", "batches_open")


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
        **{name: getattr(figures, name) for name in _AS_COUNTED},
        "transitioner_backlog_seconds": figures.backlog_seconds,
        "hosts": {"known": figures.hosts, "active": figures.hosts_active},
        "results_last_day": asdict(ended),
        "database_bytes": database_bytes(ctx.folder.database),
        "export_last_seconds": export.time if export else 0.0,
        "export_duration_seconds": export.seconds if export else 0.0,
        "export_records": export.records if export else {},
    }
