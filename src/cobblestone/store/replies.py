"""Replies to creating requests, kept for a while so that a repetition does not create a second thing."""

from __future__ import annotations

from cobblestone.domain.errors import Conflict
from cobblestone.store.database import Database, Transaction

KEEP_SECONDS = 7 * 86400.0

_PREFIX = "request:"


def recall(db: Database, request_key: str, digest: str) -> str | None:
    """The reply to the request with this key, or None.

    Raises:
        Conflict: the key belongs to a request with another body (``digest``).
    """
    text = db.value("SELECT value FROM meta WHERE key = ?", (_PREFIX + request_key,))
    if text is None:
        return None
    _, earlier, reply = str(text).split(" ", 2)
    if earlier != digest:
        raise Conflict(
            "This Idempotency-Key was used for a request with another body. Use a new key for each new request."
        )
    return reply


def remember(tx: Transaction, request_key: str, digest: str, reply: str, *, now: float) -> None:
    """Keep a reply, in the transaction that does what it says; forgets old ones."""
    # The time comes first and has a fixed width, so that texts compare like numbers.
    tx.execute(
        "DELETE FROM meta WHERE key LIKE ? AND value < ?",
        (_PREFIX + "%", f"{max(0, int(now - KEEP_SECONDS)):012d}"),
    )
    tx.execute(
        "INSERT INTO meta (key, value) VALUES (?, ?)",
        (_PREFIX + request_key, f"{int(now):012d} {digest} {reply}"),
    )
