"""Connections to a PostgreSQL server: opened with our settings, or refused with what to do."""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus

from cobblestone.domain.errors import StoreError
from cobblestone.store.engine.engine import Row
from cobblestone.store.engine.postgres_connection import adapt

T = TypeVar("T")

OLDEST_VERSION = 14
#: The longest wait for a server that does not answer; callers that come meanwhile wait as long once more.
CONNECT_SECONDS = 3

# Statements are prepared once and run many thousand times: planning them again, or compiling them, would cost more than it saves.
# So would workers of their own: without the values of parameters, many rows are expected where a large table has few.
# A new session knows none of our settings; one that others use at the same time does, and they would change them.
_SESSION = (
    "SELECT current_setting('cobblestone.session', true); SET cobblestone.session = 'ours';"
    " SET synchronous_commit = on; SET jit = off; SET plan_cache_mode = force_generic_plan;"
    " SET max_parallel_workers_per_gather = 0;"
    " SET client_min_messages = warning; SET idle_in_transaction_session_timeout = '120s'; SET statement_timeout = {}"
)


class PatientConnection(psycopg.Connection[Row]):
    """A connection that is given up when the server is silent for too long, though the network is well."""

    #: for one statement; None: any time, for statements that go over whole tables
    answer_seconds: float | None = CONNECT_SECONDS

    def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        """Consume one of the driver's generators; ``timeout``: of the caller, who goes on."""
        limit = self.answer_seconds if timeout is None else None
        try:
            return super().wait(gen, interval, timeout if limit is None else limit)
        except psycopg.OperationalError:
            if limit is not None and self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                self.pgconn.finish()  # its answer may come yet
                raise psycopg.OperationalError(f"the database did not answer for {limit:g} s") from None
            raise


def connect(address: str, *, answer_seconds: float | None = None) -> psycopg.Connection[Row]:
    """Open a connection in autocommit mode with our settings.

    ``answer_seconds``: see `PatientConnection`; the server gives up its statements a second earlier.

    Raises:
        StoreError: the server cannot be reached, refuses, or is too old; the text says what to do.
    """
    try:
        connection = PatientConnection.connect(
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
            client_encoding="utf8",
        )
        refusal = _set_up(connection, answer_seconds)
    except psycopg.ProgrammingError as error:
        raise StoreError(
            f"{shown(address)} is not an address of a PostgreSQL database: {first_line(error)}."
            " Write postgresql://USER@HOST/DATABASE"
        ) from error
    except psycopg.OperationalError as error:
        text = f"{shown(address)} cannot be opened: {first_line(error)}.{_hint(str(error))}"
        raise StoreError(text) from error
    if refusal:
        connection.close()
        raise StoreError(f"{shown(address)} {refusal}")
    adapt(connection)
    connection.answer_seconds = answer_seconds
    return connection


@contextmanager
def opened(address: str) -> Generator[psycopg.Connection[Row]]:
    """Yield a connection for work that may take any time.

    Raises:
        StoreError: see `connect`; also whatever the server refuses meanwhile.
    """
    try:
        with connect(address) as connection:
            yield connection
    except psycopg.Error as error:
        raise StoreError(f"{shown(address)} does not go on: {first_line(error)}.") from error


def _set_up(connection: PatientConnection, answer_seconds: float | None) -> str:
    """Make our settings for a session; return why it cannot be used, or nothing."""
    version = connection.info.server_version // 10000
    if version < OLDEST_VERSION:
        return f"runs PostgreSQL {version}; cobblestone needs {OLDEST_VERSION} or newer. Upgrade the server."
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        return (
            f"has the encoding {encoding}, which cannot hold every name. Create it again:"
            " createdb --encoding UTF8 --template template0 …"
        )
    limit = round(1000 * answer_seconds - 1000) if answer_seconds else 0
    known = connection.execute(_SESSION.format(limit).encode(), prepare=False).fetchone()
    if known and known[0]:
        return "is behind a pool that shares its sessions out. Set pool_mode = session (pgbouncer)."
    return ""


def first_line(error: BaseException) -> str:
    """Return the first line of a driver's message, without a full stop."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__).rstrip(".")


def _hint(message: str) -> str:
    hints = {
        "does not exist": "Create it first, for example: sudo -u postgres createuser --pwprompt cobblestone &&"
        " sudo -u postgres createdb --encoding UTF8 --template template0 --owner cobblestone cobblestone",
        "authentication failed": "Is the password right? It can be given in the address, or in ~/.pgpass.",
        "no password supplied": "Give a password in the address, or in ~/.pgpass.",
        "pg_hba.conf": "The server does not accept this user from here: add a line to its pg_hba.conf.",
        "too many clients": "Raise max_connections of the server.",
        "remaining connection slots": "Raise max_connections of the server.",
        "onnection refused": "Is PostgreSQL running there, and does it listen on that address?",
        "No such file": "Is PostgreSQL running on this machine?",
        "could not translate host name": "Is the name of the host right?",
        "timeout expired": "No answer. Is the host right, and does its firewall allow connections?",
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
