"""The process group on PostgreSQL: advisory locks are the leases, LISTEN and NOTIFY carry the notifications.

Advisory locks belong to a connection, so the server takes them away the moment that a process dies, and no clock is involved.
They are not what keeps the data right (row locks and conditions in the writes do that): they keep two processes from doing the
same work twice.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager

import psycopg
import structlog

from cobblestone.domain.errors import StoreError
from cobblestone.store.engine.engine import Row
from cobblestone.store.engine.postgres import connect
from cobblestone.store.engine.process_group import ALL, SHARDS, OnNotify, Shards

CHANNEL = "cobblestone"
REFRESH_SECONDS = 2.0
"""Seconds until the others notice that a process came or went."""
NOTIFY_SECONDS = 0.02
"""Seconds for which notifications are gathered: one makes all commits that carry one wait for each other."""
RETRY_SECONDS = 1.0
MAX_PROCESSES = 256
#: First of two numbers of each advisory lock; each role has two: one for places, one for shards.
_KEYS = 7_204_100

log = structlog.get_logger(__name__)


class _Role:
    """This process's leases of one role."""

    def __init__(self, number: int, shards: int) -> None:
        self.places_key = _KEYS + 2 * number
        self.shards_key = _KEYS + 2 * number + 1
        self.shards = shards
        self.slot: int | None = None
        self.rank: tuple[int, int] = (0, 1)
        self.held: set[int] = set()
        self.busy: set[int] = set()  # shards that are worked on at this moment
        self.workers = 0
        self.usable: tuple[int, ...] = ()


