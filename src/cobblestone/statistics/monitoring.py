"""For machines that watch a statistics site: whether there is something to show, and how collecting goes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from cobblestone.domain.errors import StoreError
from cobblestone.ops.metrics import COMMON_METRICS, MetricInfo
from cobblestone.service.http import monitoring
from cobblestone.statistics.context import StatisticsContext

METRICS: Mapping[str, MetricInfo] = {
    **COMMON_METRICS,
    "published_seconds": MetricInfo("gauge", "Unix time of the figures that pages show; 0: there are none."),
    "project_exported_seconds": MetricInfo("gauge", "Unix time of the figures of a project.", "project"),
    "project_failed": MetricInfo(
        "gauge", "1: the last attempt to collect from the project failed; 0: it did not.", "project"
    ),
    "project_records": MetricInfo("gauge", "Users, computers and teams of a project that count.", "project"),
}


class StatisticsMonitoring(monitoring.Monitoring):
    """Answers those who watch a statistics site."""

    described = METRICS

    def __init__(self, ctx: StatisticsContext) -> None:
        async def ask() -> None:
            if await ctx.read(lambda published: published.projects) is None:
                raise StoreError("no project's figures have come in yet")

        super().__init__(ctx, ask, folder=ctx.folder.root)
        self._ctx = ctx

    async def own_figures(self) -> dict[str, float | Mapping[str, float]]:
        """Return values of what only a statistics site has."""
        ctx = self._ctx
        states = await asyncio.to_thread(
            lambda: {
                source.name: ctx.folder.project(source.name).read_state() for source in ctx.settings.project
            }
        )
        published = ctx.published
        return {
            "published_seconds": published.time if published else 0.0,
            "project_exported_seconds": {name: state.exported for name, state in states.items()},
            "project_failed": {name: float(bool(state.problem)) for name, state in states.items()},
            "project_records": {
                name: state.counts.users + state.counts.hosts + state.counts.teams
                for name, state in states.items()
            },
        }
