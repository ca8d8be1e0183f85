"""PostgreSQL: any number of processes write at the same time, so rows that are read to be changed are locked."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.array import ListBinaryDumper
from psycopg.types.numeric import Int8BinaryDumper, Int8Dumper, NumericBinaryLoader
from psycopg.types.string import StrBinaryDumper

from cobblestone.domain.errors import StoreError
from cobblestone.store.crew import Crew
from cobblestone.store.engine import Fault, Parameters, Row

OLDEST_VERSION = 14
CONNECT_SECONDS = 10
_PLACES = re.compile(r"(NOT )?IN \(\?\?\)|\?")

# Statements are prepared once and run many thousand times: planning them anew, or compiling them, would cost more than it saves.
# A process that was stopped in the middle of a write must not hold up the others for ever.
_SESSION = (
    "SET synchronous_commit = on; SET jit = off; SET plan_cache_mode = force_generic_plan;"
    " SET client_min_messages = warning; SET idle_in_transaction_session_timeout = '120s'"
)


class _TextDumper(StrBinaryDumper):
    """PostgreSQL has no NUL in texts; strangers' texts may."""

    def dump(self, obj: str) -> Any:  # a buffer of the driver
        return super().dump(obj.replace("\0", "") if "\0" in obj else obj)


class _NumberLoader(NumericBinaryLoader):
    """Sums of integers come as `numeric`; SQLite gives numbers, so do we."""

    def load(self, data: Any) -> Any:  # buffer in, number out; the base class says Decimal
        number = super().load(data)
        whole = int(number)
        return whole if whole == number else float(number)


@lru_cache(maxsize=4096)
def translated(sql: str) -> bytes:
    """A statement with PostgreSQL's own placeholders; question marks inside of texts stay."""
    count = 0

    def place(match: re.Match[str]) -> str:
        nonlocal count
        count += 1
        if match[0] == "?":
            return f"${count}"
        return f"<> ALL(${count})" if match[1] else f"= ANY(${count})"

    parts = sql.split("'")
    parts[::2] = [_PLACES.sub(place, part) for part in parts[::2]]
    return "'".join(parts).encode()


class _Nothing:
    """The answer to a statement that was run for no rows."""

    rowcount = 0

    def fetchall(self) -> list[Row]:
        """No rows."""
        return []

    def fetchone(self) -> Row | None:
        """No row."""
        return None


class PostgresConnection:
    """A connection with explicit transactions that comes back after the server went away."""

    row_locks = True
    savepoints = False

    def __init__(self, address: str, *, read_only: bool) -> None:
        self._address = address
        self._begin = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY" if read_only else b"BEGIN"
        self._open()

    def _open(self) -> None:
        self._connection = connect(self._address)
        self._cursor: psycopg.RawCursor[Row] = psycopg.RawCursor(self._connection)

    def execute(self, sql: str, parameters: Parameters = (), /) -> psycopg.RawCursor[Row]:
        """Run a statement."""
        return self._cursor.execute(translated(sql), parameters, prepare=True, binary=True)

    def executemany(self, sql: str, rows: Iterable[Parameters], /) -> psycopg.RawCursor[Row] | _Nothing:
        """Run a statement once per row of parameters, sent together."""
        todo = list(rows)
        if not todo:
            return _Nothing()
        if len(todo) == 1:
            return self.execute(sql, todo[0])
        self._cursor.executemany(translated(sql), todo)
        return self._cursor

    def select_in(self, sql: str, values: Sequence[object], parameters: Parameters, /) -> list[Row]:
        """Rows of a query with ``IN (??)``: the values travel as one array."""
        return self.execute(sql, [*parameters, list(values)]).fetchall() if values else []

    def column_names(self, table: str, /) -> list[str]:
        """Names of a table's columns, in order."""
        description = self.execute(f"SELECT * FROM {table} LIMIT 0").description
        return [column.name for column in description or ()]

    def begin(self) -> None:
        """Begin a transaction, after connecting again if the server has gone."""
        if not self._connection.closed:
            with contextlib.suppress(psycopg.OperationalError):
                self._cursor.execute(self._begin)
                return
            self.close()
        self._open()
        self._cursor.execute(self._begin)

    def commit(self) -> None:
        """Make the transaction durable."""
        self._connection.commit()

    def rollback(self) -> None:
        """Undo the transaction; never raises."""
        with contextlib.suppress(psycopg.Error):
            self._connection.rollback()

    def close(self) -> None:
        """Let go."""
        with contextlib.suppress(psycopg.Error):
            self._connection.close()


