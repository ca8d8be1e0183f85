"""Replies to creating requests, kept for a while so that a repetition does not create a second thing."""

from __future__ import annotations

from cobblestone.domain.errors import Conflict
from cobblestone.store.engine.database import Database, Transaction

KEEP_SECONDS = 7 * 86400.0


def recall(db: Database, request_key: str, digest: str) -> str | None:
    """Return the reply to the request with this key, or None.

    Raises:
        Conflict: the key belongs to a request with another body (``digest``).
    """
    row = db.one("SELECT digest, reply FROM api_reply WHERE request_key = ?", (request_key,))
    if row is None:
        return None
    if row[0] != digest:
        raise Conflict(
            "This Idempotency-Key was used for a request with another body. Use a new key for each new request."
        )
    return str(row[1])


def remember(tx: Transaction, request_key: str, digest: str, reply: str, *, now: float) -> None:
    """Keep a reply, in the transaction that does what it says; forgets old ones."""
    tx.execute("DELETE FROM api_reply WHERE expire_time < ?", (now,))
    tx.execute(
        "INSERT INTO api_reply (request_key, digest, reply, expire_time) VALUES (?, ?, ?, ?)",
        (request_key, digest, reply, now + KEEP_SECONDS),
    )
