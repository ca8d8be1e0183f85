"""The log of SQLite is copied into the file beside the writes, and begins anew."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.helpers.project_world import empty_database

from cobblestone.store.engine import sqlite
from cobblestone.store.engine.database import Store
from cobblestone.store.engine.sqlite import SqliteConnection, open_reader

PAGES = 20
SMALL_BYTES = 4 * PAGES * 4096


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty database, whose log is soon long."""
    monkeypatch.setattr(sqlite, "CHECKPOINT_PAGES", PAGES)
    path = tmp_path / "project.sqlite"
    path.write_bytes(empty_database())
    return path


@pytest.fixture
def connection(path: Path) -> Iterator[SqliteConnection]:
    """The one that writes."""
    with closing(SqliteConnection(path)) as connection:
        yield connection


def write(connection: SqliteConnection, *, times: int = 1) -> None:
    for _ in range(times):
        connection.begin()
        connection.execute("INSERT INTO news (title, text, time) VALUES ('title', hex(zeroblob(4500)), 1.0)")
        connection.commit()


def log_bytes(path: Path) -> int:
    return path.with_name(path.name + "-wal").stat().st_size


def finish_checkpoint(connection: SqliteConnection) -> None:
    """Wait for the one that runs, if one does, and write once more."""
    if connection._checkpoint is not None:
        connection._checkpoint.join()
    write(connection)


def test_writes_go_on_while_the_log_is_copied_and_it_begins_anew(
    path: Path, connection: SqliteConnection, monkeypatch: pytest.MonkeyPatch
):
    copy, may_copy = sqlite._copy_log, threading.Event()

    def wait_and_copy(path: Path) -> None:
        may_copy.wait(60)
        copy(path)

    monkeypatch.setattr(sqlite, "_copy_log", wait_and_copy)
    before = path.read_bytes()
    write(connection, times=PAGES)
    assert path.read_bytes() == before, "no commit waits for that"
    may_copy.set()
    finish_checkpoint(connection)
    assert len(path.read_bytes()) > len(before)
    long = log_bytes(path)
    write(connection, times=2)
    assert log_bytes(path) == long, "its beginning is written over"


def test_the_log_stays_short(path: Path, connection: SqliteConnection):
    for _ in range(100):
        write(connection)
        finish_checkpoint(connection)
    assert log_bytes(path) < SMALL_BYTES
    assert connection.execute("SELECT count(*) FROM news").fetchone() == (200,)


def test_a_log_that_a_reader_needs_is_not_copied_at_every_write(
    path: Path, connection: SqliteConnection, monkeypatch: pytest.MonkeyPatch
):
    copy, copies = sqlite._copy_log, list[Path]()

    def count(path: Path) -> None:
        copies.append(path)
        copy(path)

    monkeypatch.setattr(sqlite, "_copy_log", count)
    with closing(open_reader(path)) as reader:
        write(connection)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM news").fetchall()
        for _ in range(PAGES):
            write(connection)
            finish_checkpoint(connection)
        pages = log_bytes(path) // 4096
        assert 1 < len(copies) <= pages // PAGES + 1
        reader.execute("COMMIT")
    for _ in range(PAGES):
        write(connection)
        finish_checkpoint(connection)
    long = log_bytes(path)
    for _ in range(PAGES):
        write(connection)
        finish_checkpoint(connection)
    assert log_bytes(path) == long, "nobody needs it any more"


def test_what_was_written_stays_and_is_answered_when_the_system_has_no_thread_for_the_copy(
    path: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    store = Store(path, readers=1)
    with closing(store), monkeypatch.context() as context:
        context.setattr(threading.Thread, "start", refuse)
        for number in range(3 * PAGES):
            row = "INSERT INTO news (title, text, time) VALUES ('title', hex(zeroblob(4500)), ?)"
            assert store.write(lambda tx, time=number, row=row: tx.execute(row, (time,))) == 1
        assert log_bytes(path) < SMALL_BYTES, "the writer copies it"
    with closing(open_reader(path)) as reader:
        assert (
            reader.execute("SELECT count(*), count(DISTINCT time) FROM news").fetchone() == (3 * PAGES,) * 2
        )
