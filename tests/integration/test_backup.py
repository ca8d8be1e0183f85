"""Backups of a project that runs, and what is made of them again."""

from __future__ import annotations

import fcntl
import json
import os
import re
import tarfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict
from tests.helpers.postgres_server import PostgresServer
from tests.helpers.project_world import World

from cobblestone.cli import run_command
from cobblestone.domain.errors import ConfigError, StoreError
from cobblestone.domain.exports import KeysInBackup
from cobblestone.domain.work import InputFile
from cobblestone.ops.settings import FILE_NAME
from cobblestone.server.core.project import ProjectFolder
from cobblestone.server.operation.backup import project_contents
from cobblestone.server.run import open_project
from cobblestone.service.backup import BackupManifest, make_backup, restore_backup, verify_backup
from cobblestone.store.catalog import files
from cobblestone.store.catalog.files import place_of
from cobblestone.store.engine.sqlite import open_reader
from cobblestone.store.maintenance import postgres as postgres_dump
from cobblestone.store.maintenance import snapshot as snapshots
from cobblestone.store.operation.processes import ProcessRow, note_process, server_processes
from cobblestone.store.people import users

pytestmark = pytest.mark.both_databases

LARGE = 200_000
KIND = ProjectFolder.kind

Restore = Callable[[Path, Path], BackupManifest]


@pytest.fixture
def restore(world: World, request: pytest.FixtureRequest) -> Restore:
    """Restores into an empty database of the kind that the project has."""
    if not world.ctx.settings.database.url:
        return lambda source, target: restore_backup(source, target, KIND)
    server: PostgresServer = request.getfixturevalue("postgres")
    return lambda source, target: restore_backup(source, target, KIND, database=server.empty_database())


