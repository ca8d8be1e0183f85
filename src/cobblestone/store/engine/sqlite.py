"""SQLite: one file, one writer, readers on snapshots (WAL).

The driver is APSW.  Python's own releases the GIL for every column that it reads, so that a row of 25 columns
takes three times as long, and much longer while another thread has work.  A process must not open a project's database with
both: each holds a SQLite of its own, and file locks that one takes are invisible to the other (see sqlite.org/howtocorrupt.html).
"""

# The driver's types name `collections.abc.Buffer`, which Python 3.11 lacks, so the checker sees holes in them.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw

from cobblestone.domain.errors import Busy, StoreError
from cobblestone.store.engine.engine import DatabaseFault, Parameters, Refusal, Row
from cobblestone.store.engine.process_group import ProcessGroup, Program

BUSY_TIMEOUT_MS = 10_000
CACHE_KIB = 16_000
#: Every connection has a cache of its own; what misses it is still in the system's.
READER_CACHE_KIB = 4_000
CACHED_STATEMENTS = 512
MAX_VALUES = 500  #: in one ``IN (...)``
#: Pages of the log after which they are copied into the file.
CHECKPOINT_PAGES = 1000


#: Errors that a statement's own values cause; all others concern the file.
_FAULTS_OF_JOBS = (
    apsw.ConstraintError,
    apsw.MismatchError,
    apsw.TooBigError,
    apsw.RangeError,
    apsw.BindingsError,
)


class SqliteCursor(apsw.Cursor):
    """The result of a statement."""

    __slots__ = ()

    @property
    def rowcount(self) -> int:
        """Return the number of rows that the last statement changed."""
        return self.connection.changes()


class SqliteConnection(apsw.Connection):
    """A connection that starts and ends transactions only when told to."""

    row_locks = False
    savepoints = True
    asks_ahead = False

    if TYPE_CHECKING:  # the driver's own methods, whose cursors are ours

        def execute(  # pyright: ignore[reportIncompatibleMethodOverride]  # none of the driver's further options
            self, sql: str, parameters: Parameters = (), /
        ) -> SqliteCursor: ...

        def executemany(  # pyright: ignore[reportIncompatibleMethodOverride]  # the same
            self, sql: str, rows: Iterable[Parameters], /
        ) -> SqliteCursor: ...

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        super().__init__(str(path), statementcachesize=CACHED_STATEMENTS)
        self.cursor_factory = SqliteCursor
        self._begin = "BEGIN" if read_only else "BEGIN IMMEDIATE"
        # One plan per statement: else a new value of a parameter may mean that the statement is compiled again.
        self.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        self.set_busy_timeout(BUSY_TIMEOUT_MS)
        self.execute("PRAGMA journal_mode=WAL")
        self.execute("PRAGMA synchronous=FULL")
        self.execute("PRAGMA foreign_keys=ON")
        self.execute(f"PRAGMA cache_size=-{READER_CACHE_KIB if read_only else CACHE_KIB}")
        self.execute("PRAGMA temp_store=MEMORY")
        self.unreadable: dict[str, None] = {}
        self._path = path
        self._log_pages, self._log_is_long = 0, False
        self._checkpoint: threading.Thread | None = None
        self.set_wal_hook(self._note_log)
        if read_only:
            self.execute("PRAGMA query_only=ON")

    def begin(self) -> None:
        """Start a transaction; one that writes takes the only write lock at once."""
        self.execute(self._begin)

    def commit(self) -> None:
        """Make the transaction durable.

        The log is copied into the file meanwhile, in a thread: that takes as long as many commits.  What was written until
        that has ended is little, and is copied here, for then the log can begin anew.
        """
        self.execute("COMMIT")
        if self._checkpoint is None:
            if self._log_is_long:
                thread = threading.Thread(target=_copy_log, args=(self._path,), name="checkpoint")
                try:
                    thread.start()
                    self._checkpoint = thread
                except RuntimeError:  # the system has no more: the transaction is durable all the same
                    _copy_log(self._path)
        elif not self._checkpoint.is_alive():
            self._checkpoint = None
            with contextlib.suppress(apsw.Error):  # it is tried again
                self.wal_checkpoint()

    def _note_log(self, _connection: apsw.Connection, _name: str, n_pages: int, /) -> int:
        # Of a log that a reader needs, which goes on to grow, only now and then: it may still be needed.
        self._log_is_long = n_pages // CHECKPOINT_PAGES > self._log_pages // CHECKPOINT_PAGES
        self._log_pages = n_pages
        return apsw.SQLITE_OK

    def rollback(self) -> None:
        """Undo the transaction; never raises."""
        with contextlib.suppress(apsw.Error):
            if self.in_transaction:
                self.execute("ROLLBACK")

    def close(self, force: bool = False) -> None:
        """Close the connection."""
        if self._checkpoint is not None:
            self._checkpoint.join()
        super().close(force)

    def take_room(self) -> None:
        """Write a page, with a version that no program has."""
        self.execute("PRAGMA user_version = 0")

    def ask_ahead(self, questions: Iterable[tuple[str, Parameters]], /) -> None:
        """Do nothing: the database is local."""

    def drop_answers(self) -> None:
        """Do nothing: there are none."""

    def execute_each(self, sql: str, rows: Iterable[Parameters], /) -> list[int]:
        """Run a statement once per row of parameters; return the number of changed rows of each."""
        counts: list[int] = []
        for row in rows:
            self.execute(sql, row)
            counts.append(self.changes())
        return counts

    def execute_expecting(self, sql: str, rows: Sequence[Parameters], error: Refusal, /) -> None:
        """See `Connection.execute_expecting`."""
        before = self.total_changes()
        self.executemany(sql, rows)
        changed = self.total_changes() - before
        if changed != len(rows):
            raise error(rows, changed)

    def select_in(self, sql: str, values: Sequence[object], parameters: Parameters, /) -> list[Row]:
        """Return rows of a query with ``IN (??)``, some hundred values at a time."""
        rows: list[Row] = []
        for start in range(0, len(values), MAX_VALUES):
            part = values[start : start + MAX_VALUES]
            rows += self.execute(_with_places(sql, len(part)), [*parameters, *part]).fetchall()
        return rows

    def column_names(self, table: str, /) -> list[str]:
        """Return names of a table's columns, in order."""
        return [
            row[0] for row in self.execute("SELECT name FROM pragma_table_info(?) ORDER BY cid", (table,))
        ]

    def about_rows(self, table: str, /) -> int:
        """Return about how many rows a table has: as many as there are numbers from the first to the last."""
        ends = f"(SELECT max(rowid) FROM {table}) - (SELECT min(rowid) FROM {table})"
        return next(row[0] for row in self.execute(f"SELECT coalesce({ends} + 1, 0)"))


