"""The daemon that gives badges, and takes them away."""

from __future__ import annotations

from functools import partial

from cobblestone.policy.credit.badges import Badge, BadgeRules, earned
from cobblestone.server.core.context import ServerContext
from cobblestone.store.credit import badges
from cobblestone.store.credit.app_credit import Owner
from cobblestone.store.engine.database import Database
from cobblestone.store.operation import ranking

CHUNK = 250
"""Owners in one step: when all of them get badges, that is one write of a few milliseconds."""

Changes = dict[int, tuple[frozenset[Badge], frozenset[Badge]]]


class BadgeKeeper:
    """Goes through volunteers, computers and teams, and writes what has changed."""

    name = "badges"

    def __init__(self, ctx: ServerContext) -> None:
        self._ctx = ctx
        section = ctx.settings.badges
        self._rules = BadgeRules(
            total=section.total, recent=section.recent, rank_percent=section.rank_percent
        )
        self._waiting: list[Owner] = []
        self._after = 0
        self._ids: dict[Badge, int] = {}
        self._cutoffs: dict[float, float] = {}

    async def step(self) -> int:
        """Look at some of one kind; 0 after the last of them."""
        ctx = self._ctx
        if not self._waiting:
            self._waiting = list(Owner)
            self._ids = await ctx.store.awrite(partial(badges.badge_ids, badges=self._rules.badges))
        owner = self._waiting[0]
        if not self._after:
            self._cutoffs = await ctx.store.aread(partial(self._read_cutoffs, owner=owner))
        changes, last = await ctx.store.aread(partial(self._look, owner=owner))
        if changes:
            await ctx.store.awrite(
                partial(badges.give, owner=owner, changes=changes, ids=self._ids, now=ctx.clock())
            )
        self._after = last
        if not last:
            self._waiting.pop(0)
        return len(self._waiting)

    def _read_cutoffs(self, db: Database, *, owner: Owner) -> dict[float, float]:
        found = {percent: ranking.rank_cutoff(db, owner, percent) for percent in self._rules.rank_percent}
        return {percent: cutoff for percent, cutoff in found.items() if cutoff is not None}

    def _look(self, db: Database, *, owner: Owner) -> tuple[Changes, int]:
        """Return what has changed for the next ones, and the number of the last of them; 0: there are no more."""
        rows = ranking.credit_after(db, owner, self._after, limit=CHUNK)
        present = badges.badges_of(db, owner, [row[0] for row in rows])
        changes: Changes = {}
        for owner_id, total, recent in rows:
            due = earned(total=total, recent=recent, rules=self._rules, rank_cutoffs=self._cutoffs)
            has = frozenset(item.badge for item in present.get(owner_id, ()))
            if due != has:
                changes[owner_id] = (due - has, has - due)
        return changes, rows[-1][0] if len(rows) == CHUNK else 0
