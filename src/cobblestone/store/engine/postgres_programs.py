"""Which programs run on a PostgreSQL database: each notes its version and its schema, and for how long it can be relied on.

The tables belong to no schema, so that programs of any version can read them: who upgrades sees who works here, and an old
program that comes back (it hung, it was cut off) sees that the database has gone on without it.
"""

from __future__ import annotations

from collections.abc import Sequence

import psycopg

from cobblestone.store.engine.engine import Row
from cobblestone.store.engine.process_group import Program

_CREATE_KEY = 7_204_100  #: of the advisory lock under which tables are made
_NOW = "extract(epoch FROM clock_timestamp())"
_TABLES = """
CREATE TABLE IF NOT EXISTS process_program (
    member TEXT PRIMARY KEY, host TEXT NOT NULL, pid BIGINT NOT NULL, version TEXT NOT NULL, schema TEXT NOT NULL,
    until DOUBLE PRECISION NOT NULL
);
CREATE TABLE IF NOT EXISTS schema_bears (
    one BOOLEAN PRIMARY KEY DEFAULT true CHECK (one), oldest TEXT NOT NULL
);
"""
_NOTE = f"""
INSERT INTO process_program (member, host, pid, version, schema, until)
VALUES (%(member)s, %(host)s, %(pid)s, %(version)s, %(schema)s, {_NOW} + %(seconds)s)
ON CONFLICT (member) DO UPDATE SET until = excluded.until
"""
_FORGET = f"DELETE FROM process_program WHERE until < {_NOW} - 3600"
_LIVING = (
    f"SELECT member, host, pid, version, schema FROM process_program WHERE until >= {_NOW} ORDER BY host, pid"
)
_MEMBERS = f"SELECT DISTINCT member FROM process_member WHERE until >= {_NOW}"
NOTE_OLDEST = (
    "INSERT INTO schema_bears (oldest) VALUES ('{}') ON CONFLICT (one) DO UPDATE SET oldest = excluded.oldest"
)
"""Notes the oldest schema whose programs the database bears; belongs into the transaction that takes the steps."""


def make_tables(connection: psycopg.Connection[Row], tables: str = _TABLES) -> None:
    """Make tables that are no part of anybody's schema; one process at a time."""
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_CREATE_KEY,))
        for statement in filter(str.strip, tables.split(";")):
            connection.execute(statement.encode())


def note_program(connection: psycopg.Connection[Row], program: Program, *, seconds: float) -> None:
    """Note that a program works here for some seconds more."""
    values = {
        "member": program.member,
        "host": program.host,
        "pid": program.pid,
        "version": program.version,
        "schema": program.schema,
        "seconds": seconds,
    }
    connection.execute(_NOTE.encode(), values)
    connection.execute(_FORGET.encode())


def forget_program(connection: psycopg.Connection[Row], member: str) -> None:
    """Note that a program has ended."""
    connection.execute("DELETE FROM process_program WHERE member = %s", (member,))


def oldest_borne(connection: psycopg.Connection[Row]) -> str | None:
    """Return the oldest schema whose programs can work here; None: that was never noted."""
    if not _has_table(connection, "schema_bears"):
        return None
    row = connection.execute("SELECT oldest FROM schema_bears").fetchone()
    return None if row is None else str(row[0])


def living_programs(connection: psycopg.Connection[Row]) -> Sequence[Program]:
    """Return the programs that work here; of those from before programs were noted only the number is known."""
    noted: list[Program] = []
    if _has_table(connection, "process_program"):
        noted = [Program(*row) for row in connection.execute(_LIVING.encode())]
    if not _has_table(connection, "process_member"):
        return noted
    told = {program.member for program in noted}
    members = [str(row[0]) for row in connection.execute(_MEMBERS.encode())]
    return [*noted, *(Program(member) for member in members if member not in told)]


def _has_table(connection: psycopg.Connection[Row], name: str) -> bool:
    row = connection.execute("SELECT to_regclass(%s) IS NOT NULL", (name,)).fetchone()
    return bool(row and row[0])
