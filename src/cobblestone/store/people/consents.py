"""What people agreed to and took back, with when and where they said it.

The table is a log: nothing in it is changed, and the last row of a kind holds.  Who was never asked has not agreed.
"""

from __future__ import annotations

from dataclasses import dataclass

from cobblestone.domain.ids import UserId
from cobblestone.domain.people import ConsentKind
from cobblestone.store.engine.database import Database, Transaction

EXPORTED = (
    "u.erase_time IS NULL AND u.erased_time IS NULL AND COALESCE((SELECT c.agreed FROM consent c WHERE c.user_id = u.id"
    f" AND c.kind = '{ConsentKind.STATISTICS}' ORDER BY c.id DESC LIMIT 1), 0) = 1"
)
"""Of a user ``u``: that the agreement to statistics holds, and the account is not to be erased.

Whatever leaves the project about people is about these alone.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """What somebody said once."""

    kind: ConsentKind
    agreed: bool
    time: float  #: Unix seconds
    source: str  #: page or program where it was said


def record(
    tx: Transaction, user_id: UserId, kind: ConsentKind, agreed: bool, *, source: str, now: float
) -> None:
    """Store what a user says, unless that is what holds already."""
    last = latest(tx, user_id, kind)
    if last is None or last.agreed != agreed:
        tx.execute(
            "INSERT INTO consent (user_id, kind, agreed, time, source) VALUES (?, ?, ?, ?, ?)",
            (user_id, kind, int(agreed), now, source),
        )


def latest(db: Database, user_id: UserId, kind: ConsentKind) -> Consent | None:
    """Return what a user said last; None: nothing yet."""
    row = db.one(
        "SELECT agreed, time, source FROM consent WHERE user_id = ? AND kind = ? ORDER BY id DESC LIMIT 1",
        (user_id, kind),
    )
    return None if row is None else Consent(kind=kind, agreed=bool(row[0]), time=row[1], source=row[2])


def said_by(db: Database, user_id: UserId, *, limit: int = 50) -> list[Consent]:
    """Return what a user said, the newest first."""
    rows = db.query(
        "SELECT kind, agreed, time, source FROM consent WHERE user_id = ? ORDER BY id DESC LIMIT ?",
        (user_id, limit),
    )
    return [
        Consent(kind=ConsentKind(row[0]), agreed=bool(row[1]), time=row[2], source=row[3]) for row in rows
    ]
