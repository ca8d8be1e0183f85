"""Top lists of volunteers, computers and teams, ranks in them, and badges."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from cobblestone.domain.statistics import CreditStatement
from cobblestone.policy.credit.history import RANKED_RECENT, Badge, BadgeKind, n_best
from cobblestone.store.averages import CREDIT
from cobblestone.store.credit.app_credit import TABLES, Owner
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.engine import Row

PAGE_SIZE = 25
MAX_PAGE = 400


class Order(StrEnum):
    """The sort order of a top list."""

    RECENT = "recent"
    TOTAL = "total"

    @property
    def column(self) -> str:
        """Return the column of a table with credit."""
        return "expavg_credit" if self is Order.RECENT else "total_credit"


@dataclass(frozen=True, slots=True)
class Ranked:
    """One row of a top list: the owner, and the credit listed (of all apps or of one)."""

    id: int
    credit: CreditStatement


#: Who stands in top lists: the condition of their indexes.
SHOWN: Mapping[Owner, str] = {
    Owner.USER: "erased_time IS NULL",
    Owner.HOST: "merged_into IS NULL AND removed_time IS NULL",
    Owner.TEAM: "1 = 1",
}


def top(db: Database, owner: Owner, order: Order, *, page: int, app_id: int | None = None) -> list[Ranked]:
    """Return a page (from 0) of a top list, with one more row if there is a next page."""
    table, condition = TABLES[owner], SHOWN[owner]
    bounds = (PAGE_SIZE + 1, min(page, MAX_PAGE) * PAGE_SIZE)
    if app_id is None:
        rows = db.query(
            f"SELECT {CREDIT.columns}, id FROM {table} WHERE {condition}"
            f" ORDER BY {order.column} DESC, id DESC LIMIT ? OFFSET ?",
            bounds,
        )
    else:
        rows = db.query(
            f"SELECT {CREDIT.of('c')}, c.owner_id FROM app_credit c JOIN {table} t"
            f" ON t.id = c.owner_id WHERE c.owner = ? AND c.app_id = ? AND {condition}"
            f" ORDER BY c.{order.column} DESC LIMIT ? OFFSET ?",
            (owner, app_id, *bounds),
        )
    return [_ranked(row) for row in rows]


def _ranked(row: Row) -> Ranked:
    return Ranked(row[-1], CREDIT.load(row))


@dataclass(frozen=True, slots=True, kw_only=True)
class RankPlace:
    """The rank of an owner in a top list of all apps."""

    rank: int  #: from 1
    of: int  #: how many have credit
    above: tuple[Ranked, ...]  #: next in rank, in the order of the list
    itself: Ranked
    below: tuple[Ranked, ...]

    @property
    def rows(self) -> list[tuple[int, Ranked]]:
        """Return the part of the list around it, with ranks."""
        first = self.rank - len(self.above)
        return list(enumerate((*self.above, self.itself, *self.below), start=first))


Outline = tuple[int, list[Row]]
Keep = Callable[[Hashable, Callable[[], Outline]], Outline]
#: In longer lists a rank is counted from the nearest of some places that are kept, every `STEP`th of all.
LONG, STEP = 100_000, 2_000
BESIDE = 3


def place(db: Database, owner: Owner, order: Order, owner_id: int, keep: Keep) -> RankPlace | None:
    """Return an owner's rank; None without credit, or for owners not in the lists.

    Ranks are counted in the index alone: a look at all of 100,000 takes milliseconds.  ``keep`` returns what a function finds, or
    found for the same key a short time ago: how long the list is, and for long ones credit and number of some of its owners.
    """
    table, column = TABLES[owner], order.column
    shown, ranked = f"FROM {table} WHERE {SHOWN[owner]}", f"{column} > 0"
    columns = f"SELECT {CREDIT.columns}, id {shown}"
    own = db.one(f"{columns} AND {ranked} AND id = ?", (owner_id,))
    if own is None:
        return None
    itself = _ranked(own)
    credit = itself.credit
    here = (credit.recent.value if order is Order.RECENT else credit.total, owner_id)
    of, marks = keep(("rank", owner, order), lambda: _outline(db, column, f"{shown} AND {ranked}"))
    n = bisect_left(marks, True, key=lambda mark: tuple(mark) <= here)
    # Upwards without the condition that there is credit: SQLite would begin at it, and not here.
    up, down = f"AND ({column}, id) > (?, ?)", f"AND ({column}, id) < (?, ?)"
    n_above = (n - 1) * STEP + db.number(f"SELECT count(*) {shown} {up} {down}", (*here, *marks[n - 1]))
    above = db.query(f"{columns} {up} ORDER BY {column}, id LIMIT {BESIDE}", here)
    below = db.query(f"{columns} {down} AND {ranked} ORDER BY {column} DESC, id DESC LIMIT {BESIDE}", here)
    return RankPlace(
        rank=n_above + 1,
        of=max(of, n_above + 1),
        above=tuple(_ranked(row) for row in reversed(above)),
        itself=itself,
        below=tuple(_ranked(row) for row in below),
    )


def _outline(db: Database, column: str, shown: str) -> Outline:
    of = db.number(f"SELECT count(*) {shown}")
    places = f"SELECT {column}, id, row_number() OVER (ORDER BY {column} DESC, id DESC) AS place {shown}"
    every = f"SELECT {column}, id FROM ({places}) p WHERE place % {STEP} = 0 ORDER BY place"
    return of, [(1e300, 0), *(db.query(every) if of > LONG else ())]


def credit_after(db: Database, owner: Owner, after: int, *, limit: int) -> list[tuple[int, float, float]]:
    """Return number, total and recent average credit of some owners after a number; 0 for those not in the lists."""
    rows = db.query(
        f"SELECT id, total_credit, expavg_credit, CASE WHEN {SHOWN[owner]} THEN 1 ELSE 0 END FROM {TABLES[owner]}"
        " WHERE id > ? ORDER BY id LIMIT ?",
        (after, limit),
    )
    return [(id_, total * shown, recent * shown) for id_, total, recent, shown in rows]


def rank_cutoff(db: Database, owner: Owner, percent: float) -> float | None:
    """Return the recent average credit of the last one among the best so many per cent; None if there are none."""
    ranked = f"FROM {TABLES[owner]} WHERE {SHOWN[owner]} AND expavg_credit >= {RANKED_RECENT}"
    n_ranked = int(db.value(f"SELECT count(*) {ranked}"))
    if not n_ranked:
        return None
    last = n_best(n_ranked, percent) - 1
    return float(
        db.value(f"SELECT expavg_credit {ranked} ORDER BY expavg_credit DESC LIMIT 1 OFFSET ?", (last,))
    )


@dataclass(frozen=True, slots=True)
class OwnBadge:
    """A badge of an owner, since when (Unix seconds)."""

    badge: Badge
    since: float


def known_badges(db: Database) -> list[tuple[int, Badge]]:
    """Return the badges that the project gives, with their numbers."""
    rows = db.query("SELECT id, kind, level FROM badge ORDER BY id")
    return [(id_, Badge(BadgeKind(kind), level)) for id_, kind, level in rows]


def badge_ids(tx: Transaction, badges: Sequence[Badge]) -> dict[Badge, int]:
    """Return the numbers of a project's badges, and remove those that it no longer gives."""
    tx.execute_many(
        "INSERT INTO badge (kind, level) VALUES (?, ?) ON CONFLICT (kind, level) DO NOTHING",
        [(badge.kind, badge.level) for badge in badges],
    )
    found = {badge: id_ for id_, badge in known_badges(tx)}
    given = set(badges)
    old = [id_ for badge, id_ in found.items() if badge not in given]
    if old:
        # Without an index by badge: this happens only after the settings have changed.
        tx.execute_many("DELETE FROM badge_owner WHERE badge_id = ?", [(id_,) for id_ in old])
        tx.execute_many("DELETE FROM badge WHERE id = ?", [(id_,) for id_ in old])
    return {badge: found[badge] for badge in badges}


