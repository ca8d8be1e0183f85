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


#: Waiting messages of one computer that a request looks at.
MOST_WAITING = 1000
_TRICKLES = RowMapper(StoredTrickle)


def store_trickle(
    tx: Transaction, host_id: HostId, *, result_name: str, variety: str, time: int, text: str, now: float
) -> None:
    """Store a trickle-up once, as clients repeat unacknowledged ones."""
    digest = hashlib.sha256(f"{variety}\n{text}".encode()).hexdigest()[:32]
    tx.execute_many(
        "INSERT INTO msg_from_host (host_id, result_name, variety, time, text, digest, receive_time)"
        " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (host_id, result_name, time, digest) DO NOTHING",
        [(host_id, result_name, variety, time, text, digest, now)],
    )


def trickles(db: Database, *, after: int = 0, limit: int = 1000) -> list[StoredTrickle]:
    """Return trickles in the order of arrival."""
    return db.load(_TRICKLES, "msg_from_host WHERE id > ? ORDER BY id LIMIT ?", (after, limit))


def unhandled_trickles(db: Database, variety: str, *, limit: int) -> list[StoredTrickle]:
    """Return trickles of one variety that wait, in the order of arrival."""
    return db.load(
        _TRICKLES, "msg_from_host WHERE variety = ? AND handled = 0 ORDER BY id LIMIT ?", (variety, limit)
    )


def mark_handled(tx: Transaction, trickle_id: int) -> None:
    """Record that a trickle was handled."""
    tx.execute_many("UPDATE msg_from_host SET handled = 1 WHERE id = ?", [(trickle_id,)])


def send_trickle_down(tx: Transaction, host_id: HostId, *, result_name: str, text: str, now: float) -> int:
    """Queue a message for a running job; it is sent with the reply to the host's next request."""
    return tx.insert(
        "INSERT INTO msg_to_host (host_id, result_name, text, create_time) VALUES (?, ?, ?, ?)",
        (host_id, result_name, text, now),
    )


def waiting_messages(db: Database, host_id: HostId) -> list[tuple[int, str]]:
    """Return the oldest messages not yet sent to this host: their ids, and the names of the results they are for."""
    sql = (
        "SELECT id, result_name FROM msg_to_host WHERE host_id = ? AND sent_time IS NULL ORDER BY id LIMIT ?"
    )
    return [(row[0], row[1]) for row in db.query(sql, (host_id, MOST_WAITING))]


def forget(tx: Transaction, message_ids: list[int]) -> None:
    """Remove messages that nobody waits for."""
    tx.execute_many("DELETE FROM msg_to_host WHERE id = ?", [(id_,) for id_ in message_ids])


def message_texts(db: Database, message_ids: list[int]) -> dict[int, str]:
    """Return the texts of messages to hosts, by id."""
    return dict(db.query_in("SELECT id, text FROM msg_to_host WHERE id IN (??)", message_ids))


def mark_sent(tx: Transaction, message_ids: list[int], *, now: float) -> None:
    """Record that messages were sent (the protocol has no acknowledgement for them)."""
    tx.execute_many("UPDATE msg_to_host SET sent_time = ? WHERE id = ?", [(now, id_) for id_ in message_ids])
