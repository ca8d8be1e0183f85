"""An upgrade is done whole or not at all, whatever happens in its middle."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.helpers.postgres_server import PostgresServer

from cobblestone.domain.errors import Busy, StoreError
from cobblestone.store.engine.database import Store
from cobblestone.store.maintenance import upgrade as upgrading
from cobblestone.store.maintenance.snapshot import fill_database
from cobblestone.store.maintenance.steps import Schema
from cobblestone.store.maintenance.upgrade import check_revision, current_revision, upgrade
from cobblestone.store.people import users
from cobblestone.store.schema.project import PROJECT

STEP = """
import time
import sqlalchemy as sa
from alembic import op
revision = "9999"
down_revision = "{head}"
branch_labels = None
depends_on = None

def upgrade():
    op.add_column("news", sa.Column("author", sa.Text(), server_default="nobody", nullable=False))
    op.execute("UPDATE news SET title = 'changed by the step'")
    {then}
    op.create_table("second", sa.Column("id", sa.Integer(), primary_key=True))
"""


def steps(folder: Path, then: str) -> Schema:
    """The project's migrations and one more."""
    target = folder / "migrations"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(PROJECT.migrations, target, ignore=shutil.ignore_patterns("__pycache__"))
    text = STEP.format(head=PROJECT.head, then=then)
    (target / "versions" / "9999_synthetic_expand.py").write_text(text)
    return replace(PROJECT, migrations=target)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "project.sqlite"
    upgrade(path, PROJECT)
    store = Store(path, readers=1)
    store.write(lambda tx: users.add_news(tx, "as it was", "text", now=1.0))
    store.close()
    return path


def content(path: Path) -> tuple[object, ...]:
    connection = sqlite3.connect(path)
    try:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(news)")]
        return (
            columns,
            connection.execute("SELECT title FROM news").fetchall(),
            current_revision(path, PROJECT),
        )
    finally:
        connection.close()


def test_a_step_that_fails_leaves_the_database_as_it_was(database: Path, tmp_path: Path):
    before = content(database)
    with pytest.raises(StoreError, match=r"(?s)no such table: nowhere.*Nothing was changed"):
        upgrade(database, steps(tmp_path, 'op.execute("INSERT INTO nowhere VALUES (1)")'))
    assert content(database) == before
    assert sorted(path.name for path in tmp_path.glob("*project*")) == ["project.sqlite"]
    assert list(tmp_path.glob(".*")) == []


def test_an_upgrade_keeps_the_old_database_beside_the_new_one(database: Path, tmp_path: Path):
    before = content(database)
    backup = upgrade(database, steps(tmp_path, ""), now=0)
    assert backup is not None
    assert backup.name.startswith("project-before-upgrade-")
    assert content(backup) == before
    columns, titles, revision = content(database)
    assert "author" in columns  # type: ignore[operator]  # names of columns
    assert titles == [("changed by the step",)]
    assert revision == "9999"


def test_before_a_start_it_is_said_that_there_is_no_room_for_the_upgrade(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(upgrading, "ROOM_FACTOR", 1e9)
    schema = steps(tmp_path, "")
    check_revision(database, PROJECT, replaces=("here", 1))  # nothing is to be upgraded
    check_revision(database, schema)  # who only reads needs no room
    with pytest.raises(StoreError, match="MB of free disk"):
        check_revision(database, schema, replaces=("here", 1))
    with pytest.raises(StoreError, match=r"MB of free disk.*Nothing was changed"):
        upgrade(database, schema)


@pytest.mark.parametrize("links", [True, False], ids=["links", "no links"])
def test_others_can_read_no_copy_of_the_database(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
):
    if not links:
        monkeypatch.setattr(os, "link", lambda *_: (tmp_path / "missing").stat())
    files = f"[path for path in pathlib.Path({str(tmp_path)!r}).glob('*project.sqlite*') if path.stat().st_mode & 0o077]"
    backup = upgrade(database, steps(tmp_path, f"import pathlib; assert {files} == []"))
    assert backup is not None
    assert [path.stat().st_mode & 0o077 for path in (database, backup)] == [0, 0]


@pytest.mark.root
def test_the_new_database_belongs_to_whom_the_old_one_did(database: Path, tmp_path: Path):
    os.chown(database, 65534, 65534)
    backup = upgrade(database, steps(tmp_path, ""))
    assert backup is not None
    assert [path.stat().st_uid for path in (database, backup)] == [65534, 65534]


def test_sigkill_in_the_middle_of_a_step_leaves_the_database_as_it_was(database: Path, tmp_path: Path):
    before = content(database)
    slow = steps(tmp_path, f'open("{tmp_path}/begun", "w").close(); time.sleep(60)')
    os.mkfifo(tmp_path / "begun")  # reading it waits until the step writes
    program = (
        "import sys; from pathlib import Path; from cobblestone.store.maintenance.upgrade import upgrade;"
        " from dataclasses import replace; from cobblestone.store.schema.project import PROJECT;"
        " upgrade(Path(sys.argv[1]), replace(PROJECT, migrations=Path(sys.argv[2])))"
    )
    process = subprocess.Popen([sys.executable, "-c", program, str(database), str(slow.migrations)])
    (tmp_path / "begun").read_bytes()
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert content(database) == before
    backup = upgrade(database, steps(tmp_path, ""))
    assert backup is not None
    assert content(backup) == before
    assert content(database)[2] == "9999"
    assert list(tmp_path.glob(".*")) == []


def test_what_stands_in_the_log_of_a_killed_server_is_upgraded_too(database: Path, tmp_path: Path):
    program = (
        "import os, sys; from pathlib import Path; from cobblestone.store.people import users;"
        " from cobblestone.store.engine.database import Store; store = Store(Path(sys.argv[1]), readers=1);"
        " store.write(lambda tx: users.add_news(tx, 'in the log', 'text', now=2.0)); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", program, str(database)], check=False)
    assert database.with_name("project.sqlite-wal").stat().st_size > 0
    upgrade(database, steps(tmp_path, ""))
    assert content(database)[1] == [("changed by the step",)] * 2
    assert not database.with_name("project.sqlite-wal").exists()


