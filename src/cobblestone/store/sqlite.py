"""SQLite: one file, one writer, readers on snapshots (WAL)."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from cobblestone.domain.errors import Busy, StoreError
from cobblestone.store.crew import Alone, Crew
from cobblestone.store.engine import Fault, Parameters, Row

BUSY_TIMEOUT_SECONDS = 10.0
CACHE_KIB = 32_000
MAX_VALUES = 500  #: in one ``IN (...)``


class SqliteConnection(sqlite3.Connection):
    """A connection that begins and ends transactions only when told to."""

    row_locks = False
    savepoints = True
    read_only = False

    def begin(self) -> None:
        """Begin a transaction; one that writes takes the only write lock at once."""
        self.execute("BEGIN" if self.read_only else "BEGIN IMMEDIATE")

    def rollback(self) -> None:
        """Undo the transaction; never raises."""
        with contextlib.suppress(sqlite3.Error):
            super().rollback()

    def select_in(self, sql: str, values: Sequence[object], parameters: Parameters, /) -> list[Row]:
        """Rows of a query with ``IN (??)``, some hundred values at a time."""
        rows: list[Row] = []
        for start in range(0, len(values), MAX_VALUES):
            part = values[start : start + MAX_VALUES]
            places = ",".join("?" * len(part))
            rows += self.execute(sql.replace("(??)", f"({places})"), [*parameters, *part]).fetchall()
        return rows

    def column_names(self, table: str, /) -> list[str]:
        """Names of a table's columns, in order."""
        return [column[0] for column in self.execute(f"SELECT * FROM {table} LIMIT 0").description]


class SqliteEngine:
    """The SQLite database in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def connect(self, *, read_only: bool = False) -> SqliteConnection:
        """Open the file with the project's settings.

        Raises:
            Busy: another process writes for longer than the time-out.
            StoreError: the file is not a database.
        """
        path = self._path
        try:
            connection = sqlite3.connect(
                path,
                timeout=BUSY_TIMEOUT_SECONDS,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=512,
                factory=SqliteConnection,
            )
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("PRAGMA foreign_keys=ON")
            connection.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
            connection.execute("PRAGMA temp_store=MEMORY")
            if read_only:
                connection.execute("PRAGMA query_only=ON")
                connection.read_only = True
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise Busy(f"{path} is in use by another process.") from error
            raise StoreError(f"{path} cannot be opened: {error}.") from error
        except sqlite3.DatabaseError as error:
            raise StoreError(f"{path} is not a project database: {error}.") from error
        return connection

    def fault(self, error: BaseException) -> Fault:
        """Disk full, locked, broken: nothing of the transaction can be kept."""
        return Fault.TRANSACTION if isinstance(error, sqlite3.OperationalError) else Fault.JOB

    def crew(self, roles: Sequence[str]) -> Crew:
        """This process alone: a SQLite project is open in one process at a time."""
        return Alone()
