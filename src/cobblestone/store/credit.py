"""Granting: ledger entries, and totals and recent averages of hosts, users, teams and app versions.

A batch of grants reads each shared row once, adds in order, and writes it once.  The unique index on the ledger makes a
second grant for the same result impossible.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from cobblestone.domain.ids import AppVersionId, HostId, ResultId, TeamId, UserId, WorkunitId
from cobblestone.domain.reasons import Reason
from cobblestone.domain.statistics import CreditStatement, RecentAverage
from cobblestone.policy.credit.rac import credited, decayed
from cobblestone.store.database import Database, Row, Transaction

_encode = msgspec.json.Encoder().encode
_ENTRY_COLUMNS = (
    "id, time, result_id, workunit_id, host_id, user_id, team_id, app_version_id, kind, system, claimed, granted, unit,"
    " work_start, reasons"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditEntry:
    """A ledger entry.  ``granted`` may be negative in a correction."""

    result_id: ResultId
    workunit_id: WorkunitId
    host_id: HostId
    user_id: UserId
    app_version_id: AppVersionId | None
    system: str
    claimed: float
    granted: float
    unit: float  #: credit per GFLOPS-day
    work_start: float  #: Unix seconds
    reasons: tuple[Reason, ...] = ()
    kind: str = "grant"
    team_id: TeamId | None = None
    time: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerLine:
    """A ledger entry as it was stored; reasons as JSON values."""

    id: int
    time: float
    result_id: int
    workunit_id: int
    host_id: int
    user_id: int
    team_id: int | None
    app_version_id: int | None
    kind: str
    system: str
    claimed: float
    granted: float
    unit: float
    work_start: float
    reasons: list[dict[str, object]]


def grant(tx: Transaction, entries: Sequence[CreditEntry], *, now: float) -> int:
    """Write ledger entries and add them to all totals and averages; how many were new.

    The team is the one that the user belongs to now.
    """
    users = sorted({entry.user_id for entry in entries})
    team_of = {
        row[0]: row[1] for row in tx.query_in("SELECT id, team_id FROM user_account WHERE id IN (??)", users)
    }
    fresh: list[CreditEntry] = []
    for entry in entries:
        team_id = team_of.get(entry.user_id)
        stored = tx.execute(
            "INSERT INTO credit_entry (time, result_id, workunit_id, host_id, user_id, team_id, app_version_id, kind,"
            " system, claimed, granted, unit, work_start, reasons) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT DO NOTHING",
            (
                now,
                entry.result_id,
                entry.workunit_id,
                entry.host_id,
                entry.user_id,
                team_id,
                entry.app_version_id,
                entry.kind,
                entry.system,
                entry.claimed,
                entry.granted,
                entry.unit,
                entry.work_start,
                _encode([reason.as_json() for reason in entry.reasons]).decode(),
            ),
        )
        if stored:
            fresh.append(entry)
    _add(tx, "host", [(entry.host_id, entry) for entry in fresh], now=now)
    _add(tx, "user_account", [(entry.user_id, entry) for entry in fresh], now=now)
    _add(tx, "team", [(team_of.get(entry.user_id), entry) for entry in fresh], now=now)
    _add(tx, "app_version", [(entry.app_version_id, entry) for entry in fresh], now=now)
    tx.execute_many(
        "UPDATE result SET claimed_credit = ?, granted_credit = granted_credit + ? WHERE id = ?",
        [(entry.claimed, entry.granted, entry.result_id) for entry in fresh],
    )
    return len(fresh)


def _add(
    tx: Transaction, table: str, shares: Iterable[tuple[int | None, CreditEntry]], *, now: float
) -> None:
    """Add entries to the rows of one table, each row read and written once."""
    by_row: dict[int, list[CreditEntry]] = {}
    for row_id, entry in shares:
        if row_id is not None:
            by_row.setdefault(row_id, []).append(entry)
    rows = tx.query_in(
        f"SELECT id, total_credit, expavg_credit, expavg_time FROM {table} WHERE id IN (??)", sorted(by_row)
    )
    updates: list[tuple[float, float, float, int]] = []
    for row_id, total, average, time in rows:
        statement = CreditStatement(total, RecentAverage(average, time))
        for entry in by_row[row_id]:
            statement = credited(statement, credit=entry.granted, work_start=entry.work_start, now=now)
        updates.append((statement.total, statement.recent.value, statement.recent.time, row_id))
    tx.execute_many(
        f"UPDATE {table} SET total_credit = ?, expavg_credit = ?, expavg_time = ? WHERE id = ?", updates
    )


def set_canonical_credit(tx: Transaction, amounts: Mapping[WorkunitId, float]) -> None:
    """Note what the canonical result got: later results of the workunit get the same."""
    tx.execute_many(
        "UPDATE workunit SET canonical_credit = ? WHERE id = ?",
        [(amount, id_) for id_, amount in amounts.items()],
    )


def decay_idle(tx: Transaction, *, now: float, idle_for: float, limit: int = 1000) -> int:
    """Bring averages that nobody touched for ``idle_for`` seconds up to date; how many rows changed.

    Every reader decays what it shows; this keeps sorted lists and exports right.
    """
    changed = 0
    for table in ("host", "user_account", "team", "app_version"):
        rows = tx.query(
            f"SELECT id, expavg_credit, expavg_time FROM {table} WHERE expavg_credit > 0.001 AND expavg_time < ?"
            " LIMIT ?",
            (now - idle_for, limit),
        )
        tx.execute_many(
            f"UPDATE {table} SET expavg_credit = ?, expavg_time = ? WHERE id = ?",
            [(decayed(RecentAverage(average, time), now), now, id_) for id_, average, time in rows],
        )
        changed += len(rows)
    return changed


def _line(row: Row) -> LedgerLine:
    names = [name.strip() for name in _ENTRY_COLUMNS.split(",")]
    values = dict(zip(names, row, strict=True))
    values["reasons"] = msgspec.json.decode(values["reasons"])
    return LedgerLine(**values)


def entries_of_result(db: Database, result_id: int) -> list[LedgerLine]:
    """The ledger of one result, oldest first."""
    rows = db.query(
        f"SELECT {_ENTRY_COLUMNS} FROM credit_entry WHERE result_id = ? ORDER BY id", (result_id,)
    )
    return [_line(row) for row in rows]
