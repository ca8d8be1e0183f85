"""Trickle messages in both directions."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from cobblestone.domain.values import HostId
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.mapping import RowMapper


@dataclass(frozen=True, slots=True)
class StoredTrickle:
    """A trickle-up as it was received."""

    id: int
    host_id: HostId
    result_name: str
    variety: str
    time: int
    text: str
    receive_time: float
    handled: bool


@dataclass(frozen=True, slots=True)
class WaitingMessage:
    """A trickle-down that was not yet sent to its host."""

    id: int
    result_name: str
    text: str


_TRICKLES = RowMapper(StoredTrickle)
_WAITING = RowMapper(WaitingMessage)


def store_trickle(
    tx: Transaction, host_id: HostId, *, result_name: str, variety: str, time: int, text: str, now: float
) -> bool:
    """Store a trickle-up once, as clients repeat unacknowledged ones.  Return False if it was already there."""
    digest = hashlib.sha256(f"{variety}\n{text}".encode()).hexdigest()[:32]
    stored = tx.execute(
        "INSERT INTO msg_from_host (host_id, result_name, variety, time, text, digest, receive_time)"
        " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (host_id, result_name, time, digest) DO NOTHING",
        (host_id, result_name, variety, time, text, digest, now),
    )
    return stored == 1


def trickles(
    db: Database, *, after: int = 0, limit: int = 1000, unhandled: bool = False, variety: str | None = None
) -> list[StoredTrickle]:
    """Return trickles in the order of arrival, optionally only those of one variety."""
    condition = " AND handled = 0" if unhandled else ""
    parameters: list[object] = [after]
    if variety is not None:
        condition += " AND variety = ?"
        parameters.append(variety)
    source = f"msg_from_host WHERE id > ?{condition} ORDER BY id LIMIT ?"
    return db.load(_TRICKLES, source, [*parameters, limit])


def mark_handled(tx: Transaction, trickle_id: int) -> None:
    """Record that a trickle was handled."""
    tx.execute("UPDATE msg_from_host SET handled = 1 WHERE id = ?", (trickle_id,))


def send_trickle_down(tx: Transaction, host_id: HostId, *, result_name: str, text: str, now: float) -> int:
    """Queue a message for a running job; it is sent with the reply to the host's next request."""
    return tx.insert(
        "INSERT INTO msg_to_host (host_id, result_name, text, create_time) VALUES (?, ?, ?, ?)",
        (host_id, result_name, text, now),
    )


def waiting_messages(db: Database, host_id: HostId, *, limit: int = 20) -> list[WaitingMessage]:
    """Return messages not yet sent to this host."""
    source = f"msg_to_host WHERE host_id = ? AND sent_time IS NULL ORDER BY id LIMIT {limit}"
    return db.load(_WAITING, source, (host_id,))


def mark_sent(tx: Transaction, message_ids: list[int], *, now: float) -> None:
    """Record that messages were sent (the protocol has no acknowledgement for them)."""
    tx.execute_many("UPDATE msg_to_host SET sent_time = ? WHERE id = ?", [(now, id_) for id_ in message_ids])
