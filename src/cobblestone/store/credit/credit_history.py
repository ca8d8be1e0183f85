"""The ledger of one owner over time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from cobblestone.policy.credit.history import LedgerMark
from cobblestone.store.engine.database import Database

MAX_SINGLE = 5_000
"""Owners with more entries than this get them summed by quarter of an hour."""
SUMMED_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class CreditOwner:
    """Whose credit is meant."""

    kind: Literal["user", "host", "team"]
    id: int


_COLUMNS = {"user": "user_id", "host": "host_id", "team": "team_id"}


def ledger_marks(db: Database, owner: CreditOwner, *, since: float) -> list[LedgerMark]:
    """Entries of an owner since a time (Unix seconds), oldest first.

    Of a team, what its members earned while they were in it.
    """
    column = _COLUMNS[owner.kind]
    rows = db.query(
        "SELECT e.time, e.granted, e.work_start, CASE WHEN e.kind = 'grant' THEN 1 ELSE 0 END,"
        " CASE WHEN e.kind = 'correction' THEN (SELECT min(g.time) FROM credit_entry g"
        " WHERE g.result_id = e.result_id AND g.kind = 'grant') END"
        f" FROM credit_entry e WHERE e.{column} = ? AND e.time >= ? ORDER BY e.time, e.id LIMIT ?",
        (owner.id, since, MAX_SINGLE + 1),
    )
    if len(rows) > MAX_SINGLE:
        rows = db.query(
            "SELECT max(time), sum(granted), min(work_start), sum(CASE WHEN kind = 'grant' THEN 1 ELSE 0 END), NULL"
            f" FROM credit_entry WHERE {column} = ? AND time >= ?"
            f" GROUP BY CAST(time / {SUMMED_SECONDS} AS INTEGER) ORDER BY 1",
            (owner.id, since),
        )
    return [
        LedgerMark(time=row[0], granted=row[1], work_start=row[2], n_results=row[3], granted_time=row[4])
        for row in rows
    ]
