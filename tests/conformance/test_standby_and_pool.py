"""PostgreSQL with a synchronous standby that takes over, and behind a pool in session mode."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from tests.helpers.eventually import eventually
from tests.helpers.pgbouncer import Pgbouncer
from tests.helpers.postgres_server import PostgresServer

from cobblestone.domain.errors import StoreError
from cobblestone.store.engine.database import Store
from cobblestone.store.engine.process_group import SHARDS, ProcessGroup
from cobblestone.store.maintenance.upgrade import upgrade
from cobblestone.store.people import users
from cobblestone.store.schema.project import PROJECT

ROLES = ("validator", "purger")


def shards(group: ProcessGroup) -> set[int]:
    with group.lease_shards("validator") as lease:
        return set(lease.shards or ())


@pytest.fixture
def pair() -> Iterator[tuple[PostgresServer, PostgresServer]]:
    with ExitStack() as stack:
        primary = PostgresServer(durable=True)
        stack.callback(primary.close)
        primary.execute("CREATE DATABASE sky")
        upgrade(primary.address("sky"), PROJECT)
        standby = PostgresServer(durable=True, follows=primary)
        stack.callback(standby.close)
        primary.execute("ALTER SYSTEM SET synchronous_standby_names = 'standby'")
        primary.execute("SELECT pg_reload_conf()")
        eventually(lambda: primary.execute("SELECT sync_state FROM pg_stat_replication") == [("sync",)])
        yield primary, standby


def test_a_standby_takes_over_and_has_all_that_was_acknowledged(pair: tuple[PostgresServer, PostgresServer]):
    primary, standby = pair
    store = Store(primary.address_of_both(standby, "sky"), readers=1)
    group = store.process_group(ROLES)
    group.join(["validator"], ["purger"], lambda names: None)
    assert shards(group) == set(range(SHARDS))
    acknowledged: list[str] = []
    refused: list[str] = []
    ended = threading.Event()

    def write() -> None:
        number = 0
        while not ended.is_set():
            title = f"news {(number := number + 1)}"
            try:
                store.write(lambda tx, title=title: users.add_news(tx, title, "text", now=1.0))
                acknowledged.append(title)
            except StoreError:
                refused.append(title)
                ended.wait(0.05)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        eventually(lambda: len(acknowledged) > 20)
        primary.stop(abruptly=True)
        eventually(lambda: len(refused) > 0)
        before = len(acknowledged)
        standby.execute("SELECT pg_promote()")
        eventually(lambda: len(acknowledged) > before + 20)
        eventually(lambda: shards(group) == set(range(SHARDS)))
    finally:
        ended.set()
        writer.join(30)
    kept = {row[0] for row in store.read(lambda db: db.query("SELECT title FROM news"))}
    assert set(acknowledged) <= kept
    assert store.read(lambda db: db.value("SELECT pg_is_in_recovery()")) is False
    group.close()
    store.close()


def test_behind_a_pool_in_session_mode_processes_share_work_and_hear_each_other(postgres: PostgresServer):
    pool = Pgbouncer(postgres)
    direct = postgres.project_database()
    address = pool.address(direct.partition("@/")[2].partition("?")[0])
    stores: list[Store] = []
    groups: list[ProcessGroup] = []
    heard: list[set[str]] = []
    try:
        assert upgrade(address, PROJECT) is None
        for _ in range(2):
            stores.append(Store(address, readers=1))
            groups.append(stores[-1].process_group(ROLES))
        for group in groups:
            group.join(["validator"], ["purger"], heard.append)
        eventually(lambda: [len(shards(group)) for group in groups] == [SHARDS // 2] * 2)

        def is_heard() -> bool:
            groups[0].notify({"results"})
            return {"results"} in heard

        eventually(is_heard)
        for number in range(3):  # statements that are prepared, on a connection that stays the same
            stores[0].write(lambda tx, number=number: users.add_news(tx, f"news {number}", "text", now=1.0))
            assert stores[1].read(lambda db: db.value("SELECT COUNT(*) FROM news")) == number + 1
        # The pool ends and comes back: so do the connections.
        pool.close()
        with pytest.raises(StoreError):
            stores[0].write(lambda tx: users.add_news(tx, "lost", "text", now=1.0))
        again = Pgbouncer(postgres, folder=pool.folder)
        try:
            eventually(lambda: _writes(stores[0]))
        finally:
            for group in groups:
                group.close()
            for store in stores:
                store.close()
            again.close()
    finally:
        postgres.release(direct)


def _writes(store: Store) -> bool:
    try:
        store.write(lambda tx: users.add_news(tx, "again", "text", now=1.0))
    except StoreError:
        return False
    return True
