"""Webhooks: addresses where a batch's finished jobs are told.

A message is no row: it is made of the batch's list of finished jobs behind the position up to which all were told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cobblestone.domain.values import BatchId
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.mapping import RowMapper


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """Where to tell a batch's finished jobs, and how far that has come."""

    batch_id: BatchId
    url: str
    secret: str  #: signs the messages
    told_seq: int = 0  #: position in the batch's list of finished jobs
    attempts: int = 0  #: that failed since the last message arrived
    error: str = ""  #: of the last attempt
    next_time: float | None = None  #: Unix seconds; None: all was told, or it was given up

    @property
    def state(self) -> str:
        """Return ``waiting``, ``failing``, ``given up`` or ``done``."""
        if self.next_time is None:
            return "given up" if self.error else "done"
        return "failing" if self.error else "waiting"


_WEBHOOKS = RowMapper(Webhook)


def webhook_of(db: Database, batch_id: BatchId) -> Webhook | None:
    """Return the webhook of a batch, if it has one."""
    return db.first(_WEBHOOKS, "webhook WHERE batch_id = ?", (batch_id,))


def put_webhook(tx: Transaction, batch_id: BatchId, *, url: str, secret: str, now: float) -> None:
    """Give a batch a webhook, in place of any that it has; it begins with the first finished job."""
    remove_webhook(tx, batch_id)
    tx.execute(
        "INSERT INTO webhook (batch_id, url, secret, next_time) VALUES (?, ?, ?, ?)",
        (batch_id, url, secret, now),
    )
    tx.wake("webhooks")


def remove_webhook(tx: Transaction, batch_id: BatchId) -> bool:
    """Tell nothing more about a batch; return whether it had a webhook."""
    return tx.execute("DELETE FROM webhook WHERE batch_id = ?", (batch_id,)) > 0


def with_news(db: Database, *, now: float, limit: int) -> Sequence[Webhook]:
    """Return webhooks that are due and have something to tell, longest waiting first."""
    return db.load(
        _WEBHOOKS,
        "webhook h WHERE h.next_time <= ? AND (EXISTS (SELECT 1 FROM workunit w WHERE w.batch_id = h.batch_id"
        " AND w.completed_seq > h.told_seq) OR EXISTS (SELECT 1 FROM batch b WHERE b.id = h.batch_id"
        " AND b.complete_time IS NOT NULL)) ORDER BY h.next_time, h.batch_id LIMIT ?",
        (now, limit),
    )


def note(
    tx: Transaction, before: Webhook, *, told_seq: int, attempts: int, error: str, next_time: float | None
) -> None:
    """Note how a message fared, unless the webhook was replaced or removed meanwhile."""
    tx.execute(
        "UPDATE webhook SET told_seq = ?, attempts = ?, error = ?, next_time = ? WHERE batch_id = ? AND secret = ?",
        (told_seq, attempts, error[:300], next_time, before.batch_id, before.secret),
    )
