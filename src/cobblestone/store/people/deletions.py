"""Who is to be forgotten by statistics sites that once got them in an export."""

from __future__ import annotations

from cobblestone.domain.exports import Deletion
from cobblestone.domain.ids import UserId
from cobblestone.domain.people import ConsentKind
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.people.consents import EXPORTED
from cobblestone.wire.identity import external_cpid

_AGREED_ONCE = f"EXISTS (SELECT 1 FROM consent c WHERE c.user_id = u.id AND c.kind = '{ConsentKind.STATISTICS}' AND c.agreed = 1)"
_TOOK_BACK = (
    "FROM consent t JOIN user_account u ON u.id = t.user_id"
    f" WHERE t.kind = '{ConsentKind.STATISTICS}' AND t.agreed = 0 AND t.time >= ? AND u.erased_time IS NULL"
    " AND t.id = (SELECT MAX(c.id) FROM consent c WHERE c.user_id = t.user_id AND c.kind = t.kind)"
    f" AND {_AGREED_ONCE}"
)


def announce_user(tx: Transaction, user_id: UserId, *, now: float) -> None:
    """Note the ids by which sites know a user and the user's computers, before they are erased; nothing of who never agreed."""
    row = tx.one(
        f"SELECT u.cross_project_id, u.email_addr FROM user_account u WHERE u.id = ? AND {_AGREED_ONCE}",
        (user_id,),
    )
    if row is None:
        return
    insert = "INSERT INTO deletion (owner, owner_id, cpid, time) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
    tx.execute(insert, ("user", user_id, external_cpid(*row), now))
    hosts = tx.query("SELECT id, host_cpid FROM host WHERE user_id = ?", (user_id,))
    tx.execute_many(insert, [("host", host_id, cpid, now) for host_id, cpid in hosts])


def forget_announced(tx: Transaction, *, before: float) -> int:
    """Drop deletions that were announced long enough; how many."""
    return tx.execute("DELETE FROM deletion WHERE time < ?", (before,))


def deleted_users(db: Database, *, since: float) -> list[Deletion]:
    """Return users who were erased, or took their agreement back, since then."""
    erased = db.query("SELECT owner_id, cpid FROM deletion WHERE owner = 'user' AND time >= ?", (since,))
    took_back = db.query(f"SELECT u.id, u.cross_project_id, u.email_addr {_TOOK_BACK}", (since,))
    found = {Deletion(*row) for row in erased}
    found.update(Deletion(user_id, external_cpid(*keys)) for user_id, *keys in took_back)
    return sorted(found, key=lambda each: each.id)


def deleted_hosts(db: Database, *, since: float) -> list[Deletion]:
    """Return the computers of `deleted_users`, and those that their owners removed since then."""
    found = {
        Deletion(*row)
        for query in (
            "SELECT owner_id, cpid FROM deletion WHERE owner = 'host' AND time >= ?",
            f"SELECT h.id, h.host_cpid FROM host h WHERE h.user_id IN (SELECT u.id {_TOOK_BACK})",
            (
                "SELECT h.id, h.host_cpid FROM host h JOIN user_account u ON u.id = h.user_id"
                f" WHERE h.removed_time >= ? AND {EXPORTED}"
            ),
        )
        for row in db.query(query, (since,))
    }
    return sorted(found, key=lambda each: each.id)
