"""What the ledger system keeps: records and events of apps, and results whose credit is provisional.

Who changes them has locked the app's row: of two processes one works after the other, and a second event of the same number is
impossible.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import Any

import msgspec

from cobblestone.domain.values import AppId, AppVersionId, HostId, ResultId, UserId, WorkunitId, value
from cobblestone.policy.credit.ledger_book import KINDS, AppBook, Happening, Inherited
from cobblestone.policy.credit.ledger_system.records import AppRecord, HostKey, HostRecord, VersionRecord
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.mapping import RowMapper

_encode = msgspec.json.Encoder().encode
_decoder = lru_cache(msgspec.json.Decoder)
_decode_app, _decode_version, _decode_host = (
    msgspec.json.Decoder(AppRecord).decode,
    msgspec.json.Decoder(VersionRecord).decode,
    msgspec.json.Decoder(HostRecord).decode,
)


class Audit(IntEnum):
    """Whether a provisional result is computed again."""

    NO = 0
    ASKED = 1
    RIGHT = 2
    WRONG = 3


@value(kw_only=True)
class Escrowed:
    """A result whose credit is provisional."""

    result_id: ResultId
    workunit_id: WorkunitId
    app_id: AppId
    host_id: HostId
    app_version_id: AppVersionId
    usage: str
    user_id: UserId
    price: float
    audit: Audit = Audit.NO

    @property
    def key(self) -> HostKey:
        """Return the record that it is on."""
        return self.host_id, self.app_version_id, self.usage


_ESCROW = RowMapper(Escrowed)
_SAVED_ESCROW = _ESCROW.writer()
_INSERT_ESCROW = _SAVED_ESCROW.insert("escrow")


def read_records(db: Database, app_id: int, host_ids: Collection[int] | None, book: AppBook) -> bool:
    """Put the records of an app, its versions and some hosts (None: all) into a book; return whether the app has one."""
    query = f"SELECT host_id, app_version_id, usage, state FROM ledger_record WHERE app_id = {int(app_id)}"
    found = False
    rows = (
        db.query(query)
        if host_ids is None
        else db.query_in(f"{query} AND host_id IN (??)", [0, *sorted(host_ids)])
    )
    for host_id, version_id, usage, state in rows:
        if host_id:
            book.hosts[host_id, version_id, usage] = _decode_host(state)
        elif version_id:
            book.versions[version_id, usage] = _decode_version(state)
        else:
            book.app, found = _decode_app(state), True
    return found


def save_records(tx: Transaction, app_id: int, book: AppBook) -> None:
    """Store what changed."""
    rows: list[tuple[object, ...]] = [(app_id, 0, 0, "", text_of(book.app))]
    rows += [(app_id, 0, *key, text_of(book.versions[key])) for key in sorted(book.changed_versions)]
    rows += [(app_id, *key, text_of(book.hosts[key])) for key in sorted(book.changed_hosts)]
    tx.execute_many(
        "INSERT INTO ledger_record (app_id, host_id, app_version_id, usage, state) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (app_id, host_id, app_version_id, usage) DO UPDATE SET state = excluded.state",
        rows,
    )


def text_of(record: object) -> str:
    """Return a record, an event or facts as JSON."""
    return _encode(record).decode()


# -- events ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvent:
    """An event of an app, as it was applied."""

    seq: int
    time: float
    event: Happening
    inherited: tuple[Inherited, ...] = ()
    right: tuple[int, ...] = ()  #: results that an audit found again


def last_event(db: Database, app_id: int) -> int:
    """Return the number of an app's newest event; 0 if there is none."""
    return int(db.value("SELECT COALESCE(MAX(seq), 0) FROM ledger_event WHERE app_id = ?", (app_id,)) or 0)


def save_events(tx: Transaction, app_id: int, events: Iterable[StoredEvent]) -> None:
    """Store events that were applied, with numbers that follow each other."""
    rows: list[tuple[object, ...]] = []
    for each in events:
        facts: dict[str, object] = {type(each.event).__name__: each.event}
        if each.inherited:
            facts["inherited"] = each.inherited
        if each.right:
            facts["right"] = each.right
        rows.append((app_id, each.seq, each.time, text_of(facts)))
    tx.execute_many("INSERT INTO ledger_event (app_id, seq, time, facts) VALUES (?, ?, ?, ?)", rows)


def events(db: Database, app_id: int, *, after: int = 0, page: int = 5000) -> Iterator[StoredEvent]:
    """Yield the events of an app in their order.

    Raises:
        msgspec.MsgspecError, LookupError: one was damaged.
    """
    sql = "SELECT seq, time, facts FROM ledger_event WHERE app_id = ? AND seq > ? ORDER BY seq LIMIT ?"
    while rows := db.query(sql, (app_id, after, page)):
        for seq, time, text in rows:
            yield _event(seq, time, text)
        after = rows[-1][0]


def _event(seq: int, time: float, text: str) -> StoredEvent:
    facts: dict[str, Any] = _decoder(dict[str, msgspec.Raw]).decode(text)
    inherited, right = facts.pop("inherited", msgspec.Raw(b"[]")), facts.pop("right", msgspec.Raw(b"[]"))
    ((kind, raw),) = facts.items()
    return StoredEvent(
        seq=seq,
        time=time,
        event=_decoder(KINDS[kind]).decode(raw),
        inherited=_decoder(tuple[Inherited, ...]).decode(inherited),
        right=_decoder(tuple[int, ...]).decode(right),
    )


def apps_with_events(db: Database) -> list[AppId]:
    """Return the apps that have or had the system."""
    return [AppId(row[0]) for row in db.query("SELECT DISTINCT app_id FROM ledger_event ORDER BY app_id")]


# -- escrow ---------------------------------------------------------------------------------------------


def escrow_of_hosts(db: Database, app_id: int, host_ids: Collection[int] | None) -> list[Escrowed]:
    """Return the provisional results of an app, of some hosts or (None) of all."""
    query = f"SELECT {_ESCROW.columns} FROM escrow WHERE app_id = {int(app_id)}"
    rows = (
        db.query(f"{query} ORDER BY result_id")
        if host_ids is None
        else db.query_in(f"{query} AND host_id IN (??) ORDER BY result_id", sorted(host_ids))
    )
    return [_ESCROW.load(row) for row in rows]


def escrow_of_result(db: Database, result_id: int) -> Escrowed | None:
    """Return a result whose credit is provisional, or None."""
    row = db.one(f"SELECT {_ESCROW.columns} FROM escrow WHERE result_id = ?", (result_id,))
    return None if row is None else _ESCROW.load(row)


def change_escrow(
    tx: Transaction, *, new: Iterable[Escrowed], ended: Iterable[int], audits: Mapping[int, Audit]
) -> None:
    """Store provisional results, remove those that are final or taken back, and note audits."""
    tx.execute_many(_INSERT_ESCROW, map(_SAVED_ESCROW.values, new))
    tx.execute_many(
        "UPDATE escrow SET audit = ? WHERE result_id = ?", [(int(a), r) for r, a in audits.items()]
    )
    tx.execute_many("DELETE FROM escrow WHERE result_id = ?", [(result_id,) for result_id in ended])


def provisional_credit(db: Database, owner: str, owner_ids: Sequence[int]) -> dict[int, float]:
    """Return the provisional credit of hosts or users (``owner``: ``host`` or ``user``) by id; those without are left out."""
    sql = f"SELECT {owner}_id, SUM(price) FROM escrow WHERE {owner}_id IN (??) GROUP BY {owner}_id"
    return {row[0]: row[1] for row in db.query_in(sql, owner_ids)}
