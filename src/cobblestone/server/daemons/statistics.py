"""Chores that keep figures right: averages of those who rest, scales of app versions."""

from __future__ import annotations

from functools import partial

from cobblestone.policy.credit.totals import OWNERS
from cobblestone.server.core.context import ServerContext
from cobblestone.server.credit.cross_project_scales import kept_scales
from cobblestone.server.credit.version_scales import update_scales
from cobblestone.store.credit import ledger

CHUNK = 1000


class StatisticsUpdater:
    """Lets averages decay that nobody touched for a day."""

    name = "statistics"

    def __init__(self, ctx: ServerContext) -> None:
        self._ctx = ctx
        self._table = 0
        self._after = 0

    async def step(self) -> int:
        """Look at some rows of one table; 0 after the last table."""
        if self._table >= len(OWNERS):
            self._table = self._after = 0
            return 0
        last = await self._ctx.store.awrite(
            partial(
                ledger.decay_idle,
                table=OWNERS[self._table],
                after=self._after,
                limit=CHUNK,
                now=self._ctx.clock(),
            )
        )
        if last is None:
            self._table += 1
            self._after = 0
        else:
            self._after = last
        return 1


class ScaleUpdater:
    """Sets the credit scales of app versions, every ten minutes (server-semantics: version scales)."""

    name = "scales"

    def __init__(self, ctx: ServerContext) -> None:
        self._ctx = ctx

    async def step(self) -> int:
        """Set them; 0, for then there is nothing left to do."""
        published = kept_scales(self._ctx.folder)
        await self._ctx.store.awrite(
            partial(update_scales, offers=self._ctx.offers, published=published, now=self._ctx.clock())
        )
        return 0
