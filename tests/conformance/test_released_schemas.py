"""What was kept of each released schema becomes a project or account manager of today, and nothing of it is lost."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import psycopg
import pytest
from tests.conformance.conftest import DATABASES
from tests.conformance.test_migrations import postgres_structure, structure
from tests.helpers.kept_project import RELEASED, load_postgres, load_sqlite
from tests.helpers.manager_world import START as MANAGER_START
from tests.helpers.postgres_server import PostgresServer
from tests.helpers.project_world import START, empty_database
from tests.helpers.released import MAKERS, revision

from cobblestone.account_manager.core.folder import ManagerFolder, create_manager
from cobblestone.account_manager.run import open_manager
from cobblestone.account_manager.store import ledger as manager_ledger
from cobblestone.account_manager.store.schema import MANAGER
from cobblestone.account_manager.upkeep import CHECKS as MANAGER_CHECKS
from cobblestone.account_manager.upkeep import Opened
from cobblestone.ops.files import write_private
from cobblestone.ops.settings import settings_template
from cobblestone.server.core.project import ProjectFolder
from cobblestone.server.credit.ledger_audit import recompute
from cobblestone.server.operation.doctor import CHECKS, diagnose
from cobblestone.server.run import open_project
from cobblestone.service.settings import NewService
from cobblestone.store.engine.database import Database, Store
from cobblestone.store.engine.process_group import Program
from cobblestone.store.maintenance.upgrade import current_revision, upgrade
from cobblestone.store.schema.project import PROJECT, declared_types

VERSIONS = sorted(path.name for path in RELEASED.iterdir())
#: Only the database was kept: no files and no running server, and the server of the tests does not flush.
NOT_KEPT = {
    "durable",
    "keys",
    "input_files",
    "file_contents",
    "output_files",
    "export",
    "daemons",
    "disk",
    "liars",
}

Columns = Mapping[str, Sequence[str]]


def loaded(version: str, kind: str, folder: ProjectFolder, request: pytest.FixtureRequest) -> Path | str:
    text = (RELEASED / version / f"{kind}.sql").read_text()
    if kind == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        address = server.empty_database()
        load_postgres(text, address)
        return address
    load_sqlite(text, folder.database)
    return folder.database


@pytest.fixture(params=[(version, kind) for version in VERSIONS for kind in DATABASES], ids=" ".join)
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[ProjectFolder, Path | str]:
    """A project's folder with its database, as that version left it."""
    folder = ProjectFolder(tmp_path / "project")
    folder.root.mkdir()
    folder.make()
    version, kind = request.param
    location = loaded(version, kind, folder, request)
    url = "" if isinstance(location, Path) else location
    settings = settings_template(project={"url": "http://127.0.0.1:8080/"}, database={"url": url})
    (folder.root / "cobblestone.toml").write_text(settings)
    write_private(folder.secret_file, os.urandom(32))
    return folder, location


def content(location: Path | str, columns: Columns) -> dict[str, list[str]]:
    """The rows of tables, by column."""

    def read(db: Database) -> dict[str, list[str]]:
        return {
            table: sorted(map(repr, db.query(f"SELECT {', '.join(names)} FROM {table}")))
            for table, names in columns.items()
        }

    store = Store(location, readers=1)
    try:
        return store.read(read)
    finally:
        store.close()


def columns_that_stayed(location: Path | str) -> Columns:
    """Of each table that there is still the columns that it had and has."""
    has = declared_types()
    store = Store(location, readers=1)
    try:
        had: dict[str, Sequence[str]] = {}
        for table, _ in has:
            with contextlib.suppress(psycopg.errors.UndefinedTable):  # SQLite says that it has no columns
                had[table] = store.read(lambda db, table=table: db.columns(table))
    finally:
        store.close()
    return {table: [name for name in names if (table, name) in has] for table, names in had.items() if names}


def test_a_kept_project_is_upgraded_and_has_all_its_rows(
    kept: tuple[ProjectFolder, Path | str], request: pytest.FixtureRequest, tmp_path: Path
):
    _, location = kept
    columns = columns_that_stayed(location)
    before = content(location, columns)
    assert all(before.values()), "a row in each table"
    program = Program("today", "alpha", 1, "today", PROJECT.head)
    upgrade(location, PROJECT, program=program)
    assert current_revision(location, PROJECT) == PROJECT.head
    assert content(location, columns) == before
    if isinstance(location, Path):
        (fresh := tmp_path / "fresh.sqlite").write_bytes(empty_database())
        assert structure(location) == structure(fresh)
    else:
        address = request.getfixturevalue("postgres").empty_database()
        upgrade(address, PROJECT, program=program)
        assert postgres_structure(location) == postgres_structure(address)


def test_a_kept_project_is_sound_and_its_ledger_gives_the_same_sums(kept: tuple[ProjectFolder, Path | str]):
    folder, _ = kept
    with open_project(folder.root, clock=lambda: START + 60 * 86400.0) as ctx:
        found = {
            name: asyncio.run(diagnose(ctx, check)).findings
            for name, check in CHECKS.items()
            if name not in NOT_KEPT
        }
        audit = ctx.store.read(recompute)
    assert {name: findings for name, findings in found.items() if findings} == {}
    assert (audit.agrees, audit.corrections) == (True, 1)
    assert audit.entries > audit.grants > 5


def test_of_every_schema_that_programs_leave_behind_something_is_kept():
    """Whoever adds a migration changes the version, and then keeps what that leaves: python -m tests.helpers.released."""
    for schema, file in ((PROJECT, "sqlite.sql"), (MANAGER, "manager.sql")):
        kept = {revision((RELEASED / version / file).read_text()) for version in VERSIONS}
        assert schema.head in kept, f"run: python -m tests.helpers.released  ({schema.what} {schema.head})"
    for version in VERSIONS:
        assert {*MAKERS, "postgresql.sql"} <= {path.name for path in (RELEASED / version).iterdir()}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_kept_account_manager_is_upgraded_and_sound(version: str, tmp_path: Path):
    create_manager(tmp_path / "manager", NewService(name="Kept", port=8180))
    folder = ManagerFolder(tmp_path / "manager")
    folder.database.unlink()
    load_sqlite((RELEASED / version / "manager.sql").read_text(), folder.database)
    upgrade(folder.database, MANAGER)
    assert current_revision(folder.database, MANAGER) == MANAGER.head
    with open_manager(folder.root, clock=lambda: MANAGER_START + 86400.0) as ctx:
        opened = Opened(ctx.folder, ctx.store)
        found = {
            name: ctx.store.read(lambda db, check=check: check.look(opened, db)).findings
            for name, check in MANAGER_CHECKS.items()
            if name not in {"keys", "signatures", "disk", "daemons"}
        }
        sums = [
            ctx.store.read(lambda db, ask=ask: ask(db, "all").credit)
            for ask in (manager_ledger.sum_of, manager_ledger.replayed)
        ]
    assert {name: findings for name, findings in found.items() if findings} == {}
    assert sums[0] == sums[1] > 0
