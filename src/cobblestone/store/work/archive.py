"""The archive of purged jobs: a second SQLite database with rows as they were.

A workunit is first written to the archive and committed there, then removed from the project's database; a crash between
leaves it in both, and the next purge removes it from the project.  The ledger and the averages stay in the project.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cobblestone.domain.states import BatchState, FileDeleteState
from cobblestone.policy.lifecycle.purge import why_not_purge
from cobblestone.store.engine.database import Database, Store, Transaction
from cobblestone.store.work import lifecycle
from cobblestone.store.work.steps import matching

_TABLES = ("workunit", "result", "result_text")
_KEYS = {"workunit": "id", "result": "workunit_id", "result_text": "result_id"}


def purge(store: Store, path: Path, *, now: float, min_age: float, limit: int) -> int:
    """Move workunits that are done with into the archive; return how many.  Not for the event loop."""
    ids = store.read(lambda db: _ready(db, now=now, min_age=min_age, limit=limit))
    if not ids:
        return 0
    rows = store.read(lambda db: _rows(db, ids))
    _append(path, rows)
    return store.write(lambda tx: _remove(tx, ids))


def _ready(db: Database, *, now: float, min_age: float, limit: int) -> list[int]:
    """Return workunits that the rule lets go."""
    candidates = db.query(
        "SELECT w.id, b.state FROM workunit w LEFT JOIN batch b ON b.id = w.batch_id"
        f" WHERE w.{matching(FileDeleteState.DONE)} AND w.completed_time < ?"
        f" AND (b.id IS NULL OR b.{matching(BatchState.RETIRED)})"
        " ORDER BY w.completed_time LIMIT ?",
        (now - min_age, limit),
    )
    state_of: dict[int, BatchState | None] = {
        row[0]: None if row[1] is None else BatchState(row[1]) for row in candidates
    }
    return [
        view.workunit.id
        for view in lifecycle.views(db, list(state_of))
        if why_not_purge(view, now=now, min_age_seconds=min_age, batch_state=state_of[view.workunit.id])
        is None
    ]


def _rows(db: Database, ids: Sequence[int]) -> dict[str, tuple[list[str], list[tuple[Any, ...]]]]:
    """Return rows of the archived tables with the names of their columns."""
    found: dict[str, tuple[list[str], list[tuple[Any, ...]]]] = {}
    keys: Sequence[int] = ids
    for table in _TABLES:
        columns = db.columns(table)
        key = _KEYS[table]
        rows = db.query_in(f"SELECT {', '.join(columns)} FROM {table} WHERE {key} IN (??)", keys)
        found[table] = (columns, rows)
        if table == "result":
            keys = [row[columns.index("id")] for row in rows]
    return found


def _append(path: Path, tables: dict[str, tuple[list[str], list[tuple[Any, ...]]]]) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("BEGIN IMMEDIATE")
        for table, (columns, rows) in tables.items():
            primary = "result_id" if table == "result_text" else "id"
            connection.execute(f"CREATE TABLE IF NOT EXISTS {table} ({primary} INTEGER PRIMARY KEY)")
            known = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
            for column in columns:
                if column not in known:  # a newer schema has more
                    connection.execute(f"ALTER TABLE {table} ADD COLUMN {column}")
            connection.executemany(
                f"INSERT OR REPLACE INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})",
                rows,
            )
        connection.execute("CREATE INDEX IF NOT EXISTS result_by_workunit ON result (workunit_id)")
        connection.execute("CREATE INDEX IF NOT EXISTS result_by_host ON result (host_id)")
        connection.execute("COMMIT")
    finally:
        connection.close()


def _remove(tx: Transaction, ids: Sequence[int]) -> int:
    for id_ in ids:
        tx.execute(
            "DELETE FROM result_text WHERE result_id IN (SELECT id FROM result WHERE workunit_id = ?)", (id_,)
        )
        tx.execute(
            "DELETE FROM upload WHERE result_id IN (SELECT id FROM result WHERE workunit_id = ?)", (id_,)
        )
        tx.execute("DELETE FROM result WHERE workunit_id = ?", (id_,))
        tx.execute("DELETE FROM workunit WHERE id = ?", (id_,))
    return len(ids)


def query(path: Path, sql: str, parameters: Sequence[object] = ()) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Run a read-only query on the archive: names of columns, and rows.

    Raises:
        FileNotFoundError: nothing was archived yet.
        sqlite3.Error: the query is wrong, or tries to write.
    """
    if not path.exists():
        raise FileNotFoundError(path)
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    try:
        connection.execute("PRAGMA query_only=ON")
        cursor = connection.execute(sql, parameters)
        return [column[0] for column in cursor.description or ()], cursor.fetchall()
    finally:
        connection.close()
