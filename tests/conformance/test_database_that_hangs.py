"""A foreign lock, a server that hangs, a network that swallows packets: nobody waits long, and the others go on."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from tests.helpers.postgres_server import PostgresServer

from cobblestone.domain.errors import Busy, StoreError
from cobblestone.store.engine.database import Store, Transaction

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
        self.swallows = False

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
        with suppress(OSError):
            while data := source.recv(65536):
                if not self.swallows:
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


def test_a_network_that_swallows_packets_is_noticed(postgres: PostgresServer, database: str):
    with ExitStack() as stack:
        network = SwallowingNetwork(str(postgres.folder / ".s.PGSQL.5432"))
        stack.callback(network.close)
        name = conninfo_to_dict(database)["dbname"]
        store = Store(f"postgresql://cobblestone@127.0.0.1:{network.port}/{name}")
        stack.callback(store.close)
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


def test_a_process_that_stops_in_the_middle_of_a_write_loses_its_locks(database: str):
    with ExitStack() as stack:
        store = Store(database)
        stack.callback(store.close)
        limit = store.write(lambda tx: tx.value("SHOW idle_in_transaction_session_timeout"))
        assert limit == "10s"
