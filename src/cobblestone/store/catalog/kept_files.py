"""Files that computers were asked to keep, their reports about them, and the questions asked.

A file counts for one computer only within an account, and within a network: a second copy there may be the first one, looked at
from elsewhere.  Which of them it is, the daemon decides (`count`), one after the other; requests only note what was listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from cobblestone.policy.storage import KeptFile, StorageRecord
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.mapping import RowMapper


@dataclass(frozen=True, slots=True)
class Listed:
    """The effect of a computer's list."""

    counted: tuple[KeptFile, ...]  #: that count for it
    unneeded: tuple[str, ...]  #: that the project itself has no more
    new: bool  #: it is to be decided whether some count


_RECORDS = RowMapper(StorageRecord)
_SAVED = _RECORDS.writer()
_SAVE = _SAVED.upsert("host_storage", "host_id")


def ask(tx: Transaction, host_id: int, files: Iterable[tuple[str, int]]) -> None:
    """Record that a computer was sent files, each (name, bytes), to keep."""
    tx.execute_many(
        "INSERT INTO kept_file (host_id, file_name, nbytes) VALUES (?, ?, ?) ON CONFLICT (host_id, file_name) DO NOTHING",
        [(host_id, name, nbytes) for name, nbytes in files],
    )


def listed(tx: Transaction, host_id: int, names: AbstractSet[str], *, user_id: int, network: str) -> Listed:
    """Record which files a computer lists, of those that it was asked to keep.

    What it listed before and does not list now is gone.  After it has moved to another network everything is decided again.
    """
    rows = tx.query(
        "SELECT k.file_name, k.nbytes, k.listed, k.counted, k.user_id, k.network, f.name FROM kept_file k"
        " LEFT JOIN file f ON f.name = k.file_name WHERE k.host_id = ? ORDER BY k.file_name",
        (host_id,),
    )
    gone = [row[0] for row in rows if row[2] and row[0] not in names]
    forget(tx, [(host_id, name) for name in gone])
    here = [row for row in rows if row[0] in names and row[6] is not None]
    new = [row[0] for row in here if not row[2] or row[4:6] != (user_id, network)]
    tx.execute_many(
        "UPDATE kept_file SET listed = 1, counted = 0, user_id = ?, network = ? WHERE host_id = ? AND file_name = ?",
        [(user_id, network, host_id, name) for name in new],
    )
    undecided = set(new)
    return Listed(
        counted=tuple(
            KeptFile(name=row[0], nbytes=row[1]) for row in here if row[3] == 1 and row[0] not in undecided
        ),
        unneeded=tuple(row[0] for row in rows if row[0] in names and row[6] is None),
        new=bool(new),
    )


def forget(tx: Transaction, keys: Sequence[tuple[int, str]]) -> None:
    """Forget files, each (computer, name); where one may have counted, other holders may count now."""
    counting = (
        "SELECT k.file_name FROM kept_file k WHERE k.host_id = ? AND k.file_name = ? AND k.counted <> -1"
    )
    tx.execute_many(f"UPDATE kept_file SET counted = 0 WHERE file_name = ({counting}) AND counted = -1", keys)
    tx.execute_many("DELETE FROM kept_file WHERE host_id = ? AND file_name = ?", keys)


_COUNTED = "SELECT DISTINCT {0} FROM kept_file WHERE file_name = ? AND counted = 1 AND {0} IN (??)"


def count(tx: Transaction, *, limit: int) -> int:
    """Decide for some listed files whether they count for their computers; return how many were checked."""
    rows = tx.query(
        "SELECT host_id, file_name, user_id, network FROM kept_file WHERE listed = 1 AND counted = 0"
        " ORDER BY host_id, file_name LIMIT ?",
        (limit,),
    )
    # Asked for all of them together: every computer may hold the same file.
    taken = {
        (name, found[0])
        for name in {row[1] for row in rows}
        for column, place in (("user_id", 2), ("network", 3))
        for found in tx.query_in(_COUNTED.format(column), [row[place] for row in rows], (name,))
    }
    decided: list[tuple[int, int, str]] = []
    for host_id, name, user_id, network in rows:
        own = {(name, user_id), (name, network)}
        counts = own.isdisjoint(taken)
        taken |= own if counts else set()
        decided.append((1 if counts else -1, host_id, name))
    tx.execute_many("UPDATE kept_file SET counted = ? WHERE host_id = ? AND file_name = ?", decided)
    return len(rows)


def forget_absent(tx: Transaction, *, before: float, limit: int) -> int:
    """Forget computers that have not called since ``before`` (Unix seconds), so that others' copies count; return how many."""
    absent = "SELECT host_id FROM host_storage WHERE seen < ? ORDER BY host_id LIMIT ?"
    hosts = [row[0] for row in tx.query(absent, (before, limit))]
    forget_hosts(tx, hosts)
    return len(hosts)


def forget_hosts(tx: Transaction, hosts: Sequence[int]) -> None:
    """Forget computers that no longer keep anything, or were merged into another."""
    rows = tx.query_in("SELECT host_id, file_name FROM kept_file WHERE host_id IN (??)", hosts)
    forget(tx, [(host_id, name) for host_id, name in rows])
    tx.execute_many("DELETE FROM host_storage WHERE host_id = ?", [(host_id,) for host_id in hosts])


def record_of(db: Database, host_id: int) -> StorageRecord | None:
    """Return the storage record of a computer."""
    return db.first(_RECORDS, "host_storage WHERE host_id = ?", (host_id,))


def save(tx: Transaction, host_id: int, record: StorageRecord) -> None:
    """Store the storage record of a computer."""
    tx.execute(_SAVE, (*_SAVED.values(record), host_id))


def to_judge(db: Database, *, limit: int) -> list[tuple[int, int, StorageRecord]]:
    """Return computers with answers to be checked: number, volunteer's number, record."""
    rows = db.query(
        f"SELECT s.host_id, h.user_id, {_RECORDS.of('s')} FROM host_storage s JOIN host h ON h.id = s.host_id"
        " WHERE s.answer <> '' ORDER BY s.host_id LIMIT ?",
        (limit,),
    )
    return [(row[0], row[1], _RECORDS.load(row[2:])) for row in rows]
