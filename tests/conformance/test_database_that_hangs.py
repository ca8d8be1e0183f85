"""A foreign lock, a server that hangs, a network that swallows packets: nobody waits long, and the others go on."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import partial

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from tests.helpers.eventually import eventually
from tests.helpers.postgres_server import PostgresServer

from cobblestone.domain.errors import Busy, StoreError
from cobblestone.store.engine.database import Store, Transaction
from cobblestone.store.engine.process_group import ALL, SHARDS, ProcessGroup

PATIENCE = 10.0


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[str]:
    address = postgres.project_database()
    yield address
    postgres.release(address)


def add(tx: Transaction, key: str) -> None:
    tx.execute("INSERT INTO meta (key, value) VALUES (?, '0')", (key,))


def change(tx: Transaction, key: str) -> int:
    return tx.execute("UPDATE meta SET value = '1' WHERE key = ?", (key,))


def test_a_row_that_somebody_else_holds_holds_up_its_own_write_only(database: str):
    with ExitStack() as stack:
        store = Store(database)
        stack.callback(store.close)
        store.write(lambda tx: [add(tx, key) for key in ("held", "free")])
        stranger = stack.enter_context(psycopg.connect(database))
        stranger.execute("UPDATE meta SET value = 'mine' WHERE key = 'held'")
        begin = time.monotonic()
        futures = [store._writer.submit(lambda tx, key=key: change(tx, key)) for key in ("held", "free") * 3]
        for place, future in enumerate(futures):
            if place % 2:
                assert future.result(timeout=60) == 1
            else:
                assert isinstance(future.exception(timeout=60), Busy)
        assert time.monotonic() - begin < PATIENCE
        stranger.rollback()
        assert store.write(lambda tx: change(tx, "held")) == 1


def test_a_server_that_hangs_is_left(database: str):
    with ExitStack() as stack:
        store = Store(database)
        stack.callback(store.close)
        pid = int(store.write(lambda tx: tx.value("SELECT pg_backend_pid()")))
        os.kill(pid, signal.SIGSTOP)
        stack.callback(os.kill, pid, signal.SIGCONT)
        begin = time.monotonic()
        with pytest.raises(StoreError, match="did not answer"):
            store.write(lambda tx: add(tx, "never"))
        assert time.monotonic() - begin < PATIENCE
        store.write(lambda tx: add(tx, "after"))
        assert store.read(lambda db: db.query("SELECT key FROM meta WHERE key IN ('never', 'after')")) == [
            ("after",)
        ]


class SwallowingNetwork:
    """A port that leads to a server's socket; what is sent gets lost while it ``swallows``."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets = [self._listener]
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()
        self.port = self._listener.getsockname()[1]
        self.swallows = self.swallows_answers = False
        self.n_passed = sys.maxsize  #: pieces that a new connection may send before all of it is swallowed

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._path)
                self._sockets += client, server
                for pair in ((client, server), (server, client)):
                    self._threads.append(threading.Thread(target=self._carry, args=pair))
                    self._threads[-1].start()

    def _carry(self, source: socket.socket, target: socket.socket) -> None:
        left = self.n_passed
        with suppress(OSError):
            while data := source.recv(65536):
                left -= target.family == socket.AF_UNIX
                swallows = self.swallows or (self.swallows_answers and source.family == socket.AF_UNIX)
                if left >= 0 and not swallows:
                    target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for each in self._sockets:
            each.close()


Distant = tuple[SwallowingNetwork, Store]


@pytest.fixture
def distant(postgres: PostgresServer, database: str) -> Iterator[Distant]:
    """A network, and a store whose database is behind it."""
    with ExitStack() as stack:
        network = SwallowingNetwork(str(postgres.folder / ".s.PGSQL.5432"))
        stack.callback(network.close)
        name = conninfo_to_dict(database)["dbname"]
        store = Store(f"postgresql://cobblestone@127.0.0.1:{network.port}/{name}")
        stack.callback(store.close)
        yield network, store


def test_a_network_that_swallows_packets_is_noticed(distant: Distant):
    network, store = distant
    store.write(lambda tx: add(tx, "before"))
    network.swallows = True
    for operation in (
        lambda: store.write(lambda tx: add(tx, "never")),
        lambda: store.write(lambda tx: add(tx, "never")),
        lambda: store.read(lambda db: db.value("SELECT 1")),
    ):
        begin = time.monotonic()
        with pytest.raises(StoreError):
            operation()
        assert time.monotonic() - begin < PATIENCE
    network.swallows = False
    store.write(lambda tx: add(tx, "after"))
    assert store.read(lambda db: db.value("SELECT COUNT(*) FROM meta WHERE key = 'after'")) == 1


def test_a_commit_without_an_answer_is_not_said_to_have_failed(distant: Distant):
    network, store = distant

    def add_and_lose(tx: Transaction, key: str, *, request: bool) -> None:
        add(tx, key)
        assert tx.value("SELECT COUNT(*) FROM meta WHERE key = ?", (key,)) == 1
        network.swallows, network.swallows_answers = request, True

    for key, request in (("commit lost", True), ("answer lost", False)):
        with pytest.raises(StoreError, match=r"did not confirm this.* may be stored or not"):
            store.write(partial(add_and_lose, key=key, request=request))
        network.swallows = network.swallows_answers = False
    assert store.read(lambda db: db.query("SELECT key FROM meta WHERE key LIKE '% lost'")) == [
        ("answer lost",)
    ]


