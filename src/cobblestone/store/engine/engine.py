"""The interface of a database to `cobblestone.store.engine.database`; SQLite and PostgreSQL have such an engine.

SQL is written once, with ``?`` placeholders, in what both understand.  What differs stands here: how a transaction begins,
whether rows can be locked, how a list of values is passed, and what an error means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum, auto
from typing import Any, Protocol

from cobblestone.store.engine.process_group import ProcessGroup, Program

Row = tuple[Any, ...]  # a driver's row; the verbs give the values their types
Parameters = Sequence[object]
#: Makes an error for rows of parameters, of which only a number changed a row.
Refusal = Callable[[Sequence[Parameters], int], Exception]


class DatabaseFault(Enum):
    """The meaning of an error of a driver, or of a write, for its transaction."""

    JOB = auto()  #: only the write that caused it fails
    TRANSACTION = auto()  #: nothing of the transaction can be kept
    COLLISION = auto()  #: another process was in the way: the transaction may be tried again
    BLOCKED = auto()  #: a row was held for long: writes that need it come again later, the others go on


class OutcomeUnknown(Exception):
    """The connection was lost between a COMMIT and its answer: the transaction may have been stored or not."""


class Cursor(Protocol):
    """The result of a statement."""

    @property
    def rowcount(self) -> int:
        """Return the number of changed rows."""
        ...

    def fetchall(self) -> list[Row]:
        """Return all rows."""
        ...

    def fetchone(self) -> Row | None:
        """Return the next row, or None."""
        ...


class Connection(Protocol):
    """A connection with explicit transactions."""

    row_locks: bool  #: whether other processes may write at the same time, so that rows need locks
    #: whether a failed write is undone alone; else its neighbours are tried again without it
    savepoints: bool

    asks_ahead: bool  #: whether a question costs a round trip, so that several shall travel together
    unreadable: dict[str, None]  #: what is said of the rows that were left out, see `Database.leave_out`

    def execute(self, sql: str, parameters: Parameters = (), /) -> Cursor:
        """Run a statement."""
        ...

    def ask_ahead(self, questions: Iterable[tuple[str, Parameters]], /) -> None:
        """Send queries that will be run soon, together; each is answered when it is run with the same parameters."""
        ...

    def drop_answers(self) -> None:
        """Discard answers to prefetched queries that were not run."""
        ...

    def execute_each(self, sql: str, rows: Iterable[Parameters], /) -> list[int]:
        """Run a statement once per row of parameters; return the number of changed rows of each."""
        ...

    def executemany(self, sql: str, rows: Iterable[Parameters], /) -> object:
        """Run a statement once per row of parameters, at the latest before the next statement with a result."""
        ...

    def execute_expecting(self, sql: str, rows: Sequence[Parameters], error: Refusal, /) -> None:
        """Run a statement as ``executemany`` does, where every run must change one row.

        Raises:
            Exception: made by ``error``; at the latest before the commit.
        """
        ...

    def select_in(self, sql: str, values: Sequence[object], parameters: Parameters, /) -> list[Row]:
        """Return rows of a query that ends its parameters with ``IN (??)``: one of these values."""
        ...

    def column_names(self, table: str, /) -> list[str]:
        """Return names of a table's columns, in order."""
        ...

    def about_rows(self, table: str, /) -> int:
        """Return about how many rows a table has, without counting them."""
        ...

    def take_room(self) -> None:
        """Write something that needs disk space, and undo it."""
        ...

    def begin(self) -> None:
        """Start a transaction, after reconnecting if the server has gone."""
        ...

    def commit(self) -> None:
        """Make the transaction durable."""
        ...

    def rollback(self) -> None:
        """Undo the transaction; never raises."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class Engine(Protocol):
    """A kind of database, and the location of this one."""

    def connect(self, *, read_only: bool = False) -> Connection:
        """Open a connection.

        Raises:
            Busy: another process holds the database.
            StoreError: it cannot be reached, or is no such database.
        """
        ...

    def fault(self, error: BaseException) -> DatabaseFault:
        """Return the meaning of an error."""
        ...

    def process_group(self, roles: Sequence[str], program: Program | None = None) -> ProcessGroup:
        """Return the processes that work on this database.

        ``roles``: all that they divide among them; ``program``: what this one is to the others.
        """
        ...
