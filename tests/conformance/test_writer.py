"""Writes share a commit, fail alone, and try again when another process is in their way."""

from __future__ import annotations

import asyncio
import gc
import re
import resource
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from structlog.testing import capture_logs
from tests.helpers.postgres_server import PostgresServer
from tests.helpers.project_world import empty_database

from cobblestone.domain.errors import ConfigError, StoreError
from cobblestone.ops.installation import how_to_install
from cobblestone.store.engine import database
from cobblestone.store.engine.database import Asks, Operation, Store, Transaction, in_background
from cobblestone.store.engine.engine import Parameters
from cobblestone.store.people import users


def add(store: Store, title: str) -> Future[Any]:
    return store._writer.submit(lambda tx: users.add_news(tx, title, "text", now=1.0))


def titles(store: Store) -> list[str]:
    return [item.title for item in store.read(users.list_news)]


@pytest.fixture
def other(location: Path | str, store: Store) -> Iterator[Store]:
    """Another process with the same PostgreSQL database open."""
    opened = Store(location, readers=1)
    yield opened
    opened.close()


def test_writes_that_arrive_together_fail_alone(store: Store):
    def fail(tx: Transaction) -> None:
        users.add_news(tx, "lost", "text", now=1.0)
        raise ValueError("mine")

    gate = threading.Event()
    blocked = store._writer.submit(lambda tx: gate.wait())  # the next three wait for this one, together
    futures = [add(store, "first"), store._writer.submit(fail), add(store, "second")]
    gate.set()
    blocked.result()
    assert futures[0].result() > 0
    with pytest.raises(ValueError, match="mine"):
        futures[1].result()
    assert futures[2].result() > 0
    assert titles(store) == ["second", "first"]


