"""Programs and the process group on PostgreSQL: recorded versions, leases with expiry, LISTEN and NOTIFY.

Which programs run on a PostgreSQL database: each notes its version and its schema, and for how long it can be relied on.

The tables belong to no schema, so that programs of any version can read them: who upgrades sees who works here, and an old
program that comes back (it hung, it was cut off) sees that the database has gone on without it.

The process group on PostgreSQL: leases are rows with a time, LISTEN and NOTIFY carry the notifications.

A process says every other second that it is there; one that is silent for `LEASE_SECONDS` (it hangs, it is cut off, its machine
lost its power) loses its shards to the others.  Times are those of the database's clock; this process stops on its own some
seconds earlier, by its own.  A connection that breaks costs nothing: the next one goes on with the same leases.
"""

from __future__ import annotations

import os
import secrets
import signal
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from functools import partial
from textwrap import wrap

import psycopg
import structlog

from cobblestone.store.engine.engine import Row
from cobblestone.store.engine.postgres import connect
from cobblestone.store.engine.process_group import ALL, SHARDS, Lease, OnNotify, ProcessGroup, Program

_CREATE_KEY = 7_204_100  #: of the advisory lock under which tables are made
_NOW = "extract(epoch FROM clock_timestamp())"
_PROGRAM_TABLES = """
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
_FORGET_PROGRAM = f"DELETE FROM process_program WHERE until < {_NOW} - 3600"
#: What was written before the database's clock was set back would else be good until then.
_GOOD = f"until BETWEEN {_NOW} AND {_NOW} + 60"
_LIVING = f"SELECT member, host, pid, version, schema FROM process_program WHERE {_GOOD} ORDER BY host, pid"
#: Notes the oldest schema whose programs the database bears; belongs into the transaction that takes the steps.
NOTE_OLDEST = (
    "INSERT INTO schema_bears (oldest) VALUES ('{}') ON CONFLICT (one) DO UPDATE SET oldest = excluded.oldest"
)


def make_tables(connection: psycopg.Connection[Row], tables: str = _PROGRAM_TABLES) -> None:
    """Create the tables that belong to no schema; one process at a time."""
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_CREATE_KEY,))
        for statement in filter(str.strip, tables.split(";")):
            connection.execute(statement.encode())


def note_program(connection: psycopg.Connection[Row], program: Program, *, seconds: float) -> None:
    """Record that a program works here for a number of seconds more."""
    connection.execute(_NOTE.encode(), {**asdict(program), "seconds": seconds})
    connection.execute(_FORGET_PROGRAM.encode())


def forget_program(connection: psycopg.Connection[Row], member: str) -> None:
    """Record that a program has ended."""
    connection.execute("DELETE FROM process_program WHERE member = %s", (member,))


def oldest_borne(connection: psycopg.Connection[Row]) -> str | None:
    """Return the oldest schema whose programs can work here; None: it was never recorded."""
    row = connection.execute("SELECT oldest FROM schema_bears").fetchone()
    return None if row is None else str(row[0])


def living_programs(connection: psycopg.Connection[Row]) -> Sequence[Program]:
    """Return the programs that work here."""
    return [Program(*row) for row in connection.execute(_LIVING.encode())]


CHANNEL = "cobblestone"
#: Seconds until the others notice that a process came or went.
BEAT_SECONDS = 2.0
#: A process that was not heard of for so long has lost its leases.
LEASE_SECONDS = 12.0
#: So long before that it begins nothing new: time to write down what it has done.
MARGIN_SECONDS = 4.0
#: Seconds for which notifications are gathered: one makes all commits that carry one wait for each other.
NOTIFY_SECONDS = 0.02
#: Characters; PostgreSQL takes less than 8000 bytes.
MAX_NOTIFICATION = 7000
RETRY_SECONDS = 1.0
#: A server that is silent for so long counts as gone: there is time to renew the leases on another connection.
ANSWER_SECONDS = 4.0

_TABLES = """
CREATE TABLE IF NOT EXISTS process_member (
    role TEXT NOT NULL, member TEXT NOT NULL, joined DOUBLE PRECISION NOT NULL, until DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (role, member)
);
CREATE TABLE IF NOT EXISTS process_lease (
    role TEXT NOT NULL, shard INTEGER NOT NULL, owner TEXT NOT NULL, fence BIGINT NOT NULL, until DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (role, shard)
) WITH (fillfactor = 50);
"""
_BEAT = f"""
INSERT INTO process_member (role, member, joined, until)
SELECT role, %(me)s, {_NOW}, {_NOW} + %(seconds)s FROM unnest(%(roles)s::text[]) AS role
ON CONFLICT (role, member) DO UPDATE SET until = excluded.until
"""
_FORGET = f"DELETE FROM process_member WHERE until < {_NOW} - 3600"
_MEMBERS = f"SELECT role, member FROM process_member WHERE {_GOOD} ORDER BY joined, member"
_RENEW = (
    f"UPDATE process_lease SET until = {_NOW} + %(seconds)s WHERE owner = %(me)s RETURNING role, shard, fence"
)
_LEAVE = "UPDATE process_lease SET owner = '', until = 0 WHERE owner = %(me)s AND role = %(role)s AND shard = ANY(%(shards)s)"
_TAKE = f"""
INSERT INTO process_lease (role, shard, owner, fence, until)
SELECT %(role)s, shard, %(me)s, 1, {_NOW} + %(seconds)s FROM unnest(%(shards)s::int8[]) AS shard ORDER BY shard
ON CONFLICT (role, shard) DO UPDATE SET owner = excluded.owner, fence = process_lease.fence + 1, until = excluded.until
WHERE NOT process_lease.{_GOOD} RETURNING shard, fence
"""
_GONE = (
    "DELETE FROM process_member WHERE member = %(me)s",
    "UPDATE process_lease SET owner = '', until = 0 WHERE owner = %(me)s",
)

log = structlog.get_logger(__name__)


class _Role:
    """This process's leases of one role."""

    def __init__(self, name: str, shards: int) -> None:
        self.name = name
        self.shards = shards
        self.rank: tuple[int, int] = (0, 1)
        self.held: dict[int, int] = {}  # fencing number by shard
        self.ours: set[int] = set()  # by our rank
        self.busy: set[int] = set()  # shards that are worked on at this moment
        self.workers = 0

    def leaving(self) -> set[int]:
        """Return shards that belong to another process and that nothing here works on."""
        return self.held.keys() - self.ours - self.busy


