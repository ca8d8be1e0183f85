"""Daily chores: averages of those who rest."""

from __future__ import annotations

from functools import partial

from cobblestone.server.context import ServerContext
from cobblestone.store import credit

IDLE_SECONDS = 86400.0


class StatisticsUpdater:
    """Lets averages decay that nobody touched for a day."""

    name = "statistics"

    def __init__(self, ctx: ServerContext) -> None:
        self._ctx = ctx

    async def step(self) -> int:
        """Update up to a batch of rows; how many."""
        return await self._ctx.store.awrite(
            partial(credit.decay_idle, now=self._ctx.clock(), idle_for=IDLE_SECONDS, limit=200)
        )
