"""The disk is full, the database is locked: a clear answer, nothing lost, and work goes on when the trouble is over."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import apsw
import pytest
from tests.helpers.project_world import SimHost, World, post_upload

from cobblestone.domain.apps import AppDispatch
from cobblestone.domain.errors import StoreError
from cobblestone.server.credit.ledger_audit import recompute
from cobblestone.service.context import MAX_SHARE, CachedRead, Costly
from cobblestone.store.engine.database import Database
from cobblestone.store.people import users


@contextmanager
def full_database(world: World) -> Iterator[None]:
    """SQLite says that the disk is full as soon as the file would grow."""

    def limit(pages: int) -> None:
        world.write(lambda tx: tx.query(f"PRAGMA max_page_count={pages}"))

    limit(world.value("PRAGMA page_count"))
    try:
        yield
    finally:
        limit(2**30)


@contextmanager
def locked_database(world: World, *, patience: int) -> Iterator[None]:
    """Another program holds the database; the project waits ``patience`` milliseconds for it."""
    world.write(lambda tx: tx.query(f"PRAGMA busy_timeout={patience}"))
    other = apsw.Connection(str(world.ctx.folder.database))
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.close()


def started(world: World, n: int = 1) -> tuple[SimHost, list[str]]:
    world.add_jobs(world.add_app(quorum=1, dispatch=AppDispatch(max_jobs_per_day_init=50)), n=n)
    host = world.host(world.user("alice"))
    host.rpc(ask=1)
    return host, host.new_results()


def ends_well(world: World, host: SimHost, names: list[str]) -> None:
    host.rpc(reports=[host.finish(name, b"answer") for name in names])
    world.settle()
    assert set(world.query("SELECT assimilate_state FROM workunit")) == {(2,)}
    assert world.value("SELECT COUNT(*) FROM credit_entry") == len(names)
    assert world.ctx.store.read(recompute).differences == []


@pytest.mark.of_sqlite
def test_on_a_full_disk_nothing_is_acknowledged_and_everything_is_there_afterwards(world: World):
    host, names = started(world)
    content = b"answer" * 3000
    info = host.file_info(f"{names[0]}_0")
    with full_database(world):
        reply = post_upload(
            world,
            f"{names[0]}_0",
            content,
            signature=info.get("xml_signature").strip(),
            max_nbytes=int(info.get("max_nbytes")),
        )
        assert reply.get("status") == "1", "the client shall try again"
        assert world.value("SELECT COUNT(*) FROM upload") == 0
    ends_well(world, host, names)


@pytest.mark.of_sqlite
def test_a_daemon_that_meets_a_full_disk_does_its_work_later(world: World):
    host, names = started(world, n=30)
    while len(names) < 30:
        world.now += 60
        host.rpc(ask=1e6)
        names += host.new_results()
    host.rpc(reports=[host.finish(name, b"answer") for name in names])
    with full_database(world), pytest.raises(StoreError, match="full"):
        world.settle()
    world.settle()
    assert set(world.query("SELECT assimilate_state FROM workunit")) == {(2,)}
    assert world.value("SELECT COUNT(*) FROM credit_entry") == 30
    assert world.ctx.store.read(recompute).differences == []


@pytest.mark.of_sqlite
def test_an_assimilate_function_is_not_blamed_for_a_full_disk_and_is_called_again_after_a_pause(world: World):
    (world.ctx.folder.root / "mine.py").write_text(
        "def assimilate(workunit):\n"
        "    with (workunit.folder / 'calls').open('a') as calls:\n"
        "        calls.write('x')\n"
    )
    app = world.add_app(assimilator="mine.py:assimilate")
    world.add_jobs(app)
    host = world.host(world.user("alice"))
    host.rpc(ask=1)
    (name,) = host.new_results()
    host.rpc(reports=[host.finish(name, b"answer")])
    for daemon in (world.transitioner, world.validator, world.transitioner):
        world.run(daemon.step())
    # What records the assimilation needs room; what notes a failed call does not.
    world.write(lambda tx: tx.execute("CREATE TABLE filling (content BLOB)"))
    world.write(
        lambda tx: tx.execute(
            "CREATE TRIGGER grows AFTER UPDATE OF assimilate_state ON workunit"
            " BEGIN INSERT INTO filling VALUES (zeroblob(1000000)); END"
        )
    )

    async def assimilate() -> None:
        work = world.assimilator.side_work
        await world.assimilator.step()
        await work.wait(set(work.unfinished), at_most=None)

    with full_database(world), pytest.raises(StoreError, match="full"):
        world.run(assimilate())  # a daemon pauses when its step fails
    assert world.query("SELECT handler_failures, handler_problem FROM workunit") == [(0, "")]
    world.settle()
    assert world.query("SELECT assimilate_state FROM workunit") == [(2,)]
    assert (world.ctx.folder.results / "demo" / "calls").read_text() == "xx"


@pytest.mark.of_sqlite
def test_while_another_program_locks_the_database_clients_are_put_off(world: World):
    host, names = started(world)
    with locked_database(world, patience=50):
        info = host.file_info(f"{names[0]}_0")
        reply = post_upload(
            world,
            f"{names[0]}_0",
            b"answer",
            signature=info.get("xml_signature").strip(),
            max_nbytes=int(info.get("max_nbytes")),
        )
        assert reply.get("status") == "1"
        assert host.rpc(ask=1).get("message") == "The project's database is not available."
    ends_well(world, host, names)


@pytest.mark.of_sqlite
def test_a_short_lock_only_makes_a_request_wait(world: World):
    host, names = started(world)
    with locked_database(world, patience=20_000):
        request = threading.Thread(target=host.rpc)
        request.start()
        request.join(0.3)
        assert request.is_alive()
    request.join(20)
    assert not request.is_alive()
    ends_well(world, host, names)


@pytest.mark.of_sqlite
def test_readiness_is_true_after_the_clock_was_set_back(world: World):
    assert world.get("/readyz").json()["database"] == "ok"
    world.now -= 86_400
    with locked_database(world, patience=0):
        assert world.get("/readyz").json()["database"] != "ok"


@pytest.mark.parametrize("set_by", [0.0, 365 * 86_400.0, -365 * 86_400.0])
def test_no_answer_is_kept_for_ever_when_the_clock_is_set(world: World, set_by: float):
    def read(db: Database) -> list[tuple[int]]:
        world.now += set_by  # while it reads
        return db.query("SELECT COUNT(*) FROM news")

    kept = CachedRead(world.ctx, read)
    for n, seconds in enumerate((0.0, 1e6, -1e6)):
        world.now += seconds
        assert world.run(kept.get()) == [(n,)]
        assert world.run(kept.get()) == [(n,)]
        world.write(lambda tx: users.add_news(tx, "one more", "text", now=1.0))


def test_an_answer_that_took_long_is_kept_for_a_hundred_times_as_long(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("cobblestone.service.context.time.monotonic", lambda: now[0])
    costly, found = Costly(), list[str]()

    def find(seconds: float, answer: str) -> str:
        now[0] += seconds
        found.append(answer)
        return answer

    assert [costly.get("quick", lambda: find(0.01, "a")) for _ in range(2)] == ["a", "a"]
    assert found == ["a", "a"]
    assert costly.get(("slow", 1), lambda: find(0.5, "b")) == "b"
    now[0] += 0.5 / MAX_SHARE - 0.1
    assert costly.get(("slow", 1), lambda: find(0.5, "c")) == "b"
    assert costly.get(("slow", 2), lambda: find(0.5, "d")) == "d"
    now[0] += 0.2
    assert costly.get(("slow", 1), lambda: find(0.5, "e")) == "e"


def test_answers_that_took_long_do_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr("cobblestone.service.context.MOST_KEPT", 3)
    monkeypatch.setattr("cobblestone.service.context.QUICK", -1.0)
    costly = Costly()
    for n in range(10):
        assert costly.get(n, lambda n=n: n) == n
        assert len(vars(costly)["_kept"]) <= 3