def badges_of(db: Database, owner: Owner, owner_ids: Iterable[int]) -> dict[int, list[OwnBadge]]:
    """Return the badges of several owners, by number; owners without any are left out."""
    found: defaultdict[int, list[OwnBadge]] = defaultdict(list)
    for owner_id, kind, level, since in db.query_in(
        "SELECT o.owner_id, b.kind, b.level, o.create_time FROM badge_owner o JOIN badge b ON b.id = o.badge_id"
        " WHERE o.owner = ? AND o.owner_id IN (??) ORDER BY b.kind DESC, b.level",
        list(owner_ids),
        (owner,),
    ):
        found[owner_id].append(OwnBadge(Badge(BadgeKind(kind), level), since))
    return dict(found)


def give_badges(
    tx: Transaction,
    owner: Owner,
    changes: Mapping[int, tuple[frozenset[Badge], frozenset[Badge]]],
    ids: Mapping[Badge, int],
    *,
    now: float,
) -> None:
    """Write new and lost badges, by number of the owner."""
    tx.execute_many(
        "DELETE FROM badge_owner WHERE owner = ? AND owner_id = ? AND badge_id = ?",
        [(owner, owner_id, ids[badge]) for owner_id, (_, lost) in changes.items() for badge in lost],
    )
    tx.execute_many(
        "INSERT INTO badge_owner (owner, owner_id, badge_id, create_time) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (owner, owner_id, badge_id) DO NOTHING",
        [(owner, owner_id, ids[badge], now) for owner_id, (new, _) in changes.items() for badge in new],
    )
