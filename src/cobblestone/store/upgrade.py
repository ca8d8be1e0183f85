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
from cobblestone.store.engine import is_postgres

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


def current_revision(location: Path | str) -> str | None:
    """The revision that a database has; None for a new or empty one.

    Raises:
        StoreError: it cannot be reached, or the file is not a database.
    """
    if is_postgres(location):
        from cobblestone.store.postgres_upgrade import postgres_revision

        return postgres_revision(str(location))
    path = Path(location)
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


def upgrade(location: Path | str, *, now: float | None = None) -> Path | None:
    """Upgrade a database to the head revision.

    Returns the copy that was made before an existing file was changed, or None.

    Raises:
        StoreError: it cannot be reached, the file is not a database, or it was made by a newer program.
    """
    if is_postgres(location):
        from cobblestone.store.postgres_upgrade import upgrade_postgres

        upgrade_postgres(str(location), _config())
        return None
    path = Path(location)
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