class PostgresProcessGroup:
    """A group with two threads: one keeps the leases and sends notifications, one listens."""

    def __init__(self, address: str, roles: Sequence[str]) -> None:
        """Prepare to join; ``roles`` are all that exist, in an order that every process shares."""
        self._address = address
        self._numbers = {role: number for number, role in enumerate(roles)}
        self._roles: dict[str, _Role] = {}
        self._me = secrets.token_hex(6)
        self._lock = threading.Lock()
        self._unsent: set[str] = set()
        self._wanted = threading.Event()  # names are unsent, or shards became free
        self._closed = False
        self._on_notify: OnNotify | None = None
        self._threads: list[threading.Thread] = []

    def join(self, sharded: Sequence[str], single: Sequence[str], on_notify: OnNotify) -> None:
        """See `ProcessGroup.join`.  Return when the first ranks are taken."""
        self._on_notify = on_notify
        for role in sharded:
            self._roles[role] = _Role(self._numbers[role], SHARDS)
        for role in single:
            self._roles[role] = _Role(self._numbers[role], 1)
        joined = threading.Event()
        for name, work in (("process_group", self._keep), ("listener", self._listen)):
            thread = threading.Thread(target=work, args=(joined,), name=name, daemon=True)
            self._threads.append(thread)
            thread.start()
        joined.wait(10)

    @contextmanager
    def lease_shards(self, role: str) -> Generator[Shards]:
        """See `ProcessGroup.lease_shards`."""
        known = self._roles.get(role)
        if known is None:  # not joined: a command beside a running server
            yield None
            return
        with self._lock:
            shards = known.usable
            known.busy.update(shards)
            known.workers += 1
        try:
            yield shards
        finally:
            with self._lock:
                known.workers -= 1
                if not known.workers:
                    known.busy.clear()
                leave = not known.held.issubset(known.usable)
            if leave:
                self._wanted.set()

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
        connection: psycopg.Connection[Row] | None = None
        refreshed = 0.0
        while not self._closed:
            try:
                if connection is None:
                    connection = connect(self._address)
                    refreshed = 0.0
                if time.monotonic() - refreshed >= REFRESH_SECONDS or self._to_leave():
                    self._refresh(connection)
                    refreshed = time.monotonic()
                    joined.set()
                self._send(connection)
            except Exception as error:  # noqa: BLE001  # whatever it was: without this thread no work is shared
                log.warning("process_group_lost", error=f"{type(error).__name__}: {error}")
                self._lose()
                connection = _close(connection)
                self._wanted.wait(RETRY_SECONDS)
                continue
            self._wanted.wait(REFRESH_SECONDS)
            self._wanted.clear()
            time.sleep(NOTIFY_SECONDS)
        if connection is not None:
            with contextlib.suppress(psycopg.Error):
                self._send(connection)
        _close(connection)

    def _to_leave(self) -> bool:
        with self._lock:
            return any(role.held - role.busy - set(role.usable) for role in self._roles.values())

    def _refresh(self, connection: psycopg.Connection[Row]) -> None:
        for role in self._roles.values():
            if role.slot is None:
                role.slot = _first_free(connection, role.places_key)
        rows = connection.execute(
            "SELECT classid::int8, objid::int8 FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 2"
            " AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) ORDER BY objid"
        ).fetchall()
        for role in self._roles.values():
            taken = [row[1] for row in rows if row[0] == role.places_key]
            if role.slot not in taken:  # cannot be: we hold it
                continue
            role.rank = (taken.index(role.slot), len(taken))
            self._share(connection, role)

    def _share(self, connection: psycopg.Connection[Row], role: _Role) -> None:
        """Release shards that are another's part, and lease ours as soon as they are free."""
        number, count = role.rank
        ours = {shard for shard in range(role.shards) if shard % count == number}
        with self._lock:
            role.usable = tuple(sorted(role.held & ours))
            leaving = role.held - ours - role.busy
            role.held -= leaving
        if leaving:
            connection.execute(
                "SELECT pg_advisory_unlock(%s::int4, shard::int4) FROM unnest(%s::int8[]) AS shard",
                (role.shards_key, list(leaving)),
            )
        missing = ours - role.held
        if missing:
            rows = connection.execute(
                "SELECT shard FROM unnest(%s::int8[]) AS shard WHERE pg_try_advisory_lock(%s::int4, shard::int4)",
                (list(missing), role.shards_key),
            ).fetchall()
            with self._lock:
                role.held |= {row[0] for row in rows}
                role.usable = tuple(sorted(role.held & ours))
            if rows and self._on_notify is not None:
                self._on_notify({ALL})  # work may lie in what is ours now

    def _lose(self) -> None:
        """Forget all leases: the connection is gone, and its locks with it."""
        with self._lock:
            for role in self._roles.values():
                role.slot, role.usable, role.held = None, (), set()

    def _send(self, connection: psycopg.Connection[Row]) -> None:
        with self._lock:
            names, self._unsent = self._unsent, set()
        if names:
            text = f"{self._me} {' '.join(sorted(names))}"
            connection.execute("SELECT pg_notify(%s, %s)", (CHANNEL, text))

    # ------------------------------------------------------------------ listening

    def _listen(self, joined: threading.Event) -> None:
        connection: psycopg.Connection[Row] | None = None
        while not self._closed:
            try:
                if connection is None:
                    connection = connect(self._address)
                    connection.execute(f"LISTEN {CHANNEL}")
                    self._deliver({ALL})  # something may have been notified before
                for notice in connection.notifies(timeout=REFRESH_SECONDS, stop_after=1):
                    sender, *names = notice.payload.split()
                    if sender != self._me:
                        self._deliver(set(names))
            except Exception as error:  # noqa: BLE001  # as above: without this thread nothing is heard
                log.warning("listener_lost", error=f"{type(error).__name__}: {error}")
                connection = _close(connection)
                time.sleep(RETRY_SECONDS)
        _close(connection)

    def _deliver(self, names: set[str]) -> None:
        if self._on_notify is not None and not self._closed:
            self._on_notify(names)


def _first_free(connection: psycopg.Connection[Row], key: int) -> int:
    for slot in range(MAX_PROCESSES):
        row = connection.execute("SELECT pg_try_advisory_lock(%s::int4, %s::int4)", (key, slot)).fetchone()
        if row is not None and row[0]:
            return slot
    raise StoreError(f"More than {MAX_PROCESSES} processes share this database.")


def _close(connection: psycopg.Connection[Row] | None) -> None:
    if connection is not None:
        with contextlib.suppress(psycopg.Error):
            connection.close()
