"""A database that takes no writes, lies behind the wrong pool or was made otherwise: that is said, and ends with its cause."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing

import pytest
from psycopg.conninfo import conninfo_to_dict
from structlog.testing import capture_logs
from tests.helpers.eventually import eventually
from tests.helpers.pgbouncer import Pgbouncer
from tests.helpers.postgres_server import PostgresServer

from cobblestone.domain.errors import StoreError
from cobblestone.store.engine.database import Store, Transaction
from cobblestone.store.engine.postgres_process_group import RETRY_SECONDS
from cobblestone.store.engine.process_group import SHARDS, ProcessGroup
from cobblestone.store.maintenance.snapshot import read_rows
from cobblestone.store.maintenance.upgrade import upgrade
from cobblestone.store.people import users
from cobblestone.store.schema.project import PROJECT


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[str]:
    address = postgres.project_database()
    yield address
    postgres.release(address)


def name_of(address: str) -> str:
    return str(conninfo_to_dict(address)["dbname"])


def add(tx: Transaction) -> int:
    return users.add_news(tx, "ž 日本", "text", now=1.0)


def n_shards(group: ProcessGroup) -> int:
    with group.lease_shards("validator") as lease:
        return len(lease.shards or ())


def end_connections(postgres: PostgresServer, name: str) -> None:
    postgres.execute(f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{name}'")


def test_a_database_that_takes_no_writes_for_a_while_gets_them_afterwards(
    postgres: PostgresServer, database: str
):
    name = name_of(database)
    store = Store(database, readers=1)
    try:
        postgres.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        end_connections(postgres, name)
        with pytest.raises(StoreError, match=r"read-only transaction\. Nothing was changed"):
            store.write(add)
        postgres.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
        assert store.write(add) == 1
    finally:
        postgres.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
        store.close()


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_that_cannot_hold_every_name_is_refused(postgres: PostgresServer, encoding: str):
    name = f"of_{encoding}".lower()
    postgres.execute(f"CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE template0")
    with pytest.raises(StoreError, match=f"has the encoding {encoding}.*--encoding UTF8"):
        Store(postgres.address(name))


def test_texts_are_whole_whatever_encoding_clients_have_by_default(postgres: PostgresServer, database: str):
    name = name_of(database)
    postgres.execute(f"ALTER DATABASE {name} SET client_encoding = 'LATIN1'")
    store = Store(database, readers=1)
    try:
        store.write(add)
        assert store.read(lambda db: db.value("SELECT title FROM news")) == "ž 日本"
    finally:
        store.close()
        postgres.execute(f"ALTER DATABASE {name} RESET client_encoding")


def test_a_pool_that_shares_its_sessions_out_is_refused(postgres: PostgresServer, database: str):
    pool = Pgbouncer(postgres, mode="transaction")
    try:
        with pytest.raises(StoreError, match="Set pool_mode = session"):
            Store(pool.address(name_of(database)))
    finally:
        pool.close()


@pytest.fixture
def own() -> Iterator[tuple[PostgresServer, Store]]:
    """A server that may be stopped, and a store on it."""
    with ExitStack() as stack:
        server = PostgresServer()
        stack.callback(server.close)
        store = Store(server.project_database(), readers=1)
        stack.callback(store.close)
        yield server, store


def test_a_process_without_leases_says_why_and_does_not_try_in_a_hurry(own: tuple[PostgresServer, Store]):
    server, store = own
    with closing(store.process_group(["validator"])) as group:
        group.join(["validator"], [], lambda names: None)
        eventually(lambda: n_shards(group) == SHARDS)
        assert group.fault() == ""
        with capture_logs() as logs:
            server.stop(abruptly=True)
            eventually(lambda: _n_lost(logs) > 0)
            began = time.monotonic()
            group.notify({"results"})
            eventually(lambda: _n_lost(logs) > 2)
            assert time.monotonic() - began > RETRY_SECONDS
            eventually(lambda: "Is PostgreSQL running" in group.fault())
        server.start()
        eventually(lambda: n_shards(group) == SHARDS and group.fault() == "")


def _n_lost(logs: Sequence[Mapping[str, object]], event: str = "process_group_lost") -> int:
    return sum(entry["event"] == event for entry in logs)


def test_the_log_says_once_that_the_database_is_away_and_once_more_when_it_goes_again(
    own: tuple[PostgresServer, Store],
):
    server, store = own
    store.write(add)
    with capture_logs() as logs:
        for n in (1, 2):
            server.stop(abruptly=True)
            for _ in range(5):
                with pytest.raises(StoreError):
                    store.write(add)
            assert _n_lost(logs, "database_lost") == n
            server.start()
            store.write(add)


def test_what_a_dead_process_held_is_free_although_the_clock_of_the_database_was_set_back(
    postgres: PostgresServer, database: str
):
    store = Store(database, readers=1)
    group = store.process_group(["validator"])
    try:
        group.join(["validator"], [], lambda names: None)
        eventually(lambda: n_shards(group) == SHARDS)
        group.close()
        in_a_day = "extract(epoch FROM clock_timestamp()) + 86400"
        for sql in (
            f"UPDATE process_lease SET owner = 'dead', until = {in_a_day}",
            f"INSERT INTO process_member VALUES ('validator', 'dead', 1, {in_a_day})",
        ):
            postgres.execute(sql, database=name_of(database))
        group = store.process_group(["validator"])
        group.join(["validator"], [], lambda names: None)
        eventually(lambda: n_shards(group) == SHARDS, seconds=20)
    finally:
        group.close()
        store.close()


def test_commands_say_what_the_server_refuses(database: str):
    with pytest.raises(StoreError, match=r"does not go on: division by zero\."):
        read_rows(database, ["SELECT 1 / 0"])


def test_an_upgrade_says_that_there_is_no_room_for_its_connections(postgres: PostgresServer):
    postgres.execute("CREATE ROLE one_only LOGIN CONNECTION LIMIT 1")
    postgres.execute("CREATE DATABASE of_one_only OWNER one_only")
    address = postgres.address("of_one_only").replace("cobblestone@", "one_only@")
    with pytest.raises(StoreError, match="too many connections"):
        upgrade(address, PROJECT)
