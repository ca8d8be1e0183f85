"""The store's engine on PostgreSQL: connections that serve requests within limits of time, and what errors mean."""

from __future__ import annotations

import time
from collections.abc import Sequence

import psycopg
from psycopg import errors

from cobblestone.store.engine.engine import DatabaseFault, OutcomeUnknown, Row
from cobblestone.store.engine.postgres import connect
from cobblestone.store.engine.postgres_connection import PostgresConnection
from cobblestone.store.engine.postgres_process_group import PostgresProcessGroup
from cobblestone.store.engine.process_group import ProcessGroup, Program

WRITE_ANSWER_SECONDS = 6.0
#: A server that is silent for so long counts as gone.  The server itself gives a statement up a second earlier and says so.
READ_ANSWER_SECONDS = 9.0
#: Processes of ours hold the locks of rows for some milliseconds.  A longer wait is for a program that is not ours, and lets the
#: other writes of its transaction go on without it.
LOCK_SECONDS = 1.0
#: Round trips to the database that a write of ours takes at most while it holds locks: so much longer do others wait for it.
TRIPS = 20
#: Seconds; no more is allowed for, however far away the server is.
LONGEST_TRIP = 0.5
#: A process that was stopped in the middle of a write loses its connection after that, and with it its locks.
IDLE_SECONDS = 10.0
#: A reader holds no locks, and may have to put millions of rows in order between two questions.
READ_IDLE_SECONDS = 120.0

#: Writes find rows by keys.  A plan that reads a whole table, small when it was made, would stay after the table has grown.
_WRITING = "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off"
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
            connection = connect(self._address, answer_seconds=seconds)
            away = TRIPS * _round_trip(connection)
            limits = {
                "lock": LOCK_SECONDS + away,
                "statement": seconds - 1 + away,
                "idle": READ_IDLE_SECONDS if read_only else IDLE_SECONDS,
            }
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
            # operational errors to the driver, yet caused by the statement's own values
            return DatabaseFault.JOB
        if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | OutcomeUnknown):
            return DatabaseFault.TRANSACTION
        # for the driver the state of a transaction is an internal matter: the server has ended it, or takes no writes
        if isinstance(error, psycopg.InternalError) and (error.sqlstate or "").startswith("25"):
            return DatabaseFault.TRANSACTION
        return DatabaseFault.JOB

    def process_group(self, roles: Sequence[str], program: Program | None = None) -> ProcessGroup:
        """Return a group of any number of processes."""
        return PostgresProcessGroup(self._address, roles, program)


def _round_trip(connection: psycopg.Connection[Row]) -> float:
    """Return the round-trip time to a server, in seconds; a busy machine makes some trips longer."""

    def trip() -> float:
        began = time.perf_counter()
        connection.execute("SELECT 1", prepare=False)
        return time.perf_counter() - began

    return min(*(trip() for _ in range(3)), LONGEST_TRIP)
