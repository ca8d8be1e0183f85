"""Bring a database to the current schema: Alembic steps, with a copy made first."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory

from cobblestone.domain.errors import StoreError

MIGRATIONS = Path(__file__).parent / "migrations"


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    return config


def head_revision() -> str:
    """The revision that this program needs."""
    head = ScriptDirectory.from_config(_config()).get_current_head()
    if head is None:  # a broken installation
        raise StoreError("This installation of cobblestone lacks its migrations. Install it again.")
    return head


def current_revision(path: Path) -> str | None:
    """The revision that a database file has; None for a new or empty file.

    Raises:
        StoreError: the file is not a database.
    """
    if not path.exists() or path.stat().st_size == 0:
        return None
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    try:
        row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    except sqlite3.OperationalError:
        return None
    except sqlite3.DatabaseError as error:
        raise StoreError(f"{path} is not a project database: {error}.") from error
    finally:
        connection.close()
    return None if row is None else str(row[0])


def check_revision(path: Path) -> None:
    """Refuse a database that this program cannot bring to its own revision.

    Raises:
        StoreError: it is not a database, or was made by a newer program.
    """
    current = current_revision(path)
    known = {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}
    if current is not None and current not in known:
        raise StoreError(
            f"{path} was made by a newer cobblestone (schema {current}). Install that version, or restore a backup."
        )


def upgrade(path: Path, *, now: float | None = None) -> Path | None:
    """Upgrade a database file to the head revision.

    Returns the copy that was made before an existing database was changed, or None.

    Raises:
        StoreError: the file is not a database, or was made by a newer program.
    """
    current = current_revision(path)
    scripts = ScriptDirectory.from_config(_config())
    if current == scripts.get_current_head():
        return None
    known = {script.revision for script in scripts.walk_revisions()}
    if current is not None and current not in known:
        raise StoreError(
            f"{path} was made by a newer cobblestone (schema {current}). Install that version, or restore a backup."
        )
    backup = None if current is None else _copy(path, current, time.time() if now is None else now)
    engine = sa.create_engine(f"sqlite:///{path}")
    config = _config()
    try:
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    finally:
        engine.dispose()
    return backup


def _copy(path: Path, revision: str, now: float) -> Path:
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now))
    target = path.with_name(f"{path.stem}-before-upgrade-{revision}-{stamp}{path.suffix}")
    source = sqlite3.connect(path)
    copy = sqlite3.connect(target)
    try:
        source.backup(copy)
    finally:
        copy.close()
        source.close()
    return target
