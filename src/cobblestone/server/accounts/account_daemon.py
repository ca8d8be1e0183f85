"""Chores of accounts: deletions whose time has come, old codes, mails and sessions, credit by app."""

from __future__ import annotations

import asyncio
import secrets
from functools import partial

import structlog

from cobblestone.policy.exports import KEEP_DELETIONS
from cobblestone.server.core.context import ServerContext
from cobblestone.store.credit import app_credit
from cobblestone.store.people import account_changes, computers, deletions, mails, one_time_codes, sessions
from cobblestone.store.work import archive

log = structlog.get_logger(__name__)


class AccountKeeper:
    """Erases accounts whose owners asked for it, and forgets what is not needed any more."""

    name = "accounts"

    def __init__(self, ctx: ServerContext) -> None:
        self._ctx = ctx

    async def step(self) -> int:
        """Do some of it; how much was done."""
        ctx, now = self._ctx, self._ctx.clock()
        due = await ctx.store.aread(partial(account_changes.due_to_erase, now=now))
        for user_id in due:
            # Before the account is erased, or a crash between would leave it; and after, for tasks that were on their way there.
            await asyncio.to_thread(archive.forget_words, ctx.archive, user_id)
            await ctx.store.awrite(
                partial(account_changes.erase, user_id=user_id, key=secrets.token_hex(16), now=now)
            )
            await asyncio.to_thread(archive.forget_words, ctx.archive, user_id)
            log.info("account_erased", user=user_id)
        forgotten = await ctx.store.awrite(
            lambda tx: (
                one_time_codes.drop_expired(tx, now=now)
                + mails.forget_old(tx, now=now)
                + sessions.forget_ended(tx, now=now)
                + deletions.forget_announced(tx, before=now - KEEP_DELETIONS)
            )
        )
        await ctx.store.awrite(computers.take_back_returned)
        return len(due) + forgotten


class AppCreditFollower:
    """Keeps credit by app in step with the ledger."""

    name = "top_lists"

    def __init__(self, ctx: ServerContext) -> None:
        self._ctx = ctx

    async def step(self) -> int:
        """Take in some entries; how many."""
        now = self._ctx.clock()
        return await self._ctx.store.awrite(partial(app_credit.follow_ledger, now=now))
