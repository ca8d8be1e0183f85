"""The daemon that counts what computers received and sent for results that were found valid."""

from __future__ import annotations

from functools import partial

from cobblestone.server.core.context import ServerContext
from cobblestone.store.credit import transfers


class TransferCounter:
    """Follows the ledger of credit: who noise is sent by, and results that nobody asked for, count for nothing."""

    name = "transfers"

    def __init__(self, ctx: ServerContext) -> None:
        self._ctx = ctx

    async def step(self) -> int:
        """Count the transfers of some entries; how many."""
        return await self._ctx.store.awrite(partial(transfers.follow_ledger, now=self._ctx.clock()))
