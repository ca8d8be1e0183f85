"""Sessions that were logged out before their time.

A session itself is a signed cookie (`cobblestone.service.pages.sessions`).
"""

from __future__ import annotations

from cobblestone.domain.ids import UserId
from cobblestone.domain.people import User
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.people import users


def user_of_session(db: Database, user_id: UserId, session_key: str) -> User | None:
    """Return the user of a session; None: there is none, or the session was logged out."""
    ended = db.one("SELECT 1 FROM ended_session WHERE session_hash = ?", (session_key,))
    return None if ended else users.user_by_id(db, user_id)


def end_session(tx: Transaction, session_key: str, *, expire_time: float) -> None:
    """Log one session out; ``expire_time`` (Unix seconds): when its cookie is worth nothing anyway."""
    tx.execute(
        "INSERT INTO ended_session (session_hash, expire_time) VALUES (?, ?) ON CONFLICT (session_hash) DO NOTHING",
        (session_key, expire_time),
    )


def forget_ended(tx: Transaction, *, now: float, limit: int = 1000) -> int:
    """Forget logged-out sessions whose time is over; return how many."""
    return tx.execute(
        "DELETE FROM ended_session WHERE session_hash IN"
        " (SELECT session_hash FROM ended_session WHERE expire_time < ? ORDER BY expire_time LIMIT ?)",
        (now, limit),
    )
