"""Given and withdrawn consent, and deletions announced to statistics sites.

The table of consents is a log: nothing in it is changed, and the last row of a kind holds.  Who was never asked has not agreed.
"""

from __future__ import annotations

from dataclasses import dataclass

from cobblestone.domain.exports import Deletion
from cobblestone.domain.people import ConsentKind
from cobblestone.domain.values import UserId
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.mapping import RowMapper
from cobblestone.wire.project.account import external_cpid

#: Of a user ``u``: that the agreement to statistics holds, and the account is not to be erased.
#:
#: Whatever leaves the project about people is about these alone.
EXPORTED = (
    "u.erase_time IS NULL AND u.erased_time IS NULL AND COALESCE((SELECT c.agreed FROM consent c WHERE c.user_id = u.id"
    f" AND c.kind = '{ConsentKind.STATISTICS}' ORDER BY c.id DESC LIMIT 1), 0) = 1"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """An answer of a user."""

    kind: ConsentKind
    agreed: bool
    time: float  #: Unix seconds
    source: str  #: page or program where it was said


_CONSENTS = RowMapper(Consent)


def record(
    tx: Transaction, user_id: UserId, kind: ConsentKind, agreed: bool, *, source: str, now: float
) -> None:
    """Store a user's answer, unless it is unchanged."""
    last = latest(tx, user_id, kind)
    if last is None or last.agreed != agreed:
        tx.execute(
            "INSERT INTO consent (user_id, kind, agreed, time, source) VALUES (?, ?, ?, ?, ?)",
            (user_id, kind, int(agreed), now, source),
        )


def latest(db: Database, user_id: UserId, kind: ConsentKind) -> Consent | None:
    """Return a user's last answer; None if there is none."""
    last = "consent WHERE user_id = ? AND kind = ? ORDER BY id DESC LIMIT 1"
    return db.first(_CONSENTS, last, (user_id, kind))


def said_by(db: Database, user_id: UserId, *, limit: int = 50) -> list[Consent]:
    """Return a user's answers, newest first."""
    return db.load(_CONSENTS, "consent WHERE user_id = ? ORDER BY id DESC LIMIT ?", (user_id, limit))


_AGREED_ONCE = f"EXISTS (SELECT 1 FROM consent c WHERE c.user_id = u.id AND c.kind = '{ConsentKind.STATISTICS}' AND c.agreed = 1)"
_TOOK_BACK = (
    "FROM consent t JOIN user_account u ON u.id = t.user_id"
    f" WHERE t.kind = '{ConsentKind.STATISTICS}' AND t.agreed = 0 AND t.time >= ? AND u.erased_time IS NULL"
    f" AND t.id = (SELECT MAX(c.id) FROM consent c WHERE c.user_id = t.user_id AND c.kind = t.kind) AND {_AGREED_ONCE}"
)


def announce_user(tx: Transaction, user_id: UserId, *, now: float) -> None:
    """Record the ids of a user and the user's computers for sites before erasing them; nothing without earlier consent."""
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
    """Delete deletions that were announced long enough; return how many."""
    return tx.execute("DELETE FROM deletion WHERE time < ?", (before,))


def deleted_users(db: Database, *, since: float) -> list[Deletion]:
    """Return users who were erased, or withdrew their consent, since then."""
    erased = db.query("SELECT owner_id, cpid FROM deletion WHERE owner = 'user' AND time >= ?", (since,))
    took_back = db.query(f"SELECT u.id, u.cross_project_id, u.email_addr {_TOOK_BACK}", (since,))
    found = {Deletion(*row) for row in erased}
    found.update(Deletion(user_id, external_cpid(*keys)) for user_id, *keys in took_back)
    return sorted(found, key=lambda each: each.id)


def deleted_hosts(db: Database, *, since: float) -> list[Deletion]:
    """Return the computers of `deleted_users`, and those removed by their owners since then."""
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
