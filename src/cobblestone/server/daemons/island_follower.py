"""Keeps an island and its centre in step: accounts and teams go there, computers and credit come here.

One such daemon per island, beside the other chores of the centre: an island that is away delays its own credit only.
"""

from __future__ import annotations

import asyncio
from functools import partial

import structlog

from cobblestone.server.core.context import ServerContext
from cobblestone.server.core.islands import Island, open_island
from cobblestone.store.engine.database import Store
from cobblestone.store.operation import island_accounts, island_credit

SWEEP_SECONDS = 2.0
ROUND_SWEEPS = 150
"""All accounts are compared within so many sweeps, five minutes."""
LEAST_ROWS, MOST_ROWS = 500, 20_000
"""Accounts that are compared at once."""

log = structlog.get_logger(__name__)


class IslandFollower:
    """Carries between one island and the centre, which this server is."""

    def __init__(self, ctx: ServerContext, island: Island) -> None:
        self.name = f"island {island.name}"
        self._ctx = ctx
        self._island = island
        self._store: Store | None = None
        # ids up to which this round came
        self._compared: dict[str, int] = dict.fromkeys(island_accounts.MIRRORED, 0)

    async def step(self) -> int:
        """Carry some of it; how many entries of the ledger."""
        if self._store is None:
            self._store = await asyncio.to_thread(open_island, self._island, self._ctx.master_url)
            log.info("island_connected", island=self._island.name)
        try:
            for table in island_accounts.MIRRORED:
                await self._mirror(self._store, table)
            return await self._take_credit(self._store)
        except Exception:  # something may have changed there: look again whether it is our island
            await asyncio.to_thread(self.close)
            raise

    def close(self) -> None:
        """Close the island's database."""
        if self._store is not None:
            self._store.close()
            self._store = None

    async def _mirror(self, store: Store, table: str) -> None:
        """Bring what is new there, and the next part of what may have changed."""
        newest = await store.aread(partial(island_accounts.last_id, table=table))
        await self._bring(store, table, after=newest, limit=LEAST_ROWS)
        n_rows = newest - island_accounts.first_id(table, self._island.number)
        limit = min(max(LEAST_ROWS, n_rows // ROUND_SWEEPS), MOST_ROWS)
        self._compared[table] = await self._bring(store, table, after=self._compared[table], limit=limit)

    async def _bring(self, store: Store, table: str, *, after: int, limit: int) -> int:
        """Compare some rows, and bring those that differ; the last one, 0 at the end of the table."""
        number = self._island.number
        read = partial(island_accounts.read_rows, table=table, number=number, after=after, limit=limit)
        here = await self._ctx.store.aread(read)
        if not here.rows:
            return 0
        if table == "user_account" and (
            newer := await store.aread(partial(island_accounts.newer_preferences, of_centre=here))
        ):
            await self._ctx.store.awrite(partial(island_accounts.keep_newer_preferences, found=newer))
            here = await self._ctx.store.aread(read)
        changed = await store.aread(partial(island_accounts.changed_rows, table=table, of_centre=here))
        if changed.rows:
            await store.awrite(partial(island_accounts.take_over, table=table, changed=changed))
            log.info("island_rows_brought", island=self._island.name, table=table, rows=len(changed.rows))
        return here.last if len(here.rows) == limit else 0

    async def _take_credit(self, store: Store) -> int:
        ctx, number, now = self._ctx, self._island.number, self._ctx.clock()
        after, after_host = await ctx.store.aread(
            lambda db: (island_credit.reached(db, number), island_credit.last_host(db, number))
        )
        portion = await store.aread(
            partial(island_credit.next_portion, after=after, after_host=after_host, now=now)
        )
        if not portion.hosts and not portion.lines:
            return 0
        take = partial(island_credit.take_portion, number=number, after=after, portion=portion, now=now)
        return await ctx.store.awrite(take)
