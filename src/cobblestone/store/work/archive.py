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
from cobblestone.store.work.steps import TO_ARCHIVE, matching

_BATCHES_TO_ARCHIVE = f"SELECT id FROM batch WHERE {TO_ARCHIVE} ORDER BY id"
_NOTHING_LEFT = (
    f"UPDATE batch SET archived = 1 WHERE {TO_ARCHIVE}"
    " AND NOT EXISTS (SELECT 1 FROM workunit WHERE workunit.batch_id = batch.id)"
)
BUSY_SECONDS = 60.0  #: that somebody waits for another write to the archive
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
    """Return workunits that the rule lets go: of no batch, then of each retired one.

    Batch by batch, for a batch that nobody has retired may have millions, which are not even looked at.
    """
    batches: list[int | None] = [None, *(row[0] for row in db.query(_BATCHES_TO_ARCHIVE))]
    ready: list[int] = []
    for batch_id in batches:
        condition, key = ("batch_id IS NULL", ()) if batch_id is None else ("batch_id = ?", (batch_id,))
        candidates = db.query(
            f"SELECT id FROM workunit WHERE {condition} AND {matching(FileDeleteState.DONE)} AND completed_time < ?"
            " ORDER BY completed_time LIMIT ?",
            (*key, now - min_age, limit - len(ready)),
        )
        state = None if batch_id is None else BatchState.RETIRED
        ready += (
            view.workunit.id
            for view in lifecycle.views(db, [row[0] for row in candidates])
            if why_not_purge(view, now=now, min_age_seconds=min_age, batch_state=state) is None
        )
        if len(ready) >= limit:
            break
    return ready


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
        connection.execute("CREATE INDEX IF NOT EXISTS result_by_user ON result (user_id)")
        connection.execute("COMMIT")
    finally:
        connection.close()


def _remove(tx: Transaction, ids: Sequence[int]) -> int:
    # Row by row, for a subquery may be planned as a walk through a whole table.
    results = tx.query_in("SELECT id FROM result WHERE workunit_id IN (??)", ids)
    tx.execute_many("DELETE FROM result_text WHERE result_id = ?", results)
    tx.execute_many("DELETE FROM upload WHERE result_id = ?", results)
    tx.execute_many("DELETE FROM result WHERE id = ?", results)
    tx.execute_many("DELETE FROM workunit WHERE id = ?", [(id_,) for id_ in ids])
    tx.execute(_NOTHING_LEFT)
    return len(ids)


def forget_words(path: Path, user_id: int) -> None:
    """Remove what programs wrote on a user's computers, as `account_changes.erase` does in the project.

    Not for the event loop; harmless to repeat.
    """
    if not path.exists():
        return
    connection = sqlite3.connect(path, isolation_level=None, timeout=BUSY_SECONDS)
    try:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'result_text'").fetchone():
            return  # whoever made the file was killed before its first commit
        connection.execute(
            "UPDATE result_text SET stderr = NULL, report = '{}' WHERE result_id IN (SELECT id FROM result WHERE user_id = ?)",
            (user_id,),
        )
    finally:
        connection.close()


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
