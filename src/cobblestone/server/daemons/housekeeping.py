"""Small daemons: expiry of accounts and codes, badges, history, averages and scales, transfer totals, the daily export."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import sys
from collections.abc import AsyncIterator
from functools import partial

import structlog

from cobblestone.domain.errors import StoreError
from cobblestone.domain.values import form_of
from cobblestone.policy.credit.history import (
    KEEP_DELETIONS,
    Badge,
    BadgeRules,
    day_of,
    earned,
    next_export_time,
)
from cobblestone.server.core.context import ServerContext
from cobblestone.server.credit.scales import kept_scales, update_scales
from cobblestone.server.files.exports import last_export
from cobblestone.store.credit import app_credit, contributions, history
from cobblestone.store.engine.database import Database
from cobblestone.store.operation import ranking
from cobblestone.store.people import account_changes, consents, credentials, hosts
from cobblestone.store.work import archive, job_results

log = structlog.get_logger(__name__)


async def keep_accounts(ctx: ServerContext) -> int:
    """Erase accounts on request of their owners, and delete expired data; return how much was done."""
    now = ctx.clock()
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
            credentials.forget_expired(tx, now=now)
            + consents.forget_announced(tx, before=now - KEEP_DELETIONS)
        )
    )
    await ctx.store.awrite(hosts.take_back_returned)
    return len(due) + forgotten


async def follow_app_credit(ctx: ServerContext) -> int:
    """Keep credit by app up to date with the ledger: take in some entries; return how many."""
    return await ctx.store.awrite(partial(app_credit.follow_ledger, now=ctx.clock()))


#: Owners in one step: when all of them get badges, that is one write of a few milliseconds.
BADGE_CHUNK = 250

Changes = dict[int, tuple[frozenset[Badge], frozenset[Badge]]]


class BadgeKeeper:
    """Checks the badges of volunteers, computers and teams, and writes changes."""

    def __init__(self, ctx: ServerContext) -> None:
        self._ctx = ctx
        self._rules = form_of(BadgeRules, ctx.settings.badges)
        self._waiting: list[app_credit.Owner] = []
        self._after = 0
        self._ids: dict[Badge, int] = {}
        self._cutoffs: dict[float, float] = {}

    async def step(self) -> int:
        """Check some of one kind; return 0 after the last of them."""
        ctx = self._ctx
        if not self._waiting:
            self._waiting = list(app_credit.Owner)
            self._ids = await ctx.store.awrite(partial(ranking.badge_ids, badges=self._rules.badges))
        owner = self._waiting[0]
        if not self._after:
            self._cutoffs = await ctx.store.aread(partial(self._read_cutoffs, owner=owner))
        changes, last = await ctx.store.aread(partial(self._look, owner=owner))
        if changes:
            await ctx.store.awrite(
                partial(ranking.give_badges, owner=owner, changes=changes, ids=self._ids, now=ctx.clock())
            )
        self._after = last
        if not last:
            self._waiting.pop(0)
        return len(self._waiting)

    def _read_cutoffs(self, db: Database, *, owner: app_credit.Owner) -> dict[float, float]:
        found = {percent: ranking.rank_cutoff(db, owner, percent) for percent in self._rules.rank_percent}
        return {percent: cutoff for percent, cutoff in found.items() if cutoff is not None}

    def _look(self, db: Database, *, owner: app_credit.Owner) -> tuple[Changes, int]:
        """Return the changes for the next ones, and the number of the last of them; 0: there are no more."""
        rows = ranking.credit_after(db, owner, self._after, limit=BADGE_CHUNK)
        present = ranking.badges_of(db, owner, [row[0] for row in rows])
        changes: Changes = {}
        for owner_id, total, recent in rows:
            due = earned(total=total, recent=recent, rules=self._rules, rank_cutoffs=self._cutoffs)
            has = frozenset(item.badge for item in present.get(owner_id, ()))
            if due != has:
                changes[owner_id] = (due - has, has - due)
        return changes, rows[-1][0] if len(rows) == BADGE_CHUNK else 0


#: Seconds between two looks at how many tasks there are.
LOOK_SECONDS = 600.0


class HistoryKeeper:
    """Keeps the history of credit up to date with the ledger, and records the number of tasks."""

    def __init__(self, ctx: ServerContext) -> None:
        self._ctx = ctx
        self._look_time = 0.0

    async def step(self) -> int:
        """Take in some entries; without new ones, merge old days into weeks."""
        now, store = self._ctx.clock(), self._ctx.store
        if abs(now - self._look_time) >= LOOK_SECONDS:
            counts = await store.aread(job_results.count_tasks)
            await store.awrite(partial(job_results.note_tasks, counts=counts, day=day_of(now)))
            self._look_time = now
        return await store.awrite(lambda tx: history.follow_ledger(tx, now=now) or history.thin(tx, now=now))


class StatisticsUpdater:
    """Decays averages that were not updated for a day: a read checks many, a write changes few."""

    def __init__(self, ctx: ServerContext) -> None:
        self._ctx = ctx
        self._round: AsyncIterator[bool] | None = None

    async def step(self) -> int:
        """Check a page of rows, or change a portion of them; return 0 after the last table."""
        going_on, self._round = self._round or self._go_round(), None  # after an error a round starts again
        if not await anext(going_on, False):
            return 0
        self._round = going_on
        return 1

    async def _go_round(self) -> AsyncIterator[bool]:
        store = self._ctx.store
        for table in app_credit.AVERAGE_TABLES:
            after: app_credit.Key | None = table.before_all
            while after is not None:
                now = self._ctx.clock()
                idle, after = await store.aread(
                    partial(app_credit.find_idle, table=table, after=after, now=now)
                )
                yield True
                for start in range(0, len(idle), app_credit.IDLE_PORTION):
                    portion = idle[start : start + app_credit.IDLE_PORTION]
                    await store.awrite(partial(app_credit.decay_idle, table=table, idle=portion, now=now))
                    yield True


async def set_scales(ctx: ServerContext) -> int:
    """Set the credit scales of app versions (server-semantics: version scales); return 0, as nothing is left to do."""
    published = kept_scales(ctx.folder)
    await ctx.store.awrite(partial(update_scales, offers=ctx.offers, published=published, now=ctx.clock()))
    return 0


async def count_transfers(ctx: ServerContext) -> int:
    """Count the transfers of some entries of the credit ledger, so that noise counts for nothing; return how many."""
    return await ctx.store.awrite(partial(contributions.follow_transfers, now=ctx.clock()))


NICENESS = 19
MAX_ERROR_TEXT = 500


async def export_if_due(ctx: ServerContext) -> int:
    """Make the daily export if it is due; return 0, as nothing is left to do."""
    every = ctx.settings.export.every_seconds
    if not every:
        return 0
    last = await asyncio.to_thread(last_export, ctx.folder)
    made, now = None if last is None else last.time, ctx.clock()
    if now >= next_export_time(made, started=ctx.started, every=every, now=now):
        await _export(ctx)
    return 0


async def _export(ctx: ServerContext) -> None:
    # Not in a thread: a million rows would hold this process's interpreter for most of a minute.
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "cobblestone", "export", "--project", str(ctx.folder.root), "--quiet"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.setpriority(os.PRIO_PROCESS, process.pid, NICENESS)
        _, errors = await process.communicate()
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await process.wait()  # the server stops: at once, for nothing has to be tidied up
    if process.returncode:
        text = errors.decode(errors="replace").strip()[-MAX_ERROR_TEXT:]
        raise StoreError(f"The export ended with status {process.returncode}: {text}")
    log.info("export_made", folder=str(ctx.folder.exports))
