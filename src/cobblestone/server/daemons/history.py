"""The daemon that keeps what was: credit and work by day, since the first one."""

from __future__ import annotations

from cobblestone.policy.credit.history import day_of
from cobblestone.server.core.context import ServerContext
from cobblestone.store.credit import credit_days
from cobblestone.store.engine.database import Transaction
from cobblestone.store.work import app_days

LOOK_SECONDS = 600.0
"""Seconds between two looks at how many tasks there are."""


class HistoryKeeper:
    """Keeps the history of credit in step with the ledger, and notes how many tasks there are."""

    name = "history"

    def __init__(self, ctx: ServerContext) -> None:
        self._ctx = ctx
        self._look_time = 0.0

    async def step(self) -> int:
        """Take in some entries; without new ones, join old days to weeks."""
        now = self._ctx.clock()
        look = abs(now - self._look_time) >= LOOK_SECONDS

        def transact(tx: Transaction) -> int:
            if look:
                app_days.note_tasks(tx, day=day_of(now))
            return credit_days.follow_ledger(tx, now=now) or credit_days.thin(tx, now=now)

        done = await self._ctx.store.awrite(transact)
        if look:
            self._look_time = now
        return done
