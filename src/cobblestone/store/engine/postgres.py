"""PostgreSQL: any number of processes write at the same time, so rows that are read to be changed are locked."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict

from cobblestone.domain.errors import StoreError
from cobblestone.store.engine.engine import DatabaseFault, Row
from cobblestone.store.engine.postgres_connection import PostgresConnection, adapt
from cobblestone.store.engine.process_group import ProcessGroup, Program

OLDEST_VERSION = 14
CONNECT_SECONDS = 3
"""Nobody waits longer for a server that does not answer: whoever waits meanwhile waits as long once more."""
WRITE_ANSWER_SECONDS = 6.0
READ_ANSWER_SECONDS = 9.0
"""A server that is silent for so long counts as gone.  The server itself gives a statement up a second earlier and says so."""
LOCK_SECONDS = 1.0
"""Processes of ours hold the locks of rows for some milliseconds.  Who waits longer waits for somebody else, and lets the
other writes of its transaction go on without it."""
TRIPS = 20
"""Round trips to the database that a write of ours takes at most while it holds locks: so much longer do others wait for it."""
LONGEST_TRIP = 0.5
"""Seconds; no more is allowed for, however far away the server is."""
IDLE_SECONDS = 10.0
"""A process that was stopped in the middle of a write loses its connection after that, and with it its locks."""

# Statements are prepared once and run many thousand times: planning them anew, or compiling them, would cost more than it saves.
_SESSION = (
    "SET synchronous_commit = on; SET jit = off; SET plan_cache_mode = force_generic_plan;"
    " SET client_min_messages = warning; SET idle_in_transaction_session_timeout = '120s'"
)
_WRITING = "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off"
"""Writes find rows by keys.  A plan that reads a whole table, small when it was made, would stay after the table has grown."""
_SERVING = "SET lock_timeout = {lock}; SET statement_timeout = {statement}; SET idle_in_transaction_session_timeout = {idle}"


class PostgresEngine:
    """A database on a PostgreSQL server."""

    def __init__(self, address: str) -> None:
        self._address = address

    def connect(self, *, read_only: bool = False) -> PostgresConnection:
        """Open a connection.

        Raises:
            StoreError: see :func:`connect`.
        """
        seconds = READ_ANSWER_SECONDS if read_only else WRITE_ANSWER_SECONDS

        def serving() -> tuple[psycopg.Connection[Row], float]:
            connection = connect(self._address)
            away = TRIPS * _round_trip(connection)
            limits = {"lock": LOCK_SECONDS + away, "statement": seconds - 1 + away, "idle": IDLE_SECONDS}
            milliseconds = {name: round(1000 * limit) for name, limit in limits.items()}
            connection.execute(_SERVING.format(**milliseconds).encode(), prepare=False)
            if not read_only:
                connection.execute(_WRITING, prepare=False)
            return connection, seconds + away

        return PostgresConnection(serving, read_only=read_only)

    def fault(self, error: BaseException) -> DatabaseFault:
        """Return the meaning of an error for its transaction, which PostgreSQL discards after any error."""
        if isinstance(error, errors.DeadlockDetected | errors.SerializationFailure | errors.UniqueViolation):
            # A unique row that another process wrote a moment ago: the next try sees it and says so in its own words.
            return DatabaseFault.COLLISION
        if isinstance(error, errors.LockNotAvailable | errors.QueryCanceled):
            return DatabaseFault.BLOCKED
        if isinstance(
            error, errors.ProgramLimitExceeded | errors.StatementTooComplex | errors.TooManyArguments
        ):
            return (
                DatabaseFault.JOB
            )  # operational errors to the driver, yet caused by the statement's own values
        if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
            return DatabaseFault.TRANSACTION
        return DatabaseFault.JOB

    def process_group(self, roles: Sequence[str], program: Program | None = None) -> ProcessGroup:
        """Return a group of any number of processes."""
        from cobblestone.store.engine.postgres_process_group import PostgresProcessGroup

        return PostgresProcessGroup(self._address, roles, program)


def connect(address: str) -> psycopg.Connection[Row]:
    """Open a connection in autocommit mode with our settings.

    Raises:
        StoreError: the server cannot be reached, refuses, or is too old; the text says what to do.
    """
    try:
        connection = psycopg.connect(
            address,
            autocommit=True,
            prepare_threshold=0,
            connect_timeout=CONNECT_SECONDS,
            # A network that swallows packets is noticed: the system itself would try for a quarter of an hour.
            keepalives_idle=5,
            keepalives_interval=2,
            keepalives_count=3,
            tcp_user_timeout=10_000,
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
    adapt(connection)
    connection.execute(_SESSION, prepare=False)
    return connection


def _round_trip(connection: psycopg.Connection[Row]) -> float:
    """Return the round-trip time to a server, in seconds; a busy machine makes some trips longer."""

    def trip() -> float:
        began = time.perf_counter()
        connection.execute("SELECT 1", prepare=False)
        return time.perf_counter() - began

    return min(*(trip() for _ in range(3)), LONGEST_TRIP)


def first_line(error: BaseException) -> str:
    """Return the first line of a driver's message, without a full stop."""
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
    """Return an address without its password."""
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
