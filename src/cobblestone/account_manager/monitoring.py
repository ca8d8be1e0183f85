"""For machines that watch an account manager: its own figures at ``/metrics``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from cobblestone.account_manager.context import ManagerContext
from cobblestone.account_manager.store.figures import ManagerFigures, figures
from cobblestone.ops.metrics import COMMON_METRICS, DATABASE_METRICS, MetricInfo
from cobblestone.service.cached_read import CachedRead
from cobblestone.service.http import monitoring
from cobblestone.service.http.readiness import read_and_write
from cobblestone.store.engine.sqlite import database_bytes

METRICS: Mapping[str, MetricInfo] = {
    **COMMON_METRICS,
    **DATABASE_METRICS,
    "accounts": MetricInfo("gauge", "People."),
    "computers": MetricInfo("gauge", "Computers: known, and active (called within a day).", "state"),
    "projects": MetricInfo("gauge", "Projects: usable, unusable, stopped.", "state"),
    "projects_asked": MetricInfo(
        "gauge", "Projects that are asked what they granted: answering, failing.", "state"
    ),
    "mails_waiting": MetricInfo("gauge", "Mails that are still to be sent."),
    "project_accounts_waiting": MetricInfo("gauge", "Accounts at projects that are still to be made."),
    "counted_credit": MetricInfo("gauge", "Estimated credit in the ledger."),
}


class ManagerMonitoring(monitoring.Monitoring):
    """Answers those who watch an account manager."""

    described = METRICS

    def __init__(self, ctx: ManagerContext) -> None:
        super().__init__(ctx, partial(read_and_write, ctx.store), folder=ctx.folder.root)
        self._ctx = ctx
        self._figures = CachedRead[ManagerFigures](ctx, lambda db: figures(db, now=ctx.clock()))

    async def own_figures(self) -> dict[str, float | Mapping[str, float]]:
        """Return values of what only an account manager has."""
        found = await self._figures.get()
        return {
            "write_backlog": self._ctx.store.backlog(),
            "database_bytes": database_bytes(self._ctx.folder.database),
            "accounts": found.accounts,
            "computers": {"known": found.hosts, "active": found.hosts_active},
            "projects": {
                "usable": found.projects - found.unusable - found.stopped,
                "unusable": found.unusable,
                "stopped": found.stopped,
            },
            "projects_asked": {"answering": found.telling, "failing": found.not_telling},
            "mails_waiting": found.mails_waiting,
            "project_accounts_waiting": found.waiting,
            "counted_credit": found.credit,
        }