class PostgresEngine:
    """A database on a PostgreSQL server."""

    def __init__(self, address: str) -> None:
        self._address = address

    def connect(self, *, read_only: bool = False) -> PostgresConnection:
        """Open a connection.

        Raises:
            StoreError: see :func:`connect`.
        """
        return PostgresConnection(self._address, read_only=read_only)

    def fault(self, error: BaseException) -> Fault:
        """What an error means for its transaction, of which PostgreSQL keeps nothing after any error."""
        if isinstance(error, errors.DeadlockDetected | errors.SerializationFailure | errors.UniqueViolation):
            # A unique row that another process wrote a moment ago: the next try sees it and says so in its own words.
            return Fault.COLLISION
        if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
            return Fault.TRANSACTION
        return Fault.JOB

    def crew(self, roles: Sequence[str]) -> Crew:
        """Any number of processes."""
        from cobblestone.store.postgres_crew import PostgresCrew

        return PostgresCrew(self._address, roles)


def connect(address: str) -> psycopg.Connection[Row]:
    """Open a connection in autocommit mode with the project's settings.

    Raises:
        StoreError: the server cannot be reached, refuses, or is too old; the text says what to do.
    """
    try:
        connection = psycopg.connect(
            address,
            autocommit=True,
            prepare_threshold=0,
            connect_timeout=CONNECT_SECONDS,
            application_name="cobblestone",
        )
    except psycopg.ProgrammingError as error:
        raise StoreError(
            f"{shown(address)} is not an address of a PostgreSQL database: {first_line(error)}."
            " Write postgresql://USER@HOST/DATABASE"
        ) from error
    except psycopg.OperationalError as error:
        raise StoreError(
            f"{shown(address)} cannot be opened: {first_line(error)}.{_hint(str(error))}"
        ) from error
    version = connection.info.server_version // 10000
    if version < OLDEST_VERSION:
        connection.close()
        raise StoreError(
            f"{shown(address)} runs PostgreSQL {version}; cobblestone needs {OLDEST_VERSION} or newer. Upgrade the server."
        )
    connection.prepared_max = 1000
    adapters = connection.adapters
    # Integers are always bigint, alone and in lists: the driver would take the smallest type that holds a value, and keep
    # to it when the same statement comes again with a larger one.
    adapters.register_dumper(int, Int8Dumper)
    adapters.register_dumper(int, Int8BinaryDumper)
    adapters.register_dumper(list, ListBinaryDumper)
    adapters.register_dumper(bool, Int8Dumper)
    adapters.register_dumper(bool, Int8BinaryDumper)  # the schema has no booleans
    adapters.register_dumper(str, _TextDumper)
    adapters.register_loader("numeric", _NumberLoader)
    connection.execute(_SESSION, prepare=False)
    return connection


def plain_connection(address: str) -> psycopg.Connection[Row]:
    """A connection as the driver makes it, for SQLAlchemy."""
    return psycopg.connect(address)


def first_line(error: BaseException) -> str:
    """The essence of a driver's message, without a full stop."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__).rstrip(".")


def _hint(message: str) -> str:
    hints = {
        "does not exist": "Create it first, for example: sudo -u postgres createuser --pwprompt cobblestone &&"
        " sudo -u postgres createdb --owner cobblestone cobblestone",
        "authentication failed": "Is the password right? It may stand in the address, or in ~/.pgpass.",
        "no password supplied": "Give a password in the address, or in ~/.pgpass.",
        "pg_hba.conf": "The server does not let this user in from here: add a line to its pg_hba.conf.",
        "too many clients": "Raise max_connections of the server.",
        "remaining connection slots": "Raise max_connections of the server.",
        "onnection refused": "Is PostgreSQL running there, and does it listen on that address?",
        "No such file": "Is PostgreSQL running on this machine?",
        "could not translate host name": "Is the name of the host right?",
        "timeout expired": "Nothing answered. Is the host right, and does its firewall let us in?",
    }
    return next((f" {hint}" for key, hint in hints.items() if key in message), "")


def shown(address: str) -> str:
    """An address without its password."""
    try:
        parts = conninfo_to_dict(address)
    except psycopg.ProgrammingError:
        return re.sub(r"//[^/@]*@", "//", address)
    user = f"{parts['user']}@" if parts.get("user") else ""
    host = str(parts.get("host", ""))
    place = "" if host.startswith("/") else host
    port = f":{parts['port']}" if parts.get("port") and place else ""
    socket = f"?host={host}" if host.startswith("/") else ""
    return f"postgresql://{user}{place}{port}/{parts.get('dbname', '')}{socket}"
