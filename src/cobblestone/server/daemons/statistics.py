"""Chores that keep figures right: averages of those who rest, scales of app versions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

from cobblestone.server.core.context import ServerContext
from cobblestone.server.credit.cross_project_scales import kept_scales
from cobblestone.server.credit.version_scales import update_scales
from cobblestone.store.credit.idle_averages import PORTION, TABLES, Key, decay, look


class StatisticsUpdater:
    """Lets averages decay that nobody touched for a day: a read looks at many, a write changes few."""

    name = "statistics"

    def __init__(self, ctx: ServerContext) -> None:
        self._ctx = ctx
        self._round: AsyncIterator[bool] | None = None

    async def step(self) -> int:
        """Look at a page of rows, or change a portion of them; 0 after the last table."""
        going_on, self._round = self._round or self._go_round(), None  # after an error a round begins anew
        if not await anext(going_on, False):
            return 0
        self._round = going_on
        return 1

    async def _go_round(self) -> AsyncIterator[bool]:
        store = self._ctx.store
        for table in TABLES:
            after: Key | None = table.before_all
            while after is not None:
                now = self._ctx.clock()
                idle, after = await store.aread(partial(look, table=table, after=after, now=now))
                yield True
                for start in range(0, len(idle), PORTION):
                    portion = idle[start : start + PORTION]
                    await store.awrite(partial(decay, table=table, idle=portion, now=now))
                    yield True


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
