"""The queue of outgoing mails.

A mail is stored in the transaction that is its cause, and sent by a daemon afterwards: neither a crash nor a mail server that is
away loses it.  It may then be sent twice, when the process dies between sending and noting it; its Message-ID stays the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.mapping import RowMapper

MAX_ATTEMPTS = 12
KEPT_SECONDS = 30 * 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """A mail to be sent."""

    id: int
    create_time: float  #: Unix seconds
    recipient: str
    subject: str
    body: str
    attempts: int


_MAILS = RowMapper(Mail)


def post(tx: Transaction, *, recipient: str, subject: str, body: str, now: float) -> int:
    """Queue a mail; return its id."""
    tx.wake("mailer")
    return tx.insert(
        "INSERT INTO mail (create_time, recipient, subject, body, next_time) VALUES (?, ?, ?, ?, ?)",
        (now, recipient, subject, body, now),
    )


def waiting(db: Database, *, now: float, limit: int = 20) -> Sequence[Mail]:
    """Return mails that are due, longest waiting first."""
    due = "mail WHERE sent_time IS NULL AND next_time <= ? AND attempts < ? ORDER BY next_time, id LIMIT ?"
    return db.load(_MAILS, due, (now, MAX_ATTEMPTS, limit))


def set_sent(tx: Transaction, mail_id: int, *, now: float) -> None:
    """Record that a mail was sent; its text, which may contain a secret link, is deleted."""
    tx.execute("UPDATE mail SET sent_time = ?, body = '', error = '' WHERE id = ?", (now, mail_id))


def set_failed(tx: Transaction, mail_id: int, error: str, *, next_time: float) -> None:
    """Record that a mail could not be sent, and when to retry."""
    tx.execute(
        "UPDATE mail SET attempts = attempts + 1, error = ?, next_time = ? WHERE id = ?",
        (error[:500], next_time, mail_id),
    )