class PostgresProcessGroup(ProcessGroup):
    """A group with two threads: one keeps the leases and sends notifications, one listens."""

    def __init__(self, address: str, roles: Sequence[str], program: Program | None = None) -> None:
        """Prepare to join; ``roles`` are all that exist, ``program`` describes this process to the others."""
        self._address = address
        self._program = program
        self._known = frozenset(roles)
        self._roles: dict[str, _Role] = {}
        self._me = program.member if program else secrets.token_hex(8)
        self._valid_until = 0.0  # of the leases, by the clock of this process
        self._problem = ""  # why they could not be renewed
        self._lock = threading.Lock()
        self._unsent: set[str] = set()
        self._wanted = threading.Event()  # names are unsent, or shards became free
        self._closed = False
        self._on_notify: OnNotify | None = None
        self._threads: list[threading.Thread] = []

    def join(self, sharded: Sequence[str], single: Sequence[str], on_notify: OnNotify) -> None:
        """See `ProcessGroup.join`.  Returns once the first ranks are taken."""
        self._on_notify = on_notify
        unknown = {*sharded, *single} - self._known
        if unknown:
            raise ValueError(f"no such roles: {', '.join(sorted(unknown))}")
        self._roles |= {role: _Role(role, SHARDS) for role in sharded}
        self._roles |= {role: _Role(role, 1) for role in single}
        joined = threading.Event()
        for name, work in (("process_group", self._keep), ("listener", self._listen)):
            thread = threading.Thread(target=work, args=(joined,), name=name, daemon=True)
            self._threads.append(thread)
            thread.start()
        joined.wait(10)

    @contextmanager
    def lease_shards(self, role: str) -> Generator[Lease]:
        """See `ProcessGroup.lease_shards`."""
        known = self._roles.get(role)
        if known is None:  # not joined: a command beside a running server
            yield Lease(role, self._me, None)
            return
        with self._lock:
            usable = known.held.keys() & known.ours if self._in_time() else set[int]()
            fences = {shard: known.held[shard] for shard in usable}
            known.busy.update(fences)
            known.workers += 1
        try:
            yield Lease(role, self._me, fences, holds=partial(self._holds, known))
        finally:
            with self._lock:
                known.workers -= 1
                if not known.workers:
                    known.busy.clear()
                leave = bool(known.leaving())
            if leave:
                self._wanted.set()

    def _in_time(self) -> bool:
        return time.monotonic() < self._valid_until

    def _holds(self, role: _Role, shard: int, fence: int | None) -> bool:
        # Who hung for a while has leases again at the next beat, but other ones.
        with self._lock:
            return self._in_time() and role.held.get(shard, 0) == fence

    def fault(self) -> str:
        """See `ProcessGroup.fault`."""
        return "" if self._in_time() else self._problem

    def rank(self, role: str) -> tuple[int, int]:
        """See `ProcessGroup.rank`."""
        known = self._roles.get(role)
        return known.rank if known else (0, 1)

    def notify(self, names: set[str]) -> None:
        """See `ProcessGroup.notify`."""
        if self._threads:
            with self._lock:
                self._unsent |= names
            self._wanted.set()

    def close(self) -> None:
        """See `ProcessGroup.close`."""
        self._closed = True
        self._wanted.set()
        for thread in self._threads:
            thread.join(5)

    # ------------------------------------------------------------------ ranks, shards and notifications

    def _keep(self, joined: threading.Event) -> None:
        while not self._closed:
            try:
                with closing(connect(self._address, answer_seconds=ANSWER_SECONDS)) as connection:
                    make_tables(connection, _TABLES)
                    self.notify({ALL})  # some names may have been lost with the former connection
                    beat = 0.0
                    while not self._closed:
                        if time.monotonic() - beat >= BEAT_SECONDS or self._to_leave():
                            beat = time.monotonic()
                            self._beat(connection)
                            joined.set()
                        self._send(connection)
                        self._wanted.wait(BEAT_SECONDS)
                        self._wanted.clear()
                        time.sleep(NOTIFY_SECONDS)
                    self._leave(connection)
            except Exception as error:  # noqa: BLE001  # without this thread nothing is leased
                self._problem = f"{type(error).__name__}: {error}"
                log.warning("process_group_lost", error=self._problem)
                time.sleep(RETRY_SECONDS)  # names that wait to be sent shall not hurry it

    def _leave(self, connection: psycopg.Connection[Row]) -> None:
        self._send(connection)
        for statement in _GONE:
            connection.execute(statement, {"me": self._me})
        if self._program is not None:
            forget_program(connection, self._me)

    def _to_leave(self) -> bool:
        with self._lock:
            return any(role.leaving() for role in self._roles.values())

    def _beat(self, connection: psycopg.Connection[Row]) -> None:
        """Announce this process, extend its leases, and see which others exist."""
        began = time.monotonic()
        if self._program is not None and not self._be_known(connection, self._program):
            return
        values = {"me": self._me, "seconds": LEASE_SECONDS, "roles": list(self._roles)}
        connection.execute(_BEAT, values)
        connection.execute(_FORGET)
        held: dict[str, dict[int, int]] = {role: {} for role in self._roles}
        for role, shard, fence in connection.execute(_RENEW, values):
            held[role][shard] = fence
        with self._lock:
            self._valid_until = began + LEASE_SECONDS - MARGIN_SECONDS
            for role in self._roles.values():
                role.held = held[role.name]
        members: dict[str, list[str]] = {}
        for role, member in connection.execute(_MEMBERS):
            members.setdefault(role, []).append(member)
        for role in self._roles.values():
            present = members.get(role.name, [])
            if self._me in present:
                role.rank = (present.index(self._me), len(present))
            self._share(connection, role)

    def _be_known(self, connection: psycopg.Connection[Row], program: Program) -> bool:
        """Announce our program; end this process if the database has gone on without it, while it hung or was cut off."""
        oldest = oldest_borne(connection)
        if oldest is not None and oldest > program.schema:
            log.critical("schema_outgrown", schema=program.schema, oldest=oldest, version=program.version)
            self._valid_until = 0.0
            self._closed = True
            os.kill(os.getpid(), signal.SIGTERM)
            return False
        note_program(connection, program, seconds=LEASE_SECONDS)
        return True

    def _share(self, connection: psycopg.Connection[Row], role: _Role) -> None:
        """Release shards that belong to others, and lease ours as soon as they are free."""
        number, count = role.rank
        with self._lock:
            role.ours = {shard for shard in range(role.shards) if shard % count == number}
            leaving = role.leaving()
            for shard in leaving:
                del role.held[shard]
            missing = role.ours - role.held.keys()
        values = {"me": self._me, "role": role.name, "seconds": LEASE_SECONDS}
        if leaving:
            connection.execute(_LEAVE, {**values, "shards": list(leaving)})
        if missing:
            taken = dict(connection.execute(_TAKE, {**values, "shards": sorted(missing)}).fetchall())
            with self._lock:
                role.held |= taken
            if taken and self._on_notify is not None:
                self._on_notify({ALL})  # work may lie in what is ours now

    def _send(self, connection: psycopg.Connection[Row]) -> None:
        with self._lock:
            names, self._unsent = self._unsent, set()
        for some in wrap(" ".join(sorted(names)), MAX_NOTIFICATION, break_on_hyphens=False):
            connection.execute("SELECT pg_notify(%s, %s)", (CHANNEL, f"{self._me} {some}"))

    # ------------------------------------------------------------------ listening

    def _listen(self, joined: threading.Event) -> None:
        while not self._closed:
            try:
                with closing(connect(self._address, answer_seconds=ANSWER_SECONDS)) as connection:
                    connection.execute(f"LISTEN {CHANNEL}")
                    self._deliver({ALL})  # something may have been notified before
                    while not self._closed:
                        self._hear(connection)
            except Exception as error:  # noqa: BLE001  # without this thread nothing is heard
                log.warning("listener_lost", error=f"{type(error).__name__}: {error}")
                time.sleep(RETRY_SECONDS)

    def _hear(self, connection: psycopg.Connection[Row]) -> None:
        notices = list(connection.notifies(timeout=BEAT_SECONDS, stop_after=1))
        if not notices:  # is the server still there?
            connection.execute("SELECT 1")
        for notice in notices:
            sender, *names = notice.payload.split()
            if sender != self._me:
                self._deliver(set(names))

    def _deliver(self, names: set[str]) -> None:
        if self._on_notify is not None and not self._closed:
            self._on_notify(names)
