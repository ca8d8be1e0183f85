"""An upgrade is done whole or not at all, whatever happens in its middle."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from cobblestone.domain.errors import Busy, StoreError
from cobblestone.store import people
from cobblestone.store.database import Store
from cobblestone.store.upgrade import MIGRATIONS, current_revision, upgrade

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


def steps(folder: Path, then: str) -> Path:
    """The project's migrations and one more."""
    from cobblestone.store.upgrade import head_revision

    target = folder / "migrations"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(MIGRATIONS, target, ignore=shutil.ignore_patterns("__pycache__"))
    text = STEP.format(head=head_revision(), then=then)
    (target / "versions" / "9999_synthetic_expand.py").write_text(text)
    return target


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "project.sqlite"
    upgrade(path)
    store = Store(path, readers=1)
    store.write(lambda tx: people.add_news(tx, "as it was", "text", now=1.0))
    store.close()
    return path


def content(path: Path) -> tuple[object, ...]:
    connection = sqlite3.connect(path)
    try:
        columns = [row[1] for row in connection.execute("PRAGMA table_info(news)")]
        return columns, connection.execute("SELECT title FROM news").fetchall(), current_revision(path)
    finally:
        connection.close()


def test_a_step_that_fails_leaves_the_database_as_it_was(database: Path, tmp_path: Path):
    before = content(database)
    with pytest.raises(StoreError, match=r"(?s)no such table: nowhere.*Nothing was changed"):
        upgrade(database, migrations=steps(tmp_path, 'op.execute("INSERT INTO nowhere VALUES (1)")'))
    assert content(database) == before
    assert sorted(path.name for path in tmp_path.glob("*project*")) == ["project.sqlite"]
    assert list(tmp_path.glob(".*")) == []


def test_an_upgrade_keeps_the_old_database_beside_the_new_one(database: Path, tmp_path: Path):
    before = content(database)
    backup = upgrade(database, migrations=steps(tmp_path, ""), now=0)
    assert backup is not None
    assert backup.name.startswith("project-before-upgrade-")
    assert content(backup) == before
    columns, titles, revision = content(database)
    assert "author" in columns  # type: ignore[operator]
    assert titles == [("changed by the step",)]
    assert revision == "9999"


def test_sigkill_in_the_middle_of_a_step_leaves_the_database_as_it_was(database: Path, tmp_path: Path):
    before = content(database)
    slow = steps(tmp_path, f'open("{tmp_path}/begun", "w").close(); time.sleep(60)')
    os.mkfifo(tmp_path / "begun")  # reading it waits until the step writes
    program = (
        "import sys; from pathlib import Path; from cobblestone.store.upgrade import upgrade;"
        " upgrade(Path(sys.argv[1]), migrations=Path(sys.argv[2]))"
    )
    process = subprocess.Popen([sys.executable, "-c", program, str(database), str(slow)])
    (tmp_path / "begun").read_bytes()
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert content(database) == before
    backup = upgrade(database, migrations=steps(tmp_path, ""))
    assert backup is not None
    assert content(backup) == before
    assert content(database)[2] == "9999"
    assert list(tmp_path.glob(".*")) == []


def test_what_stands_in_the_log_of_a_killed_server_is_upgraded_too(database: Path, tmp_path: Path):
    program = (
        "import os, sys; from pathlib import Path; from cobblestone.store import people;"
        " from cobblestone.store.database import Store; store = Store(Path(sys.argv[1]), readers=1);"
        " store.write(lambda tx: people.add_news(tx, 'in the log', 'text', now=2.0)); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", program, str(database)], check=False)
    assert database.with_name("project.sqlite-wal").stat().st_size > 0
    upgrade(database, migrations=steps(tmp_path, ""))
    assert content(database)[1] == [("changed by the step",)] * 2
    assert not database.with_name("project.sqlite-wal").exists()


def test_a_database_that_somebody_reads_is_not_replaced(database: Path, tmp_path: Path):
    store = Store(database, readers=1)
    try:
        with pytest.raises(Busy, match="read by another process"):
            upgrade(database, migrations=steps(tmp_path, ""))
        assert content(database)[2] != "9999"
    finally:
        store.close()
