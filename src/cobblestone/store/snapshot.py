"""Copies of a SQLite database that is in use, and whether a database file is sound."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

from cobblestone.domain.errors import StoreError

PAGES_PER_STEP = 2000
MAX_PROBLEMS = 20

Progress = Callable[[float], None]
"""Is told the part that is done, from 0 to 1."""


def copy_database(source: Path, target: Path, *, progress: Progress | None = None) -> None:
    """Copy a database as it is at one moment, while others read and write it.  The copy has no log of its own.

    Raises:
        StoreError: it cannot be read, or the copy cannot be written.
    """
    try:
        reader = sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)
        try:
            writer = sqlite3.connect(target, isolation_level=None)
            try:
                # An open read holds the snapshot: writes of others do not make the copy begin anew.
                reader.execute("BEGIN")
                reader.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
                reader.backup(writer, pages=PAGES_PER_STEP, progress=_report(progress), sleep=0)
                reader.execute("ROLLBACK")
                writer.execute("PRAGMA journal_mode=DELETE")
            finally:
                writer.close()
        finally:
            reader.close()
    except sqlite3.Error as error:
        raise StoreError(f"{source} could not be copied to {target}: {error}.") from error


def _report(progress: Progress | None) -> Callable[[int, int, int], None]:
    def report(status: int, remaining: int, total: int) -> None:
        if progress is not None:
            progress(1 - remaining / total if total else 1.0)

    return report


def database_problems(path: Path) -> list[str]:
    """What is wrong with a database file; an empty list when it is sound."""
    try:
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
        try:
            found = [row[0] for row in connection.execute(f"PRAGMA integrity_check({MAX_PROBLEMS})")]
        finally:
            connection.close()
    except sqlite3.Error as error:
        return [str(error)]
    return [] if found == ["ok"] else found


def files_on_disk(path: Path) -> tuple[set[str], set[str]]:
    """Names of the files that a database's rows need: downloads in use, and outputs that are not in the database itself."""
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    try:
        downloads = {row[0] for row in connection.execute("SELECT name FROM file WHERE refs > 0")}
        outputs = {row[0] for row in connection.execute("SELECT name FROM upload WHERE data IS NULL")}
    finally:
        connection.close()
    return downloads, outputs