@lru_cache(CACHED_STATEMENTS)
def _with_places(sql: str, n: int) -> str:
    return sql.replace("(??)", f"({','.join('?' * n)})")


def open_reader(path: Path) -> Any:  # Any: see the top of this file
    """Return a plain connection that only reads an existing file.

    Raises:
        apsw.Error: it cannot be opened.
    """
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    return connection


def open_plain(path: Path) -> Any:  # Any: see the top of this file
    """Return a connection without the settings of a store's database, to a file that is created if missing.

    Raises:
        apsw.Error: it cannot be opened.
    """
    connection = apsw.Connection(str(path))
    connection.set_busy_timeout(BUSY_TIMEOUT_MS)
    return connection


def _copy_log(path: Path) -> None:
    # A disk that is full or does not answer is the writer's to report.
    with contextlib.suppress(apsw.Error), contextlib.closing(SqliteConnection(path, read_only=True)) as other:
        other.wal_checkpoint()


def make_private(path: Path, *, owner_of: Path | None = None) -> None:
    """Create a database that only its owner can read (it holds addresses and password hashes), or make one so.

    SQLite gives its log the same owner and permissions.  ``owner_of``: a database whose owner it shall have, as far as we may.
    """
    # another's file, or a file system without permissions: `doctor` says so
    with contextlib.suppress(OSError):
        path.touch(mode=0o600)
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)
        if owner_of is not None:
            os.chown(path, owner_of.stat().st_uid, owner_of.stat().st_gid)


class SqliteEngine:
    """The SQLite database in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def connect(self, *, read_only: bool = False) -> SqliteConnection:
        """Open the file with a store's settings.

        Raises:
            Busy: another process writes for longer than the time-out.
            StoreError: the file is not a database.
        """
        path = self._path
        try:
            if not read_only:
                make_private(path)
            return SqliteConnection(path, read_only=read_only)
        except (apsw.BusyError, apsw.LockedError) as error:
            raise Busy(f"{path} is in use by another process.") from error
        except apsw.NotADBError as error:
            raise StoreError(f"{path} is not a SQLite database: {error}.") from error
        except apsw.Error as error:
            raise StoreError(f"{path} cannot be opened: {error}.") from error

    def fault(self, error: BaseException) -> DatabaseFault:
        """Distinguish a statement's own errors from a full disk, a lock or damage, which discard the whole transaction."""
        ours = isinstance(error, apsw.Error) and not isinstance(error, _FAULTS_OF_JOBS)
        return DatabaseFault.TRANSACTION if ours else DatabaseFault.JOB

    def process_group(self, roles: Sequence[str], program: Program | None = None) -> ProcessGroup:
        """Return a group of this process alone: a SQLite database is open in one process at a time."""
        return ProcessGroup()


def database_bytes(path: Path) -> int:
    """Return the size of a database with its log."""
    return sum(each.stat().st_size for each in (path, path.with_name(path.name + "-wal")) if each.exists())
