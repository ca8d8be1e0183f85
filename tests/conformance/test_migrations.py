"""Migrations make the same schema on both databases, and never lose what was there."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import psycopg
import pytest
from tests.helpers.postgres_server import PostgresServer

from cobblestone.account_manager.store.schema import MANAGER
from cobblestone.domain.errors import StoreError
from cobblestone.domain.work import FileDeleteState
from cobblestone.store.engine.database import Store
from cobblestone.store.engine.sqlite import open_plain
from cobblestone.store.maintenance.copy_to_postgres import move
from cobblestone.store.maintenance.migration import statements
from cobblestone.store.maintenance.steps import Schema
from cobblestone.store.maintenance.upgrade import check_revision, current_revision, upgrade, upgrade_plan
from cobblestone.store.people import users
from cobblestone.store.schema.project import PROJECT, declared_types
from cobblestone.store.work import steps
from cobblestone.store.work.rows import TARGETED


def structure(path: Path) -> dict[tuple[str, str], object]:
    """Tables with their columns, and the text of indexes."""
    connection = sqlite3.connect(path)
    found: dict[tuple[str, str], object] = {}
    for kind, name, sql in connection.execute(
        "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"
    ):
        if name == "alembic_version":
            continue
        if kind == "table":
            columns = [row[1:6] for row in connection.execute(f"PRAGMA table_info({name})")]
            unique = sorted(
                tuple(column[2] for column in connection.execute(f"PRAGMA index_info('{index[1]}')"))
                for index in connection.execute(f"PRAGMA index_list({name})")
                if index[2] and index[3] == "u"
            )
            found[kind, name] = (columns, unique, "STRICT" in sql, "AUTOINCREMENT" in sql)
        else:
            found[kind, name] = " ".join(sql.split())
    connection.close()
    return found


@pytest.mark.parametrize(
    ("index", "condition"),
    [
        ("batch_to_archive", steps.TO_ARCHIVE),
        ("batch_unfinished", steps.OPEN_BATCH),
        ("wu_assimilate", steps.TO_ASSIMILATE),
        ("wu_delete", steps.DELETABLE),
        ("wu_archive", steps.matching(FileDeleteState.DONE)),
        ("wu_targeted", TARGETED),
        ("result_unsent", steps.IS_UNSENT),
        ("result_in_progress", steps.IS_IN_PROGRESS),
        ("result_delete", steps.DELETABLE),
    ],
)
def test_an_index_has_the_condition_of_the_statements_that_it_is_for(
    index: str, condition: str, tmp_path: Path
):
    path = tmp_path / "project.sqlite"
    upgrade(path, PROJECT)
    assert str(structure(path)["index", index]).endswith(f" WHERE {condition}")


def test_migrations_make_the_same_tables_on_postgresql(postgres: PostgresServer):
    address = postgres.empty_database()
    upgrade(address, PROJECT)
    assert upgrade(address, PROJECT) is None
    assert current_revision(address, PROJECT) == PROJECT.head
    names = {"bigint": "INTEGER", "double precision": "REAL", "text": "TEXT", "bytea": "BLOB"}
    with psycopg.connect(address) as connection:
        columns = connection.execute(
            "SELECT table_name, column_name, data_type FROM information_schema.columns"
            " WHERE table_schema = 'public' AND table_name <> 'alembic_version'"
        ).fetchall()
    found = {(table, column): names.get(kind, kind) for table, column, kind in columns}
    declared = declared_types()
    assert {key: kind for key, kind in found.items() if key in declared} == declared
    assert {table for table, _ in found.keys() - declared.keys()} <= {
        "process_program", "process_member", "process_lease", "schema_bears"
    }  # fmt: skip


def test_comments_are_no_part_of_a_statement():
    text = "-- What it is; for readers.\nCREATE TABLE t (\n    a REAL,  -- first\n    b TEXT\n);\n"
    assert statements(text, "postgresql") == ["CREATE TABLE t (\n    a DOUBLE PRECISION,\n    b TEXT\n)"]


def postgres_structure(address: str) -> list[tuple[object, ...]]:
    """Columns, constraints, indexes, and how rows are stored."""
    with psycopg.connect(address) as connection:
        columns = connection.execute(
            "SELECT table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns"
            " WHERE table_schema = 'public' AND table_name <> 'alembic_version' ORDER BY 1, 2"
        ).fetchall()
        indexes = connection.execute(
            "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' AND tablename <> 'alembic_version' ORDER BY 1"
        ).fetchall()
        storage = connection.execute(
            "SELECT relname, option_name, option_value FROM pg_class, pg_options_to_table(reloptions) ORDER BY 1, 2"
        ).fetchall()
    assert storage
    return [*columns, *indexes, *storage]


def test_a_new_database_is_made_at_the_head_and_a_second_upgrade_does_nothing(tmp_path: Path):
    path = tmp_path / "project.sqlite"
    assert upgrade(path, PROJECT) is None
    assert current_revision(path, PROJECT) == PROJECT.head
    before = path.read_bytes()
    assert upgrade(path, PROJECT) is None
    assert path.read_bytes() == before


def test_the_revision_of_a_file_that_is_held_for_a_moment_is_waited_for(tmp_path: Path):
    path = tmp_path / "project.sqlite"
    upgrade(path, PROJECT)
    holder = open_plain(path)
    holder.execute("PRAGMA journal_mode = DELETE")  # so that one who writes keeps readers out
    holder.execute("BEGIN EXCLUSIVE")
    timer = threading.Timer(0.3, lambda: holder.execute("ROLLBACK"))
    timer.start()
    assert current_revision(path, PROJECT) == PROJECT.head
    timer.join()
    holder.close()


def test_a_database_of_a_newer_program_is_refused_and_left_alone(tmp_path: Path):
    path = tmp_path / "project.sqlite"
    upgrade(path, PROJECT)
    connection = sqlite3.connect(path)
    connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match="newer cobblestone"):
        upgrade(path, PROJECT)


def move_away(path: Path, schema: Schema) -> None:
    move(path, "postgresql:///unused", schema, progress=print)


@pytest.mark.parametrize("schema", [PROJECT, MANAGER], ids=["project", "manager"])
def test_a_database_from_before_the_first_schema_is_refused_and_left_alone(schema: Schema, tmp_path: Path):
    path = tmp_path / "project.sqlite"
    upgrade(path, schema)
    connection = sqlite3.connect(path)
    connection.execute("UPDATE alembic_version SET version_num = '0005'")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    advice = (
        rf"before 0\.1\.0 \(schema 0005\).* Nothing was changed\. Run `{schema.command}` of commit [0-9a-f]{{8}},"
        rf" .* schema {schema.steps()[0].revision}, then start"
    )
    for attempt in (upgrade, check_revision, upgrade_plan, move_away):
        with pytest.raises(StoreError, match=advice):
            attempt(path, schema)
    assert path.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_on_postgresql_a_database_from_before_the_first_schema_is_refused_and_left_alone(
    postgres: PostgresServer, tmp_path: Path
):
    address = postgres.empty_database()
    upgrade(address, PROJECT)
    with psycopg.connect(address) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0007'")
    before = postgres_structure(address)
    for attempt in (upgrade, check_revision, upgrade_plan):
        with pytest.raises(StoreError, match=r"before 0\.1\.0 \(schema 0007\)"):
            attempt(address, PROJECT)
    assert (postgres_structure(address), current_revision(address, PROJECT)) == (before, "0007")


def test_what_is_no_database_is_refused(tmp_path: Path):
    path = tmp_path / "project.sqlite"
    path.write_bytes(b"this is a letter to my aunt" * 100)
    with pytest.raises(StoreError, match="not a project database"):
        upgrade(path, PROJECT)


def test_every_commit_is_flushed_to_disk(tmp_path: Path):
    path = tmp_path / "project.sqlite"
    upgrade(path, PROJECT)
    store = Store(path, readers=1)
    assert store.write(lambda tx: tx.value("PRAGMA synchronous")) == 2
    assert store.write(lambda tx: tx.value("PRAGMA journal_mode")) == "wal"
    store.close()


def test_ids_are_never_used_twice(tmp_path: Path):
    path = tmp_path / "project.sqlite"
    upgrade(path, PROJECT)
    store = Store(path, readers=1)
    first = store.write(lambda tx: users.add_news(tx, "a", "b", now=1.0))
    store.write(lambda tx: tx.execute("DELETE FROM news"))
    assert store.write(lambda tx: users.add_news(tx, "a", "b", now=1.0)) > first
    store.close()
