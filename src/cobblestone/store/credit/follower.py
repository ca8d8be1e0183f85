"""Reading on in the ledger: for sums that follow it a piece at a time.

Whoever follows keeps the place that it has reached in the database and moves it in the transaction that keeps the sums: no entry
is counted twice or left out, whatever is killed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import takewhile

from cobblestone.domain.values import value
from cobblestone.store.engine.database import Transaction
from cobblestone.store.engine.mapping import RowMapper

SETTLED_SECONDS = 60.0
"""Younger entries wait: on some databases an entry can become visible after one with a greater number."""


@value(kw_only=True)
class FollowedEntry:
    """An entry of the ledger with the app that it is for.  Times in Unix seconds."""

    id: int
    time: float
    user_id: int
    host_id: int
    team_id: int | None
    granted: float
    work_start: float
    kind: str
    result_id: int
    app_id: int | None  #: None: of an anonymous version, and the result was purged


_ENTRIES = RowMapper(FollowedEntry, {"app_id": "NULL"})


def next_entries(tx: Transaction, mark: str, *, now: float, limit: int) -> list[FollowedEntry]:
    """Return the next entries behind the place that is called ``mark``, oldest first, until the first that must wait.

    What stands behind that one waits too, though it may be older: the clock is read before an entry gets its number.
    """
    reached = int(tx.value("SELECT value FROM meta WHERE key = ?", (mark,)) or 0)
    rows = tx.query(
        f"SELECT {_ENTRIES.columns}, app_version_id FROM credit_entry WHERE id > ? ORDER BY id LIMIT ?",
        (reached, limit),
    )
    behind = ((_ENTRIES.load(row), row[-1]) for row in rows)
    settled = takewhile(lambda each: not _is_fresh(each[0].time, now=now), behind)
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


def _is_fresh(time: float, *, now: float) -> bool:
    """Whether an entry must wait.  A time far ahead is that of a clock which has been set back since, or damaged."""
    return abs(now - time) < SETTLED_SECONDS


def by_id(tx: Transaction, sql: str, ids: Iterable[int | None]) -> dict[int, int]:
    """Return the second column of a query by the first, for some ids."""
    return dict(tx.query_in(sql, sorted({id_ for id_ in ids if id_ is not None})))


def move_mark(tx: Transaction, mark: str, last: FollowedEntry) -> None:
    """Note that everything up to ``last`` was taken in."""
    tx.execute(
        "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (mark, str(last.id)),
    )
