"""The ledger of counted work: an entry per computer, project and day, and the daily sums made from it.

All sums can be made again from the entries (`fold`); after an entry was deleted, its day is folded again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from cobblestone.policy.account_manager.accounting import NOTHING, QUANTITIES, Amounts, Counted
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.engine import Row
from cobblestone.store.engine.mapping import RowMapper

Owner = Literal["account", "project", "all"]
_SUMS = ", ".join(f"SUM({name})" for name in QUANTITIES)
CREDIT_SUM = "SUM(cpu_ec + gpu_ec)"
_COLUMNS = ", ".join(QUANTITIES)
_ADDED = ", ".join(f"{name} = ledger.{name} + excluded.{name}" for name in QUANTITIES)
_GROUPS: dict[Owner, str] = {"account": "account_id", "project": "project_id", "all": "0"}
_PUT_DAY = (
    f"INSERT INTO daily (owner, owner_id, day, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
    f" ON CONFLICT (owner, owner_id, day) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in QUANTITIES)}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DayOf:
    """What was counted on a day."""

    day: int  #: days since 1970, UTC
    amounts: Amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountEntry:
    """An entry of the ledger."""

    id: int
    host_id: int
    account_id: int
    project_id: int
    day: int
    kind: str  #: ``contact``, or ``released`` by an operator
    amounts: Amounts
    kept_back: float  #: credit
    limits: str


_ENTRY = RowMapper(AccountEntry, {"amounts": RowMapper(Amounts)})


def add_entries(
    tx: Transaction, counted: Iterable[Counted], *, host_id: int, account_id: int, day: int
) -> None:
    """Add to the entries of a computer's day."""
    whose = (host_id, account_id, day)
    tx.execute_many(
        f"INSERT INTO ledger (host_id, account_id, day, kind, project_id, {_COLUMNS}, kept_back, limits)"
        " VALUES (?, ?, ?, 'contact', ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (host_id, project_id, day, kind) DO UPDATE SET"
        f" {_ADDED}, kept_back = ledger.kept_back + excluded.kept_back,"
        " limits = CASE WHEN excluded.limits = '' THEN ledger.limits ELSE excluded.limits END",
        [
            (*whose, each.project_id, *each.counted.astuple(), each.kept_back.credit, ",".join(each.limits))
            for each in counted
        ],
    )


def fold(tx: Transaction, *, since_day: int, until_day: int) -> None:
    """Recompute the sums of some days from the entries."""
    tx.execute("DELETE FROM daily WHERE day BETWEEN ? AND ?", (since_day, until_day))
    put_days(tx, changed_days(tx, since_day=since_day, until_day=until_day))


def changed_days(db: Database, *, since_day: int, until_day: int) -> list[Row]:
    """Return the sums of some days, from the entries, that differ from what is kept: owner, its number, day, amounts."""
    days = "day BETWEEN ? AND ?"
    return [
        row
        for owner, column in _GROUPS.items()
        for row in db.query(
            f"SELECT '{owner}', {column}, day, {_SUMS} FROM ledger WHERE {days} GROUP BY 2, day"
            f" EXCEPT SELECT owner, owner_id, day, {_COLUMNS} FROM daily WHERE {days} AND owner = '{owner}'",
            (since_day, until_day) * 2,
        )
    ]


def put_days(tx: Transaction, rows: Iterable[Row]) -> None:
    """Store sums of `changed_days`."""
    tx.execute_many(_PUT_DAY, rows)


def days_of(db: Database, owner: Owner, owner_id: int, *, since_day: int) -> list[DayOf]:
    """Return the days on which something was counted, in order."""
    rows = db.query(
        f"SELECT day, {_COLUMNS} FROM daily WHERE owner = ? AND owner_id = ? AND day >= ? ORDER BY day",
        (owner, owner_id, since_day),
    )
    return [DayOf(day=row[0], amounts=Amounts(*row[1:7])) for row in rows]


def sum_of(db: Database, owner: Owner, owner_id: int = 0) -> Amounts:
    """Return everything that was ever counted, from the daily sums."""
    row = db.one(f"SELECT {_SUMS} FROM daily WHERE owner = ? AND owner_id = ?", (owner, owner_id))
    return NOTHING if row is None or row[0] is None else Amounts(*row)


def replayed(db: Database, owner: Owner, owner_id: int = 0) -> Amounts:
    """Return the same, from the entries."""
    column = _GROUPS[owner]
    where = "" if owner == "all" else f" WHERE {column} = ?"
    row = db.one(f"SELECT {_SUMS} FROM ledger{where}", () if owner == "all" else (owner_id,))
    return NOTHING if row is None or row[0] is None else Amounts(*row)


def wrong_days(db: Database) -> list[int]:
    """Return the days whose overall sums differ from their entries.

    On the last day that was added up, and after it, entries may have come since: there the sums may be less.
    """
    rows = db.query(f"SELECT day, {_SUMS} FROM ledger GROUP BY day ORDER BY day")
    entries = {row[0]: row[1:] for row in rows}
    sums = {
        row[0]: row[1:]
        for row in db.query(f"SELECT day, {_COLUMNS} FROM daily WHERE owner = 'all' ORDER BY day")
    }
    nothing, last = NOTHING.astuple(), max(sums, default=0)
    return [
        day
        for day in sorted(entries.keys() | sums.keys())
        if any(
            (other - one if day >= last else abs(one - other)) > 1e-6 * max(1.0, abs(one))
            for one, other in zip(entries.get(day, nothing), sums.get(day, nothing), strict=True)
        )
    ]


def of_hosts(db: Database, host_ids: Sequence[int]) -> dict[int, Amounts]:
    """Return what was counted for some computers."""
    sql = f"SELECT host_id, {_SUMS} FROM ledger WHERE host_id IN (??) GROUP BY host_id"
    return {row[0]: Amounts(*row[1:]) for row in db.query_in(sql, host_ids)}


def largest_entries(db: Database, *, since_day: int, limit: int) -> list[AccountEntry]:
    """Return the entries with the most credit since a day: where an operator should look first."""
    return db.load(
        _ENTRY, "ledger WHERE day >= ? ORDER BY cpu_ec + gpu_ec + kept_back DESC LIMIT ?", (since_day, limit)
    )


def delete_entries(tx: Transaction, ids: Iterable[int]) -> list[AccountEntry]:
    """Delete entries and recompute the sums of their days; return what they were."""
    found = tx.load_in(_ENTRY, "ledger WHERE id IN (??)", list(ids))
    for entry in found:
        tx.execute("DELETE FROM ledger WHERE id = ?", (entry.id,))
        tx.execute(
            "UPDATE project_account SET total = total - ? WHERE account_id = ? AND project_id = ?",
            (entry.amounts.credit, entry.account_id, entry.project_id),
        )
    for day in {entry.day for entry in found}:
        fold(tx, since_day=day, until_day=day)
    return found
