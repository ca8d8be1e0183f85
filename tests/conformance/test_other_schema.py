"""The engine and the upgrade serve other databases than a project's."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.conformance.conftest import DATABASES
from tests.helpers.postgres_server import PostgresServer

from cobblestone.domain.errors import StoreError
from cobblestone.store.engine.database import Store
from cobblestone.store.engine.mapping import RowMapper
from cobblestone.store.maintenance.steps import Schema
from cobblestone.store.maintenance.upgrade import check_revision, current_revision, upgrade

ENVIRONMENT = """
from cobblestone.store.maintenance.migration import take_steps

take_steps()
"""
FIRST = '''
from cobblestone.store.maintenance.migration import run

revision = "a1"
down_revision = None


def upgrade():
    run("""
CREATE TABLE visit (
    id IDENTIFIER,
    page TEXT DEFAULT '' NOT NULL UNIQUE,
    seconds REAL DEFAULT 0.5 NOT NULL,
    content BLOB
);
CREATE INDEX visit_by_length ON visit (seconds);
""")
'''
SECOND = """
from cobblestone.store.maintenance.migration import run

revision = "a2"
down_revision = "a1"


def upgrade():
    run("ALTER TABLE visit ADD COLUMN n INTEGER DEFAULT 3 NOT NULL;")
"""


@dataclass(frozen=True, kw_only=True)
class Visit:
    id: int
    page: str
    seconds: float
    content: bytes | None = None


VISITS = RowMapper(Visit)


def statistics_site(folder: Path, *steps: str) -> Schema:
    (folder / "versions").mkdir(parents=True, exist_ok=True)
    (folder / "env.py").write_text(ENVIRONMENT)
    for number, step in enumerate(steps):
        (folder / "versions" / f"{number}.py").write_text(step)
    return Schema(what="statistics site's database", migrations=folder)


@pytest.fixture(params=DATABASES)
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path | str]:
    if request.param == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        yield server.empty_database()
    else:
        yield tmp_path / "site.sqlite"


def test_another_schema_is_made_used_and_upgraded(where: Path | str, tmp_path: Path):
    old = statistics_site(tmp_path / "old", FIRST)
    upgrade(where, old)
    store = Store(where, readers=1)
    insert = VISITS.writer(without=("id",)).insert("visit")
    visit_id = store.write(lambda tx: tx.insert(insert, ("/", 1.5, b"\0x")))
    store.close()
    new = statistics_site(tmp_path / "new", FIRST, SECOND)
    assert current_revision(where, new) == "a1"
    upgrade(where, new)
    assert current_revision(where, new) == new.head == "a2"
    store = Store(where, readers=1)
    (row,) = store.read(lambda db: db.query(f"SELECT {VISITS.columns}, n FROM visit"))
    store.close()
    assert VISITS.load(row) == Visit(id=visit_id, page="/", seconds=1.5, content=b"\0x")
    assert row[-1] == 3
    with pytest.raises(StoreError, match="newer cobblestone"):
        check_revision(where, old)


def test_a_message_names_the_kind_of_database(tmp_path: Path):
    path = tmp_path / "site.sqlite"
    path.write_bytes(b"a letter to my aunt" * 300)
    with pytest.raises(StoreError, match="not a statistics site's database"):
        current_revision(path, statistics_site(tmp_path / "site", FIRST))


def test_tables_of_sqlite_are_strict_and_never_give_an_id_twice(tmp_path: Path):
    path = tmp_path / "site.sqlite"
    upgrade(path, statistics_site(tmp_path / "site", FIRST))
    connection = sqlite3.connect(path)
    (text,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'visit'").fetchone()
    connection.close()
    assert text.endswith("STRICT")
    assert "AUTOINCREMENT" in text