def test_who_makes_writes_fail_costs_the_others_one_more_attempt(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(database, "CAREFUL_SECONDS", 1e9)
    attempts: list[list[int]] = []
    for _ in range(2):
        made: list[int] = []
        gate = threading.Event()
        blocked = store._writer.submit(lambda tx, gate=gate: gate.wait())
        good = store._writer.submit(lambda tx, made=made: made.append(1))
        bad = store._writer.submit(lambda tx: 1 / 0)
        gate.set()
        assert blocked.result(10)
        assert good.result(10) is None
        assert isinstance(bad.exception(10), ZeroDivisionError)
        attempts.append(made)
    assert attempts == ([[1, 1], [1]] if store._write_connection.savepoints else [[1, 1], [1, 1]])


def test_an_error_that_a_coroutine_cannot_raise_leaves_nobody_waiting(store: Store):
    async def run() -> list[object]:
        empty: Iterator[int] = iter(())
        wrong = [store.awrite(lambda _: next(empty)), store.awrite(lambda _: 1)]
        return await asyncio.wait_for(asyncio.gather(*wrong, return_exceptions=True), 20)

    error, answer = asyncio.run(run())
    assert (type(error), answer) == (RuntimeError, 1)


def test_a_write_that_comes_while_the_store_closes_is_made(store: Store, monkeypatch: pytest.MonkeyPatch):
    closer = threading.Thread(target=store.close)

    class SlowQueue:
        """A queue that the store closes while something is put into it."""

        def __init__(self, queue: Any) -> None:
            self._put, self.get, self.get_nowait = queue.put, queue.get, queue.get_nowait

        def put(self, job: object) -> None:
            if job is not None:
                closer.start()
                closer.join(0.2)
            self._put(job)

    add(store, "first").result()
    monkeypatch.setattr(store._writer, "_queue", SlowQueue(store._writer._queue))
    answer = store._writer.submit(lambda _: "made")
    closer.join()
    assert answer.result(timeout=30) == "made"
    with pytest.raises(StoreError, match="shutting down"):
        add(store, "late")


def test_a_change_that_is_seen_late_to_be_wrong_is_the_fault_of_its_own_write(store: Store):
    def set_time(tx: Transaction, *, news: int, time: float) -> None:
        def refusal(rows: Sequence[Parameters], changed: int) -> Exception:
            return ValueError(f"{changed} of {len(rows)}")

        tx.execute_expecting("UPDATE news SET time = ? WHERE id = ?", [(time, news)], refusal)

    numbers = [add(store, "some").result() for _ in range(3)]
    changes = [(numbers[0], 5.0), (99, 6.0), (numbers[1], 7.0), (numbers[0], 2**70), (numbers[2], 8.0)]
    gate = threading.Event()
    blocked = store._writer.submit(lambda tx: gate.wait())
    futures = [store._writer.submit(partial(set_time, news=news, time=time)) for news, time in changes]
    gate.set()
    assert blocked.result()
    errors = [future.exception() for future in futures]
    assert [error is None for error in errors] == [True, False, True, False, True]
    assert str(errors[1]) == "0 of 1"
    assert not isinstance(errors[3], StoreError)
    assert sorted(item.time for item in store.read(users.list_news)) == [5.0, 7.0, 8.0]


def test_what_was_asked_ahead_is_forgotten_at_the_end_of_a_write(store: Store):
    gate = threading.Event()
    blocked = store._writer.submit(lambda tx: gate.wait())
    asked = store._writer.submit(lambda tx: tx.ask_ahead(users.list_news))
    add(store, "first")
    found = store._writer.submit(users.list_news)
    gate.set()
    assert [item.title for item in found.result()] == ["first"]
    assert blocked.result()
    assert asked.result() is None


def test_what_was_asked_ahead_is_as_it_was_then_for_one_time(store: Store):
    def ask(tx: Transaction) -> list[list[str]]:
        tx.ask_ahead(users.list_news)
        users.add_news(tx, "first", "text", now=1.0)
        return [[item.title for item in users.list_news(tx)] for _ in range(2)]

    ahead, then = store.write(ask)
    assert ahead in ([], ["first"])  # SQLite is asked when it is asked
    assert then == ["first"]


def write_together(store: Store, *writes: tuple[Any, Asks | None]) -> list[Any]:
    """The answers of writes that share a transaction."""

    async def run() -> list[Any]:
        gate = threading.Event()
        blocked = asyncio.ensure_future(store.awrite(lambda tx: gate.wait()))
        waiting = [asyncio.ensure_future(store.awrite(write, asks=asks)) for write, asks in writes]
        await asyncio.sleep(0)
        gate.set()
        return [await each for each in (blocked, *waiting)][1:]

    return asyncio.run(run())


def add_and_look(tx: Transaction, *, tell: bool = False) -> list[str]:
    found = [item.title for item in users.list_news(tx)]
    users.add_news(tx, f"after {len(found)}", "text", now=1.0)
    if tell:
        tx.drop_answers()
    return found


@pytest.mark.parametrize("tell", [False, True])
@pytest.mark.parametrize("about", [{1}, {2}])
def test_writes_that_are_about_the_same_or_tell_of_a_change_ask_for_themselves(
    store: Store, about: set[object], *, tell: bool
):
    asks = [Asks(users.list_news, frozenset(each)) for each in ({1}, about)]
    write = partial(add_and_look, tell=tell)
    first, second, last = write_together(store, (write, asks[0]), (write, asks[1]), (users.list_news, None))
    assert first == []
    assert second in ([["after 0"]] if tell or about == {1} else [[], ["after 0"]])  # SQLite asks then
    assert len(last) == 2


def test_a_long_transaction_leaves_the_other_writes_to_the_next_one(
    store: Store, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(database, "LONGEST_SECONDS", 0.0)
    gates = [threading.Event() for _ in range(3)]
    blocked, first, second = (store._writer.submit(lambda tx, gate=gate: gate.wait()) for gate in gates)
    gates[0].set()
    gates[1].set()
    assert blocked.result(10)
    assert first.result(10), "it was committed while the next one was at work"
    assert not second.done()
    gates[2].set()
    assert second.result(10)


def background(store: Store, operation: Operation[Any]) -> Future[Any]:
    """A write of a daemon."""
    context = copy_context()
    context.run(in_background.set, True)
    return context.run(store._writer.submit, operation)


@pytest.mark.parametrize("seconds", [0.0, 1e9])
def test_writes_of_daemons_let_those_of_requests_pass(
    store: Store, monkeypatch: pytest.MonkeyPatch, seconds: float
):
    monkeypatch.setattr(database, "BACKGROUND_SECONDS", seconds)
    done: list[tuple[str, Transaction]] = []
    last: list[Future[Any]] = []

    def write(tx: Transaction, *, name: str) -> None:
        done.append((name, tx))
        if name == "daemon 1" and not last:
            last.append(store._writer.submit(partial(write, name="request 3")))

    begun, gate = threading.Event(), threading.Event()
    blocked = store._writer.submit(lambda tx: begun.set() or gate.wait())
    assert begun.wait(10)  # else it might take some of the others along
    ends = [background(store, partial(write, name=f"daemon {number}")) for number in (1, 2)]
    ends += [store._writer.submit(partial(write, name=f"request {number}")) for number in (1, 2)]
    gate.set()
    for end in (blocked, *ends, *last):
        end.result(10)
    last[0].result(10)
    between = ["daemon 1", "request 3", "daemon 2"] if seconds == 0 else ["daemon 1", "daemon 2", "request 3"]
    assert [name for name, _ in done] == ["request 1", "request 2", *between]
    of_requests, of_daemons = done[0][1], done[2][1]
    assert done[1][1] is of_requests is not of_daemons, "requests are answered before a daemon's turn"


def test_requests_that_come_while_a_daemon_writes_share_its_commit_and_fail_alone(store: Store):
    transactions: list[Transaction] = []
    joined: list[Future[Any]] = []

    def fail(tx: Transaction) -> None:
        users.add_news(tx, "lost", "text", now=1.0)
        raise ValueError("mine")

    def daemon(tx: Transaction) -> None:
        transactions.append(tx)
        users.add_news(tx, "daemon's", "text", now=1.0)
        if not joined:
            joined.extend(
                store._writer.submit(each) for each in (transactions.append, fail, transactions.append)
            )

    background(store, daemon).result(10)
    assert joined[0].result(10) is joined[2].result(10) is None
    with pytest.raises(ValueError, match="mine"):
        joined[1].result(10)
    assert titles(store) == ["daemon's"]
    # On PostgreSQL other processes may wait for the rows that a daemon has locked.
    assert (transactions[-1] is transactions[-3]) is not store._write_connection.row_locks


def test_writes_of_daemons_share_a_commit_while_nobody_waits(store: Store, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(database, "BACKGROUND_SECONDS", 0.0)
    begun, gate = threading.Event(), threading.Event()
    blocked = store._writer.submit(lambda tx: begun.set() or gate.wait())
    assert begun.wait(10)
    ends = [background(store, lambda tx: tx) for _ in range(3)]
    gate.set()
    assert blocked.result(10)
    transactions = {id(transaction): transaction for transaction in (end.result(10) for end in ends)}
    # On PostgreSQL other processes may wait for the rows that it has locked.
    assert len(transactions) == (3 if store._write_connection.row_locks else 1)


def test_nothing_is_left_for_the_search_for_cycles(store: Store):
    def keep(tx: Transaction) -> None:
        tx.kept["itself"] = tx

    gc.collect()
    gc.disable()
    try:
        store.write(keep)
        store.write(lambda tx: None)
        assert not [each for each in gc.get_objects() if isinstance(each, Transaction) and each.kept]
    finally:
        gc.enable()


def test_memory_hears_of_what_was_undone(store: Store):
    heard: list[int] = []
    store.on_rollback(lambda: heard.append(1))
    with pytest.raises(ZeroDivisionError):
        store.write(lambda tx: 1 / 0)
    assert heard


def test_a_read_cannot_write(store: Store):
    with pytest.raises((StoreError, Exception), match=r"read.?only"):
        store.read(lambda db: users.add_news(Transaction(db._connection), "no", "text", now=1.0))
    assert titles(store) == []


def test_texts_of_strangers_do_not_stop_a_write(store: Store):
    store.write(lambda tx: users.add_news(tx, "nul \0 inside, and 日本語", "?'%s %%", now=1.0))
    item = store.read(users.list_news)[0]
    assert item.title.replace("\0", "") == "nul  inside, and 日本語"
    assert item.text == "?'%s %%"


@pytest.mark.parametrize("location", ["postgresql"], indirect=True)
def test_of_two_that_lock_crosswise_one_tries_again(store: Store, other: Store):
    first, second = store.write(
        lambda tx: [users.add_news(tx, name, "0", now=1.0) for name in ("one", "two")]
    )
    meet = threading.Barrier(2)
    tries: list[int] = []

    def append(tx: Transaction, ids: list[int], mark: str) -> None:
        tries.append(1)
        tx.execute("UPDATE news SET text = text || ? WHERE id = ?", (mark, ids[0]))
        if len(tries) <= 2:
            meet.wait(10)
        tx.execute("UPDATE news SET text = text || ? WHERE id = ?", (mark, ids[1]))

    futures = [
        store._writer.submit(lambda tx: append(tx, [first, second], "a")),
        other._writer.submit(lambda tx: append(tx, [second, first], "b")),
    ]
    for future in futures:
        future.result(30)
    assert len(tries) > 2, "they did not meet"
    assert {"".join(sorted(item.text)) for item in store.read(users.list_news)} == {"0ab"}


@pytest.mark.parametrize("location", ["postgresql"], indirect=True)
def test_a_row_that_another_process_made_meanwhile_is_found_by_the_next_try(store: Store, other: Store):
    met = threading.Event()

    def make(tx: Transaction) -> str:
        if tx.value("SELECT 1 FROM meta WHERE key = 'k'"):
            return "found"
        if not met.is_set():
            other.write(lambda tx: tx.execute("INSERT INTO meta (key, value) VALUES ('k', 'theirs')"))
            met.set()
        tx.execute("INSERT INTO meta (key, value) VALUES ('k', 'mine')")
        return "made"

    assert store.write(make) == "found"
    assert store.read(lambda db: db.value("SELECT value FROM meta WHERE key = 'k'")) == "theirs"


def test_a_restarted_server_is_found_again():
    server = PostgresServer()
    store = Store(server.project_database(), readers=1)
    try:
        add(store, "before").result()
        server.stop(abruptly=True)
        with pytest.raises(StoreError, match="could not store this"):
            add(store, "lost").result()
        with pytest.raises(StoreError, match="it cannot be reached"):
            titles(store)
        server.start()
        add(store, "after").result()
        assert titles(store) == ["after", "before"]
    finally:
        store.close()
        server.close()


def test_what_is_wrong_with_an_address_is_said(postgres: PostgresServer, tmp_path: Path):
    cases = {
        f"postgresql://cobblestone@/nowhere?host={postgres.folder}": "Create it first",
        f"postgresql://stranger@/postgres?host={postgres.folder}": "does not exist",
        f"postgresql://cobblestone:pass@/x?host={quote(str(tmp_path))}": "Is PostgreSQL running",
        "postgresql://cobblestone@127.0.0.1:1/x": "does it listen",
        "postgresql://host/x?nonsense=1": "not an address",
    }
    for address, text in cases.items():
        with pytest.raises(StoreError, match=text) as caught:
            Store(address)
        assert "pass" not in str(caught.value).replace("password", "")


def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch):
    import sys

    monkeypatch.delitem(sys.modules, "cobblestone.store.engine.postgres_engine", raising=False)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ConfigError, match=re.escape(how_to_install("postgres"))):
        Store("postgresql://host/x")


@pytest.mark.parametrize("error", [ValueError("mine"), KeyboardInterrupt(), SystemExit(3)])
def test_whatever_fails_around_a_commit_the_next_write_is_written(store: Store, error: BaseException):
    def fails(*_: object) -> None:
        raise error

    store.set_waker(fails if isinstance(error, Exception) else None)
    store.write(lambda tx: (users.add_news(tx, "first", "text", now=1.0), tx.wake("candidates")))
    with pytest.raises((StoreError, ValueError)):
        store.write(fails)
    store.set_waker(None)
    store.write(lambda tx: users.add_news(tx, "second", "text", now=1.0))
    assert titles(store) == ["second", "first"]


@pytest.mark.of_sqlite
def test_a_database_that_could_not_grow_is_tried_until_it_can(tmp_path: Path):
    path = tmp_path / "project.sqlite"
    path.write_bytes(empty_database())
    store = Store(path, readers=1)
    no_limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    full = (path.with_name("project.sqlite-wal").stat().st_size, no_limit[1])
    try:
        with capture_logs():  # or the log could not be written either
            resource.setrlimit(resource.RLIMIT_FSIZE, full)
            for attempt in (add(store, "lost").result, lambda: asyncio.run(store.atry_again())):
                with pytest.raises(StoreError, match="could not store"):
                    attempt()
            resource.setrlimit(resource.RLIMIT_FSIZE, no_limit)
        asyncio.run(store.atry_again())
        assert not store._writer.failed
        assert add(store, "kept").result()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, no_limit)
        store.close()


def test_a_database_that_has_room_is_tried_after_a_write_failed(store: Store):
    store._writer.failed = True
    asyncio.run(store.atry_again())
    assert not store._writer.failed
    assert titles(store) == []