def test_a_process_that_stops_in_the_middle_of_a_write_loses_its_locks(database: str):
    with ExitStack() as stack:
        store = Store(database)
        stack.callback(store.close)
        limit = store.write(lambda tx: tx.value("SHOW idle_in_transaction_session_timeout"))
        assert limit == "10s"


def refused(operation: Callable[[], object]) -> str:
    """Return why an operation was given up, in time."""
    reasons: list[str] = []

    def attempt() -> None:
        try:
            operation()
        except StoreError as error:
            reasons.append(str(error))

    thread = threading.Thread(target=attempt, daemon=True)  # which may hang for ever
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive(), "it hangs"
    return reasons[0] if reasons else ""


def test_a_new_connection_that_falls_silent_is_given_up_whatever_it_was_asked(
    postgres: PostgresServer, database: str
):
    with ExitStack() as stack:
        network = SwallowingNetwork(str(postgres.folder / ".s.PGSQL.5432"))
        stack.callback(network.close)
        name = conninfo_to_dict(database)["dbname"]
        store = Store(f"postgresql://cobblestone@127.0.0.1:{network.port}/{name}", readers=1)
        stack.callback(store.close)
        for n_passed in (1, 3):  # the log-in, and then some settings
            network.n_passed = n_passed
            _terminate(postgres, str(name))
            assert refused(lambda: store.write(lambda tx: tx.value("SELECT 1")))
            assert refused(lambda: store.read(lambda db: db.value("SELECT 1")))
        network.n_passed = sys.maxsize
        _terminate(postgres, str(name))
        eventually(lambda: not refused(lambda: store.write(lambda tx: add(tx, "after"))))


def test_clients_do_not_learn_where_a_database_is_that_went_away(postgres: PostgresServer, database: str):
    with ExitStack() as stack:
        network = SwallowingNetwork(str(postgres.folder / ".s.PGSQL.5432"))
        name = conninfo_to_dict(database)["dbname"]
        store = Store(f"postgresql://cobblestone@127.0.0.1:{network.port}/{name}", readers=1)
        stack.callback(store.close)
        network.close()
        for _ in range(2):
            reasons = [
                refused(lambda: store.write(lambda tx: add(tx, "never"))),
                refused(lambda: store.read(lambda db: db.value("SELECT 1"))),
            ]
            for reason in reasons:
                assert reason
                assert "127.0.0.1" not in reason
                assert str(network.port) not in reason
                assert str(name) not in reason


@pytest.fixture
def pair(database: str) -> Iterator[tuple[ProcessGroup, ProcessGroup, list[set[str]]]]:
    """A process with all shards, one without, and what the first hears."""
    with ExitStack() as stack:
        heard: list[set[str]] = []
        groups: list[ProcessGroup] = []
        for sharded, on_notify in ((["validator"], heard.append), ([], lambda names: None)):
            store = Store(database, readers=1)
            stack.callback(store.close)
            groups.append(store.process_group(["validator"]))
            stack.callback(groups[-1].close)
            groups[-1].join(sharded, [], on_notify)
        first, second = groups
        eventually(lambda: _n_shards(first) == SHARDS)

        def is_heard() -> bool:
            second.notify({"hello"})
            return {"hello"} in heard

        eventually(is_heard)
        yield first, second, heard


def test_a_process_whose_connections_hang_keeps_its_shards_and_its_hearing(
    postgres: PostgresServer, database: str, pair: tuple[ProcessGroup, ProcessGroup, list[set[str]]]
):
    first, second, heard = pair
    with ExitStack() as stack:
        for pid in _backends(postgres, str(conninfo_to_dict(database)["dbname"])):
            os.kill(pid, signal.SIGSTOP)
            stack.callback(os.kill, pid, signal.SIGCONT)
        heard.clear()
        second.notify({"meanwhile"})
        end = time.monotonic() + 2 * PATIENCE
        # much longer than a lease lasts
        eventually(lambda: _n_shards(first) != SHARDS or time.monotonic() > end)
        assert _n_shards(first) == SHARDS
        assert any(ALL in names for names in heard)
        heard.clear()
        second.notify({"afterwards"})
        eventually(lambda: {"afterwards"} in heard)


def test_what_a_lost_connection_should_have_notified_is_not_forgotten(
    postgres: PostgresServer, database: str, pair: tuple[ProcessGroup, ProcessGroup, list[set[str]]]
):
    _, second, heard = pair
    name = str(conninfo_to_dict(database)["dbname"])
    for word in ("one", "two", "three"):
        for pid, query in postgres.execute(
            f"SELECT pid, query FROM pg_stat_activity WHERE datname = '{name}' ORDER BY backend_start DESC"
        ):
            if "LISTEN" not in str(query) and "SELECT 1" not in str(query):  # the others listen still
                postgres.execute(f"SELECT pg_terminate_backend({pid}, 5000)")
        heard.clear()
        second.notify({word})
        eventually(lambda word=word: any(names & {ALL, word} for names in heard))


def _n_shards(group: ProcessGroup) -> int:
    with group.lease_shards("validator") as lease:
        return len(lease.shards or ())


def _backends(postgres: PostgresServer, name: str) -> list[int]:
    rows = postgres.execute(f"SELECT pid FROM pg_stat_activity WHERE datname = '{name}'")
    return [int(str(row[0])) for row in rows]


def _terminate(postgres: PostgresServer, name: str) -> None:
    for pid in _backends(postgres, name):
        postgres.execute(f"SELECT pg_terminate_backend({pid}, 5000)")
