"""From SQLite to PostgreSQL: every row arrives, the project goes on there, and nothing happens to the original."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.helpers.command_line import run_here
from tests.helpers.postgres_server import PostgresServer
from tests.helpers.project_world import World

from cobblestone.domain.errors import Busy, ConfigError, StoreError
from cobblestone.ops.settings import load_settings
from cobblestone.server.core.project import ProjectFolder
from cobblestone.server.credit.ledger_audit import recompute
from cobblestone.server.run import open_project
from cobblestone.service.settings import move_service, settings_mode, with_database
from cobblestone.store.maintenance import copy_to_postgres
from cobblestone.store.maintenance.upgrade import upgrade
from cobblestone.store.people import users
from cobblestone.store.schema.project import PROJECT, declared_types


def silent(name: str, done: int, total: int) -> None:
    assert 0 <= done <= max(total, done)


def a_life(world: World) -> None:
    """Accounts, jobs, reports, credit, a job under way, odd texts."""
    world.add_jobs(world.add_app(quorum=2), n=3)
    for name in ("alice", "bob"):
        host = world.host(world.user(name), domain_name=f"{name}'s \\ computer\t日本")
        host.rpc(ask=1e6)
        first, second, third = sorted(host.new_results())
        host.rpc(reports=[host.finish(first, b"\0\1\2 same"), host.finish(second, os.urandom(100))])
        del third
    world.settle()
    world.write(lambda tx: users.add_news(tx, "nul \0 and \\N", "line\nline\ttab", now=1.5))
    world.write(lambda tx: tx.execute("DELETE FROM news WHERE id > 999"))
    last = world.write(lambda tx: users.add_news(tx, "gone", "", now=2.0))
    world.write(lambda tx: tx.execute("DELETE FROM news WHERE id = ?", (last,)))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    world = World(tmp_path / "project")
    a_life(world)
    world.close()
    return tmp_path / "project"


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_every_row_arrives_and_the_project_goes_on(project: Path, postgres: PostgresServer):
    before = digest(project / "project.sqlite")
    address = postgres.empty_database()
    moved = move_service(ProjectFolder(project), address, progress=silent)
    rows = {table.name: table.rows for table in moved.tables}
    assert set(rows) == {table for table, _ in declared_types()}
    assert rows["workunit"] == 3
    assert rows["credit_entry"] == 2
    assert [table.stripped for table in moved.tables if table.name == "news"] == [1]
    assert digest(project / "project.sqlite") == before
    assert load_settings(project).database.url == address
    with open_project(project) as ctx:
        assert ctx.store.read(recompute).differences == []
        assert ctx.store.read(users.list_news)[0].title == "nul  and \\N"
        assert ctx.store.write(lambda tx: users.add_news(tx, "next", "", now=3.0)) == 3, "ids go on"
        comments = "SELECT COUNT(*) FROM pg_description WHERE objoid = 'alembic_version'::regclass"
        assert ctx.store.read(lambda db: db.value(comments)) == 0, "it is no more said to be half full"


def test_an_interrupted_move_goes_on(project: Path, postgres: PostgresServer):
    address = postgres.empty_database()
    seen: list[str] = []

    def stumble(name: str, done: int, total: int) -> None:
        seen.append(name)
        if name == "user_account" and done == 0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        move_service(ProjectFolder(project), address, progress=stumble)
    assert "result" in seen
    assert load_settings(project).database.url == "", "not before everything is there"
    rows = {
        table.name: table.rows
        for table in move_service(ProjectFolder(project), address, progress=silent).tables
    }
    assert rows["result"] == 7
    with open_project(project) as ctx:
        assert ctx.store.read(lambda db: db.value("SELECT COUNT(*) FROM result")) == 7


def test_what_arrives_differently_is_noticed(
    project: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
):
    address = postgres.empty_database()
    stream = copy_to_postgres._stream

    def damaged(connection: Any, query: bytes) -> Iterator[tuple[Any, ...]]:
        for row in stream(connection, query):
            yield (*row[:-1], 7) if b"FROM host" in query else row

    monkeypatch.setattr(copy_to_postgres, "_stream", damaged)
    with pytest.raises(StoreError, match="copy of host differs"):
        move_service(ProjectFolder(project), address, progress=silent)
    assert postgres.execute("SELECT COUNT(*) FROM host", database=address.split("/")[3].split("?")[0]) == [
        (0,)
    ]


def test_a_running_project_is_not_moved(project: Path, postgres: PostgresServer):
    address = postgres.empty_database()
    with open_project(project), pytest.raises(Busy):
        move_service(ProjectFolder(project), address, progress=silent)


def refused(make: Callable[[], object], text: str) -> None:
    with pytest.raises((ConfigError, StoreError), match=text):
        make()


def test_only_an_empty_database_is_filled(project: Path, postgres: PostgresServer, tmp_path: Path):
    other = postgres.empty_database()
    upgrade(other, PROJECT)
    refused(lambda: move_service(ProjectFolder(project), other, progress=silent), "is already in use")
    strange = postgres.empty_database()
    postgres.execute("CREATE TABLE mine (id int)", database=strange.split("/")[3].split("?")[0])
    refused(
        lambda: move_service(ProjectFolder(project), strange, progress=silent),
        r"not empty: it has 1 tables \(mine\)",
    )
    refused(
        lambda: move_service(ProjectFolder(project), "mysql://x/y", progress=silent),
        "is not a PostgreSQL database",
    )
    half = postgres.empty_database()
    copy_to_postgres._prepare(tmp_path / "another.sqlite", half, PROJECT)
    refused(
        lambda: move_service(ProjectFolder(project), half, progress=silent),
        "being filled from .*another.sqlite",
    )


def test_a_moved_project_is_not_moved_again(project: Path, postgres: PostgresServer):
    move_service(ProjectFolder(project), postgres.empty_database(), progress=silent)
    refused(
        lambda: move_service(ProjectFolder(project), postgres.empty_database(), progress=silent),
        "on PostgreSQL already",
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            '[database]\n# comment\nurl = ""\n\n[log]\nurl = "no"\n',
            '[database]\n# comment\nurl = "postgresql://u@h/d"\n\n[log]\nurl = "no"\n',
        ),
        ('[log]\nlevel = "info"\n', '[log]\nlevel = "info"\n\n[database]\nurl = "postgresql://u@h/d"\n'),
        ("[database]\n[log]\n", '[database]\nurl = "postgresql://u@h/d"\n[log]\n'),
        ("", '\n\n[database]\nurl = "postgresql://u@h/d"\n'),
    ],
)
def test_only_the_address_changes_in_the_settings(before: str, after: str):
    assert with_database(before, "postgresql://u@h/d") == after


def test_settings_with_a_password_are_private(tmp_path: Path):
    assert settings_mode(tmp_path / "x", "postgresql://u:p@h/d") == 0o600
    assert settings_mode(tmp_path / "x", "postgresql://u@h/d") == 0o644


def command(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return run_here(*map(str, words), check=False)


def test_the_commands_as_a_user_meets_them(postgres: PostgresServer, tmp_path: Path):
    address = postgres.empty_database()
    made = command("project", "create", tmp_path / "sky", "--database", address, "--json")
    assert made.returncode == 0, made.stderr
    listed = command("app", "list", "--project", tmp_path / "sky", "--json")
    assert (listed.returncode, json.loads(listed.stdout)) == (0, [])
    again = command("project", "create", tmp_path / "sea", "--database", address)
    assert again.returncode != 0
    assert "is not empty" in again.stderr
    assert not (tmp_path / "sea").exists()
    nowhere = command("project", "create", tmp_path / "sea", "--database", address.replace("empty", "no"))
    assert "does not exist" in nowhere.stderr
    assert "createdb" in nowhere.stderr

    assert command("project", "create", tmp_path / "land").returncode == 0
    target = postgres.empty_database()
    moved = command("project", "move", tmp_path / "land", "--to", target)
    assert moved.returncode == 0, moved.stderr
    assert "they are the same" in moved.stdout
    assert load_settings(tmp_path / "land").database.url == target


def test_a_user_without_rights_is_told(postgres: PostgresServer, tmp_path: Path):
    address = postgres.empty_database()
    name = address.split("/")[3].split("?")[0]
    postgres.execute("CREATE USER guest", database=name)
    made = command(
        "project", "create", tmp_path / "sky", "--database", address.replace("cobblestone@", "guest@", 1)
    )
    assert made.returncode != 0
    assert "owner of the database" in made.stderr or "the database's owner" in made.stderr
