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


_OF_OWNER = {
    "user": "e.user_id = ?",
    "host": "e.host_id IN (SELECT id FROM host WHERE id = ? OR merged_into = ?) AND e.kind <> 'merge'",
    "team": "e.team_id = ?",
}


def ledger_marks(db: Database, owner: CreditOwner, *, since: float) -> list[LedgerMark]:
    """Entries of an owner since a time (Unix seconds), oldest first.

    Of a team, what its members earned while they were in it; of a computer also what records did that became part of it.
    """
    condition = _OF_OWNER[owner.kind]
    ids = (owner.id,) * condition.count("?")
    rows = db.query(
        "SELECT e.time, e.granted, e.work_start, CASE WHEN e.kind = 'grant' THEN 1 ELSE 0 END,"
        " CASE WHEN e.kind = 'correction' THEN (SELECT min(g.time) FROM credit_entry g"
        " WHERE g.result_id = e.result_id AND g.kind = 'grant') END"
        f" FROM credit_entry e WHERE {condition} AND e.time >= ? ORDER BY e.time, e.id LIMIT ?",
        (*ids, since, MAX_SINGLE + 1),
    )
    if len(rows) > MAX_SINGLE:
        rows = db.query(
            "SELECT max(time), sum(granted), min(work_start), sum(CASE WHEN kind = 'grant' THEN 1 ELSE 0 END), NULL"
            f" FROM credit_entry e WHERE {condition} AND time >= ?"
            f" GROUP BY CAST(time / {SUMMED_SECONDS} AS INTEGER) ORDER BY 1",
            (*ids, since),
        )
    return [
        LedgerMark(time=row[0], granted=row[1], work_start=row[2], n_results=row[3], granted_time=row[4])
        for row in rows
    ]