def busy(world: World, n: int = 3) -> None:
    """Jobs with inputs, large outputs and an archive of what they wrote."""
    stored = world.store_file("low.json", b"input " * 1000)
    app = world.add_app()
    world.add_jobs(
        app, n=n, inputs=[InputFile(name=stored.name, open_name="in", nbytes=stored.nbytes, md5=stored.md5)]
    )
    world.settle()
    host = world.host(world.user("ada"))
    host.rpc(ask=1e6)
    for name in sorted(host.held):
        host.finish(name, name.encode() * (LARGE // len(name)))
    (world.ctx.folder.results / "demo").mkdir(parents=True, exist_ok=True)
    (world.ctx.folder.results / "demo" / "answer").write_text("42")
    (world.ctx.folder.root / "merge.py").write_text("def assimilate(workunit): ...\n")


def test_a_restored_project_knows_no_processes_of_the_old_server_and_keeps_its_passwords_to_itself(
    world: World, restore: Restore, tmp_path: Path
):
    settings = world.ctx.folder.root / FILE_NAME
    settings.write_text(settings.read_text().replace('password = ""', 'password = "secret"'))
    assert "secret" in settings.read_text()
    row = ProcessRow(key="1", host="old", pid=1, roles=(), version="0", started=1.0, beat_time=world.now)
    world.write(lambda tx: note_process(tx, row, forget_before=0.0))
    make_backup(project_contents(world.ctx.folder), tmp_path / "copy")
    restore(tmp_path / "copy", tmp_path / "again")
    with open_project(tmp_path / "again") as again:
        assert again.store.read(server_processes) == []
    assert (tmp_path / "again" / FILE_NAME).stat().st_mode & 0o077 == 0
    assert len(world.ctx.store.read(server_processes)) == 1


@pytest.mark.parametrize("name", ["copy", "copy.tar", "copy.tar.gz"])
def test_a_restored_backup_is_the_project_again(world: World, restore: Restore, tmp_path: Path, name: str):
    busy(world)
    made = make_backup(project_contents(world.ctx.folder), tmp_path / name)
    assert verify_backup(tmp_path / name, KIND) == made
    restore(tmp_path / name, tmp_path / "again")
    folder = ProjectFolder(tmp_path / "again")
    assert (folder.root / "merge.py").read_text() == (world.ctx.folder.root / "merge.py").read_text()
    assert (folder.results / "demo" / "answer").read_text() == "42"
    assert folder.secret_file.read_bytes() == world.ctx.folder.secret_file.read_bytes()
    assert folder.secret_file.stat().st_mode & 0o077 == 0
    with open_project(folder.root) as again:
        rows = "SELECT name, md5, nbytes FROM upload ORDER BY name"
        assert again.store.read(lambda db: db.query(rows)) == world.query(rows)
        assert len(world.query(rows)) == 3
        for root, table in ((folder.upload, "upload"), (folder.download, "file")):
            for (file,) in world.query(f"SELECT name FROM {table}"):
                here = place_of(world.ctx.folder.root / root.name, file)
                assert place_of(root, file).read_bytes() == here.read_bytes()
        ids = "SELECT MAX(id) FROM result"
        last = world.query(ids)[0][0]
        again.store.write(
            lambda tx: tx.execute("INSERT INTO result (name, workunit_id, app_id) VALUES ('new', 1, 1)")
        )
        assert again.store.read(lambda db: db.value(ids)) > last
    assert not (folder.root / "manifest.json").exists()
    assert not (folder.root / "database.dump").exists()


def test_files_that_never_change_cost_no_room(world: World, tmp_path: Path):
    busy(world)
    make_backup(project_contents(world.ctx.folder), tmp_path / "copy")
    (name,) = world.query("SELECT name FROM file LIMIT 1")[0]
    here = place_of(world.ctx.folder.download, name).stat()
    there = place_of(tmp_path / "copy" / "download", name).stat()
    assert (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)


def test_lost_files_hold_up_no_backup_and_their_rows_are_looked_up_once(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    busy(world)
    lost = [world.store_file(f"lost{number}", f"{number}".encode()).name for number in range(30)]
    world.write(lambda tx: files.add_references(tx, dict.fromkeys(lost, 1)))
    for name in lost:
        place_of(world.ctx.folder.download, name).unlink()
    contents = project_contents(world.ctx.folder)
    looks: list[object] = []
    read_rows = snapshots.read_rows

    def counted(location: Any, queries: Any) -> Any:
        looks.append(location)
        return read_rows(location, queries)

    monkeypatch.setattr(snapshots, "read_rows", counted)
    make_backup(contents, tmp_path / "copy")
    assert looks.count(contents.location) == 1
    assert not any(place_of(tmp_path / "copy" / "download", name).exists() for name in lost)


def test_a_backup_under_load_holds_every_file_that_its_rows_need(
    world: World, restore: Restore, tmp_path: Path
):
    busy(world)
    stop = threading.Event()
    problems: list[BaseException] = []

    def load() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            try:
                stored = world.store_file(f"f{number}", f"content {number}".encode())
                world.write(lambda tx, name=stored.name: files.add_references(tx, {name: 1}))
                world.write(lambda tx: users.add_news(tx, "news", "text " * 200, now=1.0))
            except BaseException as error:  # noqa: BLE001  # shown by the assertion below
                problems.append(error)
                return

    thread = threading.Thread(target=load)
    thread.start()
    try:
        for number in range(5):
            target = tmp_path / f"copy{number}"
            make_backup(project_contents(world.ctx.folder), target)
            restore(target, tmp_path / f"again{number}")
            with open_project(tmp_path / f"again{number}") as again:
                needed = again.store.read(lambda db: db.query("SELECT name FROM file WHERE refs > 0"))
                missing = [name for (name,) in needed if not place_of(again.folder.download, name).exists()]
            assert missing == []
            assert needed
    finally:
        stop.set()
        thread.join()
    assert problems == []


def test_secrets_go_along_only_if_wanted(world: World, restore: Restore, tmp_path: Path):
    world.ctx.folder.code_sign_private.write_text("private")
    make_backup(project_contents(world.ctx.folder, KeysInBackup.NO_SIGNING_KEY), tmp_path / "a")
    assert (tmp_path / "a/keys/secret").exists()
    assert not (tmp_path / "a/keys/code_sign_private").exists()
    make_backup(project_contents(world.ctx.folder, KeysInBackup.NONE, results=False), tmp_path / "b")
    assert not (tmp_path / "b/keys").exists()
    assert not (tmp_path / "b/results").exists()
    restore(tmp_path / "b", tmp_path / "again")
    with pytest.raises(ConfigError, match="secret is missing"), open_project(tmp_path / "again"):
        pass


def _cut(root: Path) -> None:
    path = next((root / "upload").rglob("*_0"))
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data[:-1] + b"!")


def _lose(root: Path) -> None:
    (root / "keys" / "secret").unlink()


def _add(root: Path) -> None:
    (root / "evil.py").write_text("…")


def _link_folder(root: Path) -> None:
    (root / "results").rename(root.parent / "elsewhere")
    (root / "results").symlink_to(root.parent / "elsewhere")


def _damage(root: Path) -> None:
    manifest = json.loads((root / "manifest.json").read_text())
    manifest["files"][0]["path"] = "../outside"
    (root / "manifest.json").write_text(json.dumps(manifest))


def _newer(root: Path) -> None:
    manifest = json.loads((root / "manifest.json").read_text())
    (root / "manifest.json").write_text(json.dumps({**manifest, "format": 2}))


@pytest.mark.parametrize(
    ("harm", "text"),
    [
        (_cut, "is damaged"),
        (_lose, "keys/secret is missing"),
        (_add, "evil.py is not in the manifest"),
        (_link_folder, "results is a link"),
        (_damage, "outside the backup"),
        (_newer, "newer cobblestone"),
    ],
)
def test_a_damaged_backup_is_found_out_and_leaves_nothing(
    world: World, restore: Restore, tmp_path: Path, harm: Callable[[Path], None], text: str
):
    busy(world)
    make_backup(project_contents(world.ctx.folder), tmp_path / "copy")
    harm(tmp_path / "copy")
    for attempt in (
        lambda: verify_backup(tmp_path / "copy", KIND),
        lambda: restore(tmp_path / "copy", tmp_path / "x"),
    ):
        with pytest.raises(StoreError, match=text):
            attempt()
    assert not (tmp_path / "x").exists()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.of_sqlite
def test_of_a_damaged_database_no_backup_is_made_and_the_doctor_says_it_at_every_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    root = tmp_path / "sky"
    assert run_command(["project", "create", str(root)]) == 0
    path = root / KIND.database
    with closing(open_reader(path)) as reader:
        tables = "SELECT rootpage FROM sqlite_master WHERE tbl_name IN ('workunit', 'file', 'upload')"
        pages = [page for (page,) in reader.execute(tables)]
    rows = bytearray(path.read_bytes())
    for page in pages:
        rows[(page - 1) * 4096 : page * 4096] = b"\xff" * 4096
    path.write_bytes(rows)
    with pytest.raises(StoreError, match="malformed"):
        make_backup(project_contents(ProjectFolder(root)), tmp_path / "copy")
    assert [path.name for path in tmp_path.iterdir()] == ["sky"]
    capsys.readouterr()
    assert run_command(["doctor", "-p", str(root)]) == 4
    said = capsys.readouterr().out
    assert re.search(r"(?m)^WRONG +durable .*\n +database: .*malformed", said)
    assert re.search(r"(?m)^WRONG +next_step .*\n +database: .*malformed", said)
    assert re.search(r"(?m)^ok +daemons ", said), "the last one"


@pytest.mark.of_sqlite
def test_a_tar_file_with_a_link_is_no_backup_and_leaves_nothing(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    copy = tmp_path / "copy.tar"
    make_backup(project_contents(world.ctx.folder), copy)
    link = tarfile.TarInfo("./merge.py")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    with tarfile.open(copy, "a") as archive:
        archive.addfile(link)
    for words in (["restore", "--check", str(copy)], ["restore", str(copy), str(tmp_path / "x")]):
        assert run_command(words) == 1
        assert "merge.py' is a link: this copy was not made by cobblestone" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_backup_without_its_end_is_no_backup(world: World, tmp_path: Path):
    made: BackupManifest = make_backup(project_contents(world.ctx.folder), tmp_path / "copy.tar")
    assert made.nbytes > 0
    whole = (tmp_path / "copy.tar").read_bytes()
    (tmp_path / "cut.tar").write_bytes(whole[: len(whole) // 2])
    with pytest.raises((StoreError, ConfigError)):
        verify_backup(tmp_path / "cut.tar", KIND)
    with pytest.raises(ConfigError, match="no manifest"):
        verify_backup(world.ctx.folder.root, KIND)
    with tarfile.open(tmp_path / "copy.tar") as archive:
        assert "./manifest.json" in archive.getnames()
    assert (tmp_path / "copy.tar").stat().st_mode & 0o077 == 0


def test_a_backup_overwrites_nothing(world: World, tmp_path: Path):
    (tmp_path / "copy").mkdir()
    with pytest.raises(ConfigError, match="exists already"):
        make_backup(project_contents(world.ctx.folder), tmp_path / "copy")
    make_backup(project_contents(world.ctx.folder), tmp_path / "good")
    with pytest.raises(ConfigError, match="not empty"):
        restore_backup(tmp_path / "good", world.ctx.folder.root, KIND)


@pytest.fixture
def on_postgres(postgres: PostgresServer, tmp_path: Path) -> Iterator[World]:
    """A project on PostgreSQL."""
    address = postgres.project_database()
    opened = World(tmp_path / "on_postgres", database=address)
    yield opened
    opened.close()
    postgres.release(address)


def test_rows_are_restored_into_an_empty_database_only(on_postgres: World, tmp_path: Path):
    make_backup(project_contents(on_postgres.ctx.folder), tmp_path / "copy")
    for database in (
        "",
        on_postgres.ctx.settings.database.url,
    ):  # the one that the settings name is the live one
        with pytest.raises(ConfigError, match="is not empty"):
            restore_backup(tmp_path / "copy", tmp_path / "again", KIND, database=database)
    assert not (tmp_path / "again").exists()


def test_a_project_on_sqlite_is_not_restored_into_postgresql(postgres: PostgresServer, tmp_path: Path):
    world = World(tmp_path / "on_sqlite")
    make_backup(project_contents(world.ctx.folder), tmp_path / "copy")
    world.close()
    with pytest.raises(ConfigError, match="project move"):
        restore_backup(tmp_path / "copy", tmp_path / "again", KIND, database=postgres.empty_database())


def test_a_tool_that_is_missing_or_too_old_is_named(
    on_postgres: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    old = tmp_path / "bin"
    old.mkdir()
    monkeypatch.setattr("cobblestone.store.maintenance.postgres.DEBIAN", tmp_path)
    monkeypatch.setenv("PATH", str(old))
    with pytest.raises(StoreError, match=r"pg_dump is not installed.*apt install postgresql-client-"):
        make_backup(project_contents(on_postgres.ctx.folder), tmp_path / "copy")
    (old / "pg_dump").write_text("#!/bin/sh\necho 'pg_dump (PostgreSQL) 9.6.24'\n")
    (old / "pg_dump").chmod(0o755)
    with pytest.raises(StoreError, match="pg_dump of PostgreSQL 9 is older than the server"):
        make_backup(project_contents(on_postgres.ctx.folder), tmp_path / "copy")
    assert [path.name for path in tmp_path.glob(".backup-*")] == []
    assert not (tmp_path / "copy").exists()


def test_the_tool_nearest_to_the_server_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("cobblestone.store.maintenance.postgres.DEBIAN", tmp_path)
    for version in (14, 16, 18):
        tool = tmp_path / str(version) / "bin" / "pg_restore"
        tool.parent.mkdir(parents=True)
        tool.write_text(f"#!/bin/sh\necho 'pg_restore (PostgreSQL) {version}.1'\n")
        tool.chmod(0o755)
    for server, taken in ((15, "16"), (16, "16"), (17, "18"), (0, "18")):
        assert postgres_dump._program("pg_restore", server).parts[-3] == taken


def test_a_passphrase_that_could_not_be_hidden_is_refused():
    with (
        pytest.raises(StoreError, match="without a passphrase"),
        postgres_dump._without_password("postgresql://ada@db.example.org/project?sslpassword=secret"),
    ):
        pass


def test_a_password_is_on_no_command_line():
    address = "postgresql://ada:se:cr\\et@db.example.org:5433/project?sslmode=require"
    with postgres_dump._without_password(address) as shown:
        assert "se:cr" not in shown
        parts = {name: str(value) for name, value in conninfo_to_dict(shown).items()}
        assert parts["host"] == "db.example.org"
        assert parts["sslmode"] == "require"
        passfile = Path(parts["passfile"])
        assert passfile.read_text() == "*:*:*:*:se\\:cr\\\\et\n"
        assert passfile.stat().st_mode & 0o077 == 0
    assert not passfile.exists()


def test_what_a_killed_program_left_is_removed_and_what_another_works_on_stays(world: World, tmp_path: Path):
    beside = world.ctx.folder.root.parent
    left, others, somebodys = (
        beside / name for name in (".backup-0123456789ab", ".backup-ba9876543210", ".backup-of-my-pages")
    )
    for folder in (left, others, somebodys):
        (folder / "secrets").mkdir(parents=True)
        (folder / "secrets" / "key").write_text("secret")
    opened = os.open(others, os.O_RDONLY)
    fcntl.flock(opened, fcntl.LOCK_SH)  # as a backup that is being made
    make_backup(project_contents(world.ctx.folder), tmp_path / "b.tar")
    os.close(opened)
    assert not left.exists()
    assert (others / "secrets" / "key").exists()
    assert (somebodys / "secrets" / "key").exists()