def test_a_database_that_somebody_reads_is_not_replaced(database: Path, tmp_path: Path):
    store = Store(database, readers=1)
    try:
        with pytest.raises(Busy, match="read by another process"):
            upgrade(database, steps(tmp_path, ""))
        assert content(database)[2] != "9999"
    finally:
        store.close()


# -- PostgreSQL -----------------------------------------------------------------


@pytest.fixture
def address(postgres: PostgresServer) -> str:
    where = postgres.empty_database()
    upgrade(where, PROJECT)
    store = Store(where, readers=1)
    store.write(lambda tx: users.add_news(tx, "as it was", "text", now=1.0))
    store.close()
    return where


def content_at(address: str) -> tuple[object, ...]:
    store = Store(address, readers=1)
    try:
        rows = store.read(lambda db: (db.columns("news"), db.query("SELECT title FROM news")))
        return (*rows, current_revision(address, PROJECT))
    finally:
        store.close()


def test_on_postgresql_a_step_that_fails_leaves_the_database_as_it_was(address: str, tmp_path: Path):
    before = content_at(address)
    harm = steps(tmp_path, 'op.execute("INSERT INTO nowhere VALUES (1)")')
    with pytest.raises(StoreError, match=r'(?s)relation "nowhere" does not exist.*Nothing was changed'):
        upgrade(address, harm, keep=tmp_path)
    assert content_at(address) == before


def test_on_postgresql_an_upgrade_keeps_a_dump_that_brings_the_old_database_back(
    address: str, postgres: PostgresServer, tmp_path: Path
):
    before = content_at(address)
    backup = upgrade(address, steps(tmp_path, ""), keep=tmp_path, now=0)
    assert backup is not None
    assert backup.name == f"project-before-upgrade-{before[2]}-19700101-000000.dump"
    assert backup.stat().st_mode & 0o077 == 0
    columns, titles, revision = content_at(address)
    assert "author" in columns  # type: ignore[operator]  # names of columns
    assert (titles, revision) == ([("changed by the step",)], "9999")
    again = postgres.empty_database()
    fill_database(again, backup)
    assert content_at(again) == before
    assert list(tmp_path.glob(".*")) == []


def test_on_postgresql_there_is_no_upgrade_without_a_backup_unless_wanted(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    before = content_at(address)
    monkeypatch.setattr("cobblestone.store.maintenance.postgres.DEBIAN", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StoreError, match=r"No upgrade without a backup: pg_dump is not installed"):
        upgrade(address, steps(tmp_path, ""), keep=tmp_path)
    assert content_at(address) == before
    assert upgrade(address, steps(tmp_path, "")) is None
    assert content_at(address)[2] == "9999"


def test_on_postgresql_sigkill_in_the_middle_of_a_step_leaves_the_database_as_it_was(
    address: str, tmp_path: Path
):
    before = content_at(address)
    slow = steps(tmp_path, f'open("{tmp_path}/begun", "w").close(); time.sleep(60)')
    os.mkfifo(tmp_path / "begun")  # reading it waits until the step writes
    program = (
        "import sys; from pathlib import Path; from cobblestone.store.maintenance.upgrade import upgrade;"
        " from dataclasses import replace; from cobblestone.store.schema.project import PROJECT;"
        " upgrade(sys.argv[1], replace(PROJECT, migrations=Path(sys.argv[2])), keep=Path(sys.argv[3]))"
    )
    process = subprocess.Popen([sys.executable, "-c", program, address, str(slow.migrations), str(tmp_path)])
    (tmp_path / "begun").read_bytes()
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert content_at(address) == before
    assert upgrade(address, steps(tmp_path, ""), keep=tmp_path) is not None
    assert content_at(address)[2] == "9999"
