"""Bring a database to the current schema: Alembic steps, with a copy made first."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy.exc import ProgrammingError

from cobblestone.domain.errors import StoreError
from cobblestone.store.engine import is_postgres

MIGRATIONS = Path(__file__).parent / "migrations"
UPGRADE_LOCK = 7_204_001  #: any number that nobody else uses in this database


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
        with _postgres_connection(str(location)) as connection:
            return _revision_in(connection)
    path = Path(location)
    if not path.exists() or path.stat().st_size == 0:
        return None
    reader = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    try:
        row = reader.execute("SELECT version_num FROM alembic_version").fetchone()
    except sqlite3.OperationalError:
        return None
    except sqlite3.DatabaseError as error:
        raise StoreError(f"{path} is not a project database: {error}.") from error
    finally:
        reader.close()
    return None if row is None else str(row[0])


def upgrade(location: Path | str, *, now: float | None = None) -> Path | None:
    """Upgrade a database to the head revision.

    Returns the copy that was made before an existing SQLite file was changed, or None.  On PostgreSQL all steps are one
    transaction, and only one process at a time takes them.

    Raises:
        StoreError: it cannot be reached, the file is not a database, or it was made by a newer program.
    """
    if is_postgres(location):
        _upgrade_postgres(str(location))
        return None
    path = Path(location)
    current = current_revision(path)
    if not _needs_steps(current, str(path)):
        return None
    backup = None if current is None else _copy(path, current, time.time() if now is None else now)
    engine = sa.create_engine(f"sqlite:///{path}")
    try:
        with engine.begin() as connection:
            _take_steps(connection)
    finally:
        engine.dispose()
    return backup


def _needs_steps(current: str | None, name: str) -> bool:
    scripts = ScriptDirectory.from_config(_config())
    if current == scripts.get_current_head():
        return False
    known = {script.revision for script in scripts.walk_revisions()}
    if current is not None and current not in known:
        raise StoreError(
            f"{name} was made by a newer cobblestone (schema {current}). Install that version, or restore a backup."
        )
    return True


def _take_steps(connection: sa.Connection) -> None:
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


# -- PostgreSQL ----------------------------------------------------------------


def _upgrade_postgres(address: str) -> None:
    from cobblestone.store.postgres import first_line, shown

    with _postgres_connection(address) as connection:
        if not _needs_steps(_revision_in(connection), shown(address)):
            return
        try:
            connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({UPGRADE_LOCK})"))
            if _needs_steps(_revision_in(connection), shown(address)):
                _take_steps(connection)
            connection.commit()
        except ProgrammingError as error:
            raise StoreError(
                f"The tables of {shown(address)} cannot be made: {first_line(error.orig or error)}."
                " Make the database's owner the user that cobblestone connects as."
            ) from error


@contextmanager
def _postgres_connection(address: str) -> Generator[sa.Connection]:
    from cobblestone.store.postgres import connect

    connect(address).close()  # its errors say what to do
    engine = sa.create_engine("postgresql+psycopg://", creator=lambda: _plain(address), poolclass=sa.NullPool)
    try:
        with engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()


def _plain(address: str) -> Any:  # a connection as SQLAlchemy wants it
    import psycopg

    return psycopg.connect(address)


def _revision_in(connection: sa.Connection) -> str | None:
    if connection.scalar(sa.text("SELECT to_regclass('alembic_version')")) is None:
        return None
    revision = connection.scalar(sa.text("SELECT version_num FROM alembic_version"))
    return None if revision is None else str(revision)


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
