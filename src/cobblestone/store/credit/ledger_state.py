"""What the ledger system keeps: records and events of apps, and results whose credit is provisional.

Who changes them has locked the app's row: of two processes one works after the other, and a second event of the same number is
impossible.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any, get_args

import msgspec

from cobblestone.domain.values import AppId, AppVersionId, HostId, ResultId, UserId, WorkunitId, value
from cobblestone.policy.credit.ledger_system import records
from cobblestone.policy.credit.ledger_system.book import LedgerBook
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.mapping import RowMapper, to_json

_KINDS: Mapping[str, type[records.Event]] = {kind.__name__: kind for kind in get_args(records.Event)}


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
    def key(self) -> records.HostKey:
        """Return the record that it is on."""
        return self.host_id, self.app_version_id, self.usage


_ESCROW = RowMapper(Escrowed)
_SAVED_ESCROW = _ESCROW.writer()


def read_book(
    db: Database, app_id: int, host_ids: Collection[int] | None, rules: records.LedgerRules | None = None
) -> LedgerBook:
    """Return the book of an app with the records of its versions and of some hosts (None: all); without a unit if it is new."""
    book = LedgerBook(rules=rules)
    query = "SELECT host_id, app_version_id, usage, state FROM ledger_record WHERE app_id = ?"
    for host_id, version_id, usage, state in _of_hosts(db, query, app_id, host_ids, also=[0]):
        if host_id:
            book.hosts[host_id, version_id, usage] = msgspec.json.decode(state, type=records.HostRecord)
        elif version_id:
            book.versions[version_id, usage] = msgspec.json.decode(state, type=records.VersionRecord)
        else:
            book.app = msgspec.json.decode(state, type=records.AppRecord)
    return book


def host_records(db: Database, app_id: int) -> Iterator[tuple[records.HostKey, records.HostRecord]]:
    """Yield the records of all hosts of an app."""
    key = "host_id, app_version_id, usage"
    sql = f"SELECT state, {key} FROM ledger_record WHERE app_id = ? AND ({key}) > (?, ?, ?) ORDER BY {key}"
    for state, *of in db.stream(sql, (app_id,), after=(1, 0, "")):
        yield (of[0], of[1], of[2]), msgspec.json.decode(state, type=records.HostRecord)


def save_book(tx: Transaction, app_id: int, book: LedgerBook) -> None:
    """Store the records that changed."""
    rows: list[tuple[object, ...]] = [(app_id, 0, 0, "", to_json(book.app))]
    rows += [(app_id, 0, *key, to_json(book.versions[key])) for key in sorted(book.changed_versions)]
    rows += [(app_id, *key, to_json(book.hosts[key])) for key in sorted(book.changed_hosts)]
    tx.execute_many(
        "INSERT INTO ledger_record (app_id, host_id, app_version_id, usage, state) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (app_id, host_id, app_version_id, usage) DO UPDATE SET state = excluded.state",
        rows,
    )


# -- events ---------------------------------------------------------------------------------------------


def last_event(db: Database, app_id: int) -> int:
    """Return the number of an app's newest event; 0 if there is none."""
    return int(db.value("SELECT COALESCE(MAX(seq), 0) FROM ledger_event WHERE app_id = ?", (app_id,)) or 0)


def has_left(db: Database, app_id: int) -> bool:
    """Return whether the newest event of an app is that another system has taken over."""
    newest = "SELECT kind FROM ledger_event WHERE app_id = ? ORDER BY seq DESC LIMIT 1"
    return db.value(newest, (app_id,)) == records.Left.__name__


def save_events(
    tx: Transaction, app_id: int, events: Sequence[records.Event], *, after: int, now: float
) -> None:
    """Store events that were applied, numbered ``after`` + 1 and so on."""
    tx.execute_many(
        "INSERT INTO ledger_event (app_id, seq, time, kind, facts) VALUES (?, ?, ?, ?, ?)",
        [
            (app_id, seq, now, type(event).__name__, to_json(event))
            for seq, event in enumerate(events, after + 1)
        ],
    )


def events(db: Database, app_id: int) -> Iterator[tuple[int, records.Event]]:
    """Yield the events of an app in their order, numbered.

    Raises:
        msgspec.MsgspecError, LookupError: one was damaged.
    """
    sql = "SELECT kind, facts, seq FROM ledger_event WHERE app_id = ? AND seq > ? ORDER BY seq"
    for kind, text, seq in db.stream(sql, (app_id,)):
        yield seq, msgspec.json.decode(text, type=_KINDS[kind])


def apps_with_events(db: Database) -> list[AppId]:
    """Return the apps that have or had the system."""
    return [AppId(row[0]) for row in db.query("SELECT DISTINCT app_id FROM ledger_event ORDER BY app_id")]


# -- escrow ---------------------------------------------------------------------------------------------


def escrow_of_hosts(db: Database, app_id: int, host_ids: Collection[int] | None) -> list[Escrowed]:
    """Return the provisional results of an app, of some hosts or (None) of all."""
    query = f"SELECT {_ESCROW.columns} FROM escrow WHERE app_id = ?"
    return [_ESCROW.load(row) for row in _of_hosts(db, query, app_id, host_ids)]


def change_escrow(tx: Transaction, before: Mapping[int, Escrowed], after: Mapping[int, Escrowed]) -> None:
    """Store provisional results and their audits, and remove those that are final or taken back; both by result."""
    new = [_SAVED_ESCROW.values(row) for id_, row in after.items() if id_ not in before]
    tx.execute_many(_SAVED_ESCROW.insert("escrow"), new)
    audits = [
        (int(row.audit), id_) for id_, row in after.items() if row.audit is not before.get(id_, row).audit
    ]
    tx.execute_many("UPDATE escrow SET audit = ? WHERE result_id = ?", audits)
    tx.execute_many("DELETE FROM escrow WHERE result_id = ?", [(id_,) for id_ in before if id_ not in after])


def provisional_credit(db: Database, owner: str, owner_ids: Sequence[int]) -> dict[int, float]:
    """Return the provisional credit of hosts or users (``owner``: ``host`` or ``user``) by id; those without are left out."""
    sql = f"SELECT {owner}_id, SUM(price) FROM escrow WHERE {owner}_id IN (??) GROUP BY {owner}_id"
    return {row[0]: row[1] for row in db.query_in(sql, owner_ids)}


def _of_hosts(
    db: Database, query: str, app_id: int, host_ids: Collection[int] | None, also: Sequence[int] = ()
) -> Sequence[tuple[Any, ...]]:
    if host_ids is None:
        return db.query(query, (app_id,))
    return db.query_in(f"{query} AND host_id IN (??)", [*also, *sorted(host_ids)], (app_id,))
