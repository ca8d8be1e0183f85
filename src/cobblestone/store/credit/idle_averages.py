"""Averages that nobody touched for a day: found by readers, a page at a time, and brought up to date in small writes.

A write waits for nobody and nobody for it: whoever credits a row in between has moved its time, and so the row is left alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cobblestone.domain.statistics import SECONDS_PER_DAY, RecentAverage
from cobblestone.policy.credit.rac import SMALLEST_IDLE, idle_decayed
from cobblestone.policy.credit.totals import OWNERS
from cobblestone.store.engine.database import Database, Transaction

PAGE = 2000
"""Rows that one read looks at: a few milliseconds."""
PORTION = 200
"""Rows that one write changes: a few milliseconds, in which nobody else can write on SQLite."""

Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class AverageTable:
    """A table with recent averages."""

    name: str
    key: tuple[str, ...] = ("id",)
    before_all: Key = (0,)

    @property
    def in_ledger(self) -> bool:
        """Whether its averages are replayed from the ledger."""
        return self.name in OWNERS


TABLES = (
    *map(AverageTable, OWNERS),
    AverageTable("app_credit", ("owner", "app_id", "owner_id"), ("", 0, 0)),
)


@dataclass(frozen=True, slots=True)
class IdleAverage:
    """An average that is due to be brought up to date."""

    key: Key
    average: RecentAverage


def look(
    db: Database, table: AverageTable, *, after: Key, now: float
) -> tuple[list[IdleAverage], Key | None]:
    """Return what is due in the next page of rows beyond a key, and the key of its last row; None: it was the last page."""
    columns, places = ", ".join(table.key), ", ".join("?" * len(table.key))
    beyond = f"FROM {table.name} WHERE ({columns}) > ({places}) ORDER BY {columns} LIMIT"
    rows = db.query(
        f"SELECT * FROM (SELECT {columns}, expavg_credit, expavg_time {beyond} {PAGE}) page"
        f" WHERE expavg_credit > {SMALLEST_IDLE} AND ? - expavg_time >= {SECONDS_PER_DAY}",
        (*after, now),
    )
    last = db.one(f"SELECT {columns} {beyond} 1 OFFSET {PAGE - 1}", after)
    return [IdleAverage(row[:-2], RecentAverage(*row[-2:])) for row in rows], last


def decay(tx: Transaction, table: AverageTable, idle: Sequence[IdleAverage], *, now: float) -> None:
    """Bring averages up to date that are as they were when they were found, all at the ``now`` of that look.

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
    if table.in_ledger:
        tx.execute(
            "INSERT INTO credit_decay (time, table_name, first_id, last_id, last_entry_id)"
            " VALUES (?, ?, ?, ?, (SELECT COALESCE(MAX(id), 0) FROM credit_entry))",
            (now, table.name, idle[0].key[0], idle[-1].key[0]),
        )
