"""The archive of a project on PostgreSQL: parts that all machines read, in the folder or in a bucket."""

from __future__ import annotations

import shutil
import sqlite3
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet
from tests.helpers.bucket_server import BucketServer
from tests.helpers.postgres_server import PostgresServer
from tests.helpers.project_world import World

from cobblestone.domain.errors import StoreError
from cobblestone.server.daemons.file_deleter import purge
from cobblestone.server.operation.export_files import export_archive
from cobblestone.store.catalog.file_storage import FileStorage
from cobblestone.store.work import archive
from cobblestone.store.work.archive import Archive, ArchiveParts, packed, unpacked

WORDS = "written on the computer of"
SQL = "SELECT r.name, t.stderr FROM result r JOIN result_text t ON t.result_id = r.id ORDER BY r.id"


@pytest.fixture(scope="module")
def bucket() -> Iterator[BucketServer]:
    found = BucketServer()
    yield found
    found.close()


@pytest.fixture(params=["folder", "bucket"])
def world(
    request: pytest.FixtureRequest, tmp_path: Path, postgres: PostgresServer, bucket: BucketServer
) -> Iterator[World]:
    """A project whose purger has moved a job of each of two people into the archive, one after the other."""
    address = postgres.project_database()
    storage = bucket.settings() if request.param == "bucket" else {}
    found = World(tmp_path / "project", database=address, storage=storage, files={"purge_after": 10})
    app = found.add_app()
    for name in ("alice", "bob"):
        found.add_jobs(app)
        found.write(lambda tx: tx.execute("UPDATE workunit SET batch_id = NULL"))
        host = found.host(found.user(name))
        host.rpc(ask=1)
        (result,) = host.new_results()
        report = replace(host.finish(result, b"answer"), stderr=f"{WORDS} {name}")
        host.rpc(reports=[report])
        found.settle()
        found.now += 100
        found.settle()
        assert found.run(purge(found.ctx)) == 1
    yield found
    found.close()
    postgres.release(address)
    bucket.empty()


def other_machine(world: World, tmp_path: Path) -> Archive:
    """The archive of a machine that has nothing of its own."""
    parts = world.ctx.archive.parts
    assert parts is not None
    return Archive(tmp_path / "other.sqlite", parts)


def texts(where: Archive) -> list[str | None]:
    return [row[1] and zlib.decompress(row[1]).decode() for row in archive.query(where.path, SQL)[1]]


def test_every_machine_reads_what_one_has_purged(world: World, tmp_path: Path):
    assert world.value("SELECT COUNT(*) FROM workunit") == 0
    other = other_machine(world, tmp_path)
    assert archive.follow(other) == 2
    assert archive.follow(other) == 0
    assert texts(other) == texts(world.ctx.archive) == [f"{WORDS} alice", f"{WORDS} bob"]
    world.ctx.archive.path.unlink()
    archive.follow(world.ctx.archive)
    assert texts(world.ctx.archive) == texts(other), "a machine's own database can be made again"


def test_the_archive_is_written_as_parquet_with_the_types_of_the_project(world: World, tmp_path: Path):
    folder = tmp_path / "columns"
    path = world.ctx.archive.path
    export_archive(path, folder, report=lambda what: None)
    made = export_archive(path, folder, report=lambda what: None)  # it takes the place of the older one
    assert made == {"workunit.parquet": 2, "result.parquet": 2, "result_text.parquet": 2}
    assert sorted(each.name for each in folder.iterdir()) == sorted(made)
    for table in archive.TABLES:
        columns, rows = archive.query(path, f"SELECT * FROM {table} ORDER BY 1")
        found = parquet.read_table(folder / f"{table}.parquet")
        assert found.column_names == columns
        assert [tuple(row.values()) for row in found.to_pylist()] == rows
    types = parquet.read_schema(folder / "result.parquet")
    assert [str(types.field(name).type) for name in ("id", "granted_credit", "name", "host_id")] == [
        "int64",
        "double",
        "string",
        "int64",
    ]
    with pytest.raises(FileNotFoundError):
        export_archive(tmp_path / "nothing.sqlite", folder, report=lambda what: None)


def test_words_of_who_is_erased_leave_all_parts_and_all_machines(world: World, tmp_path: Path):
    other = other_machine(world, tmp_path)
    archive.follow(other)
    alice = world.value("SELECT id FROM user_account WHERE name = 'Alice'")
    for _ in range(2):  # the second time changes nothing
        archive.forget_words(world.ctx.archive, alice)
        parts = other.parts
        assert parts is not None
        names = parts.names()
        assert len(names) == 2
        contents = [parts.read(name, nbytes) for name, nbytes in names.items()]
        stored = [row for tables in contents if tables for row in tables["result_text"][1]]
        words = [zlib.decompress(each) for row in stored for each in row if isinstance(each, bytes)]
        assert words == [f"{WORDS} bob".encode()]
        archive.follow(other)
        fresh = Archive(tmp_path / "fresh.sqlite", parts)
        archive.follow(fresh)
        for each in (world.ctx.archive, other, fresh):
            assert texts(each) == [None, f"{WORDS} bob"]


def test_a_part_that_was_written_before_a_crash_is_written_again_and_counts_once(
    world: World, tmp_path: Path
):
    other = other_machine(world, tmp_path)
    assert other.parts is not None
    name, nbytes = next(iter(other.parts.names().items()))
    tables = other.parts.read(name, nbytes)
    assert tables is not None
    assert other.parts.add(tables) == name, "the same rows make the same part"
    archive.follow(other)
    assert len(texts(other)) == 2


def test_a_damaged_part_is_told_and_holds_up_nothing_that_was_read(tmp_path: Path):
    folder = tmp_path / "archive"
    folder.mkdir()
    (folder / f"{1:012d}-0000-{'0' * 32}.jsonl.gz").write_bytes(b"rubbish")
    (folder / "notes.txt").write_bytes(b"somebody's")
    with pytest.raises(StoreError, match="damaged"):
        archive.follow(Archive(tmp_path / "own.sqlite", ArchiveParts(folder, FileStorage())))


def test_an_archive_of_one_machine_moves_into_parts(world: World, tmp_path: Path):
    if world.ctx.storage.in_bucket:
        parts = ArchiveParts(world.ctx.folder.root / "moved", world.ctx.storage)
    else:
        parts = ArchiveParts(tmp_path / "moved", world.ctx.storage)
    old = tmp_path / "archive.sqlite"
    with sqlite3.connect(world.ctx.archive.path) as connection:
        connection.execute("DROP TABLE part")
        connection.execute("DROP TABLE part_user")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    shutil.copyfile(world.ctx.archive.path, old)
    moved = Archive(tmp_path / "moved.sqlite", parts)
    archive.move_into_parts(old, moved)
    archive.move_into_parts(old, moved)
    assert not old.exists()
    assert len(parts.names()) == 1
    assert texts(moved) == [f"{WORDS} alice", f"{WORDS} bob"]


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2**62), st.none() | st.text(), st.floats(allow_nan=False), st.none() | st.binary()
        )
    )
)
def test_rows_come_back_from_a_part_as_they_were(rows: list[tuple[object, ...]]):
    tables = {"workunit": (["id", "text", "number", "data"], rows), "result": (["id"], [])}
    assert unpacked(packed(tables), "x") == tables
