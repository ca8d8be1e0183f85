"""A service with a schema of its own is backed up and restored by what projects use."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.conformance.conftest import DATABASES
from tests.conformance.test_other_schema import FIRST, SECOND, VISITS, Visit, statistics_site
from tests.helpers.postgres_server import PostgresServer

from cobblestone.domain.errors import ConfigError, StoreError
from cobblestone.service.backup import Contents, NeededFiles, make_backup, restore_backup, verify_backup
from cobblestone.service.folder import Kind
from cobblestone.store.engine.database import Store
from cobblestone.store.maintenance.steps import Schema
from cobblestone.store.maintenance.upgrade import upgrade


@pytest.fixture(params=DATABASES)
def addresses(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Addresses of two empty PostgreSQL databases, or empty texts for SQLite files in the folder."""
    if request.param == "sqlite":
        return "", ""
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.empty_database(), server.empty_database()


def kind_of(schema: Schema, address: str) -> Kind:
    """A kind of service with ``schema``, whose restored settings name ``address``."""
    return Kind(
        what="site", settings="site.toml", address=lambda root: address, schema=schema, database="site.sqlite"
    )


@pytest.fixture
def site(tmp_path: Path, addresses: tuple[str, str]) -> Contents:
    """A site with a row, the picture that the row names, one that no row names, and a secret."""
    root = tmp_path / "site"
    for folder in ("pictures", "keys"):
        (root / folder).mkdir(parents=True)
    schema = statistics_site(tmp_path / "steps", FIRST)
    (root / "site.toml").touch()
    contents = Contents(
        kind=kind_of(schema, addresses[1]),
        root=root,
        name="Sums",
        url="http://sums.example.org/",
        address=addresses[0],
        needed=(NeededFiles(query="SELECT page FROM visit", place=lambda name: root / "pictures" / name),),
        left_out=(root / "pictures",),
    )
    upgrade(contents.location, schema)
    store = Store(contents.location, readers=1)
    insert = VISITS.writer(without=("id",)).insert("visit")
    store.write(lambda tx: tx.insert(insert, ("curve.png", 1.5, None)))
    store.close()
    (root / "pictures" / "curve.png").write_bytes(b"a curve")
    (root / "pictures" / "stray.png").write_bytes(b"nobody's")
    (root / "keys" / "secret").write_bytes(b"hush")
    return contents


@pytest.mark.parametrize("name", ["copy", "copy.tar.gz"])
def test_a_backup_has_the_rows_and_the_files_that_they_name(
    site: Contents, tmp_path: Path, addresses: tuple[str, str], name: str
):
    made = make_backup(site, tmp_path / name)
    assert verify_backup(tmp_path / name, site.kind) == made
    assert made.schema == "a1"
    target = tmp_path / "again"
    restore_backup(tmp_path / name, target, site.kind)
    found = sorted(path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_file())
    rows = [] if addresses[1] else ["site.sqlite"]
    assert found == ["keys/secret", "pictures/curve.png", *rows, "site.toml"]
    store = Store(addresses[1] or target / "site.sqlite", readers=1)
    (row,) = store.read(lambda db: db.query(f"SELECT {VISITS.columns} FROM visit"))
    store.close()
    assert VISITS.load(row) == Visit(id=1, page="curve.png", seconds=1.5)


def test_a_restore_that_fails_leaves_nothing(site: Contents, tmp_path: Path):
    make_backup(site, tmp_path / "copy")

    def refuse(root: Path) -> str:
        raise ConfigError("not here")

    with pytest.raises(ConfigError, match="not here"):
        restore_backup(tmp_path / "copy", tmp_path / "again", replace(site.kind, address=refuse))
    assert not (tmp_path / "again").exists()
    assert list(tmp_path.glob(".restore-*")) == []


def test_a_backup_of_a_newer_schema_is_refused(site: Contents, tmp_path: Path):
    schema = statistics_site(tmp_path / "newer", FIRST, SECOND)
    upgrade(site.location, schema)
    make_backup(
        replace(site, kind=replace(site.kind, schema=schema), needed=(), left_out=()), tmp_path / "copy"
    )
    with pytest.raises(StoreError, match="newer cobblestone"):
        verify_backup(tmp_path / "copy", site.kind)
