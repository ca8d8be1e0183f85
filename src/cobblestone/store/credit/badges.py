"""Badges of volunteers, computers and teams, as they were given last."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cobblestone.policy.credit.badges import Badge, BadgeKind
from cobblestone.store.credit.app_credit import Owner
from cobblestone.store.engine.database import Database, Transaction


@dataclass(frozen=True, slots=True)
class OwnBadge:
    """A badge that somebody has, since when (Unix seconds)."""

    badge: Badge
    since: float


def badge_ids(tx: Transaction, badges: Sequence[Badge]) -> dict[Badge, int]:
    """Return the numbers of a project's badges, and take away those that it does not give any more."""
    tx.execute_many(
        "INSERT INTO badge (kind, level) VALUES (?, ?) ON CONFLICT (kind, level) DO NOTHING",
        [(badge.kind, badge.level) for badge in badges],
    )
    found = {
        Badge(BadgeKind(kind), level): int(id_)
        for id_, kind, level in tx.query("SELECT id, kind, level FROM badge ORDER BY id")
    }
    given = set(badges)
    old = [id_ for badge, id_ in found.items() if badge not in given]
    if old:
        # Without an index by badge: this happens only after the settings have changed.
        tx.execute_many("DELETE FROM badge_owner WHERE badge_id = ?", [(id_,) for id_ in old])
        tx.execute_many("DELETE FROM badge WHERE id = ?", [(id_,) for id_ in old])
    return {badge: found[badge] for badge in badges}


def badges_of(db: Database, owner: Owner, owner_ids: Iterable[int]) -> dict[int, list[OwnBadge]]:
    """Return the badges of several, by number; who has none is left out."""
    found: defaultdict[int, list[OwnBadge]] = defaultdict(list)
    for owner_id, kind, level, since in db.query_in(
        "SELECT o.owner_id, b.kind, b.level, o.create_time FROM badge_owner o JOIN badge b ON b.id = o.badge_id"
        " WHERE o.owner = ? AND o.owner_id IN (??) ORDER BY b.kind DESC, b.level",
        list(owner_ids),
        (owner,),
    ):
        found[owner_id].append(OwnBadge(Badge(BadgeKind(kind), level), since))
    return dict(found)


def give(
    tx: Transaction,
    owner: Owner,
    changes: Mapping[int, tuple[frozenset[Badge], frozenset[Badge]]],
    ids: Mapping[Badge, int],
    *,
    now: float,
) -> None:
    """Write changes, by number of the owner: badges that are new, and those that are lost."""
    tx.execute_many(
        "DELETE FROM badge_owner WHERE owner = ? AND owner_id = ? AND badge_id = ?",
        [(owner, owner_id, ids[badge]) for owner_id, (_, lost) in changes.items() for badge in lost],
    )
    tx.execute_many(
        "INSERT INTO badge_owner (owner, owner_id, badge_id, create_time) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (owner, owner_id, badge_id) DO NOTHING",
        [(owner, owner_id, ids[badge], now) for owner_id, (new, _) in changes.items() for badge in new],
    )
