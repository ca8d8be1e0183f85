"""Sums that follow the ledger, including credit by app, and recent averages that were not updated for a day.

Reading on in the ledger: for sums that follow it a piece at a time.

A follower keeps the place that it has reached in the database and moves it in the transaction that keeps the sums: no entry
is counted twice or left out, whatever is killed.

Credit by app of users, hosts and teams, for top lists: summed from the ledger, a piece at a time.

The sums follow the ledger; they are not part of a grant, so granting costs nothing more.  The place that was reached
stands in the database and moves in the same transaction: no entry is counted twice or left out, whatever is killed.

Averages that were not touched for a day: found by readers, a page at a time, and brought up to date in small writes.

No write waits for another: a grant to a row in between has moved its time, and so the row is left alone.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import takewhile

from cobblestone.domain.statistics import CreditStatement, RecentAverage
from cobblestone.domain.values import DAY, AppId, value
from cobblestone.policy.credit.rac import OWNERS, SMALLEST_IDLE, corrected, credited, idle_decayed, joined
from cobblestone.store.averages import CREDIT
from cobblestone.store.credit.credit_facts import EntryAmount
from cobblestone.store.credit.ledger import GRANTS
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.mapping import RowMapper

#: Younger entries wait: on some databases an entry can become visible after one with a greater number.
SETTLED_SECONDS = 60.0


class Owner(StrEnum):
    """An owner of credit."""

    USER = "user"
    HOST = "host"
    TEAM = "team"


@value(kw_only=True)
class FollowedEntry(EntryAmount):
    """An entry of the ledger with its app."""

    app_id: int | None  #: None: of an anonymous version, and the result was purged

    def owners(self) -> list[tuple[Owner, int]]:
        """Return who gets the credit."""
        found = ((Owner.USER, self.user_id), (Owner.HOST, self.host_id), (Owner.TEAM, self.team_id))
        return [(owner, id_) for owner, id_ in found if id_ is not None]


_ENTRIES = RowMapper(FollowedEntry, {"app_id": "NULL"})


def follow(
    tx: Transaction,
    mark: str,
    take: Callable[[Transaction, Sequence[FollowedEntry]], None],
    *,
    now: float,
    limit: int,
) -> int:
    """Take in the next entries after the place named ``mark``, and record that; return how many."""
    entries = _next_entries(tx, mark, now=now, limit=limit)
    if entries:
        take(tx, entries)
        set_meta(tx, mark, str(entries[-1].id))
    return len(entries)


def _next_entries(tx: Transaction, mark: str, *, now: float, limit: int) -> list[FollowedEntry]:
    """Return the next entries after the place named ``mark``, oldest first, until the first that must wait.

    What stands behind that one waits too, though it may be older: the clock is read before an entry gets its number.
    """
    reached = int(meta(tx, mark) or 0)
    rows = tx.query(
        f"SELECT {_ENTRIES.columns}, app_version_id FROM credit_entry WHERE id > ? ORDER BY id LIMIT ?",
        (reached, limit),
    )
    behind = ((_ENTRIES.load(row), row[-1]) for row in rows)
    # A time far ahead comes from a clock set back since, or is damaged.
    settled = takewhile(lambda each: not abs(now - each[0].time) < SETTLED_SECONDS, behind)
    found = [each for each in settled if math.isfinite(each[0].time)]
    # By their ids, for a join may be planned as a walk through all results.
    of_result = by_id(
        tx, "SELECT id, app_id FROM result WHERE id IN (??)", (entry.result_id for entry, _ in found)
    )
    of_version = by_id(
        tx, "SELECT id, app_id FROM app_version WHERE id IN (??)", (version_id for _, version_id in found)
    )
    return [
        replace(entry, app_id=of_result.get(entry.result_id) or of_version.get(version_id))
        for entry, version_id in found
    ]


def by_id(tx: Transaction, sql: str, ids: Iterable[int | None]) -> dict[int, int]:
    """Return the second column of a query by the first, for some ids."""
    return dict(tx.query_in(sql, sorted({id_ for id_ in ids if id_ is not None})))


def meta(db: Database, key: str) -> str | None:
    """Return a text that the database keeps beside its tables, or None."""
    return db.value("SELECT value FROM meta WHERE key = ?", (key,))


def set_meta(tx: Transaction, key: str, text: str) -> None:
    """Store a text that `meta` reads."""
    tx.execute(
        "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (key, text),
    )


#: Entries in one write: some 2 ms, in which nothing else can write on SQLite.
PORTION = 100
_MARK = "app_credit_entry"
TABLES: Mapping[Owner, str] = {Owner.USER: "user_account", Owner.HOST: "host", Owner.TEAM: "team"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AppCredit:
    """Credit of one owner from one app."""

    app_id: AppId
    owner_id: int
    n_results: int
    credit: CreditStatement


_APP_CREDIT = RowMapper(AppCredit, {"credit": CREDIT})
_SAVED = _APP_CREDIT.writer()
_SAVE = _SAVED.upsert("app_credit", "owner", "app_id", "owner_id")
_Key = tuple[str, int, int]  # kind of owner, app, owner


def follow_ledger(tx: Transaction, *, now: float, limit: int = PORTION) -> int:
    """Take in the next entries of the ledger; return how many."""
    return follow(tx, _MARK, _take, now=now, limit=limit)


def _take(tx: Transaction, entries: Sequence[FollowedEntry]) -> None:
    survivors = by_id(
        tx,
        "SELECT id, merged_into FROM host WHERE merged_into IS NOT NULL AND id IN (??)",
        (entry.host_id for entry in entries),
    )
    shares: dict[_Key, list[FollowedEntry]] = defaultdict(list)
    for entry in entries:
        if entry.app_id is None:
            continue
        for owner, id_ in entry.owners():
            owner_id = survivors.get(id_, id_) if owner is Owner.HOST else id_
            shares[owner, entry.app_id, owner_id].append(entry)
    known = _known(tx, shares)
    _save(tx, {key: _with_entries(key, known.get(key), of_owner) for key, of_owner in shares.items()})


def merge_hosts(tx: Transaction, earlier: int, later: int, *, now: float) -> None:
    """Add the credit by app of an earlier record of a computer to the newer one."""
    of_earlier = {(Owner.HOST, each.app_id, later): each for each in credit_by_app(tx, Owner.HOST, earlier)}
    known = _known(tx, of_earlier)
    after: dict[_Key, AppCredit] = {}
    for key, share in of_earlier.items():
        before = known.get(key) or _nothing(key, since=now)
        together = joined(share.credit, before.credit, now=now)
        after[key] = replace(before, n_results=before.n_results + share.n_results, credit=together)
    _save(tx, after)
    tx.execute("DELETE FROM app_credit WHERE owner = ? AND owner_id = ?", (Owner.HOST, earlier))


def _nothing(key: _Key, *, since: float) -> AppCredit:
    _, app_id, owner_id = key
    credit = CreditStatement(0.0, RecentAverage(0.0, since))
    return AppCredit(app_id=AppId(app_id), owner_id=owner_id, n_results=0, credit=credit)


def _with_entries(key: _Key, known: AppCredit | None, entries: Sequence[FollowedEntry]) -> AppCredit:
    if known is None:
        # The average begins at 0 when the first work began, as that of a host does at its first contact: the rule for a first
        # sample would take the minutes of one short task for a whole day.
        first = min((entry.work_start or entry.time for entry in entries), default=0.0)
        known = _nothing(key, since=first)
    n_results, statement = known.n_results, known.credit
    for entry in entries:
        if entry.granted >= 0:
            statement = credited(statement, credit=entry.granted, work_start=entry.work_start, now=entry.time)
        else:
            statement = corrected(statement, credit=entry.granted, granted_time=entry.time, now=entry.time)
        n_results += entry.kind in GRANTS
    return replace(known, n_results=n_results, credit=statement)


def _known(tx: Transaction, keys: Iterable[_Key]) -> dict[_Key, AppCredit]:
    """Return the stored credit of these owners, read together by kind of owner and app."""
    ids: dict[tuple[str, int], list[int]] = defaultdict(list)
    for owner, app_id, owner_id in keys:
        ids[owner, app_id].append(owner_id)
    found: dict[_Key, AppCredit] = {}
    for (owner, app_id), owner_ids in ids.items():
        source = "app_credit WHERE owner = ? AND app_id = ? AND owner_id IN (??)"
        for share in tx.load_in(_APP_CREDIT, source, owner_ids, (owner, app_id)):
            found[owner, app_id, share.owner_id] = share
    return found


def _save(tx: Transaction, shares: Mapping[_Key, AppCredit]) -> None:
    tx.execute_many(_SAVE, [(*_SAVED.values(share), owner) for (owner, _, _), share in shares.items()])


def credit_by_app(db: Database, owner: Owner, owner_id: int) -> list[AppCredit]:
    """Return the credit of one owner by app, largest first."""
    source = "app_credit WHERE owner = ? AND owner_id = ? ORDER BY total_credit DESC LIMIT 100"
    return db.load(_APP_CREDIT, source, (owner, owner_id))


#: Rows that one read looks at: a few milliseconds.
IDLE_PAGE = 2000
#: Rows that one write changes: a few milliseconds, in which nothing else can write on SQLite.
IDLE_PORTION = 200

Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class AverageTable:
    """A table with recent averages."""

    name: str
    key: tuple[str, ...] = ("id",)
    before_all: Key = (0,)


AVERAGE_TABLES = (
    *map(AverageTable, OWNERS),
    AverageTable("app_credit", ("owner", "app_id", "owner_id"), ("", 0, 0)),
)


@dataclass(frozen=True, slots=True)
class IdleAverage:
    """An average that must be updated."""

    key: Key
    average: RecentAverage


def find_idle(
    db: Database, table: AverageTable, *, after: Key, now: float
) -> tuple[list[IdleAverage], Key | None]:
    """Return the averages due in the next page of rows after a key, and the key of its last row; None after the last page."""
    columns, places = ", ".join(table.key), ", ".join("?" * len(table.key))
    beyond = f"FROM {table.name} WHERE ({columns}) > ({places}) ORDER BY {columns} LIMIT"
    rows = db.query(
        f"SELECT * FROM (SELECT {columns}, expavg_credit, expavg_time {beyond} {IDLE_PAGE}) page"
        f" WHERE expavg_credit > {SMALLEST_IDLE} AND ? - expavg_time >= {DAY}",
        (*after, now),
    )
    last = db.one(f"SELECT {columns} {beyond} 1 OFFSET {IDLE_PAGE - 1}", after)
    return [IdleAverage(row[:-2], RecentAverage(*row[-2:])) for row in rows], last


def decay_idle(tx: Transaction, table: AverageTable, idle: Sequence[IdleAverage], *, now: float) -> None:
    """Update the averages that are unchanged since they were found, all to the same ``now``.

    What was looked at is noted beside the ledger, since an average depends on when it was brought up to date.
    """
    after = [(each, idle_decayed(each.average, now=now)) for each in idle]
    changed = [(recent.value, recent.time, *each.key, each.average.time) for each, recent in after if recent]
    if not changed:
        return
    same = " AND ".join(f"{column} = ?" for column in table.key)
    tx.execute_many(
        f"UPDATE {table.name} SET expavg_credit = ?, expavg_time = ? WHERE {same} AND expavg_time = ?",
        changed,
    )
    if table.name in OWNERS:  # its averages are replayed from the ledger
        tx.execute(
            "INSERT INTO credit_decay (time, table_name, first_id, last_id, last_entry_id)"
            " VALUES (?, ?, ?, ?, (SELECT COALESCE(MAX(id), 0) FROM credit_entry))",
            (now, table.name, idle[0].key[0], idle[-1].key[0]),
        )
