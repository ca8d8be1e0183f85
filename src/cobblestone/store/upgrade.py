"""Bring a database to the current schema.

The steps (Alembic) run on a copy, which takes the place of the database in one rename when all of them are done and the copy
is found sound.  So a step that fails, a full disk or a SIGKILL leaves the database as it was, and the old one stays beside
the new one as a backup.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import time
from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory

from cobblestone.domain.errors import Busy, StoreError
from cobblestone.store.files import sync_file, sync_folder
from cobblestone.store.snapshot import copy_database, database_problems

MIGRATIONS = Path(__file__).parent / "migrations"
ROOM_FACTOR = 1.2
"""Room that an upgrade needs, as a multiple of the database's size."""


def _config(migrations: Path = MIGRATIONS) -> Config:
    config = Config()
    config.set_main_option("script_location", str(migrations).replace("%", "%%"))
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


def check_revision(path: Path, *, migrations: Path = MIGRATIONS) -> None:
    """Refuse a database that this program cannot bring to its own revision.

    Raises:
        StoreError: it is not a database, or was made by a newer program.
    """
    current = current_revision(path)
    known = {script.revision for script in ScriptDirectory.from_config(_config(migrations)).walk_revisions()}
    if current is not None and current not in known:
        raise StoreError(
            f"{path} was made by a newer cobblestone (schema {current}). Install that version, or restore a backup."
        )


def upgrade(path: Path, *, now: float | None = None, migrations: Path = MIGRATIONS) -> Path | None:
    """Upgrade a database file to the head revision; hold the project's lock.

    Returns where the old database is kept, or None when there was none or nothing to do.

    Raises:
        StoreError: the file is not a database, was made by a newer program, or a step failed; the database is as it was.
        Busy: another process reads the database at this moment.
    """
    working = path.with_name(f".{path.name}.upgrading")
    _remove(working)  # of an upgrade that was killed
    current = current_revision(path)
    head = ScriptDirectory.from_config(_config(migrations)).get_current_head()
    if current == head:
        return None
    check_revision(path, migrations=migrations)
    try:
        if path.exists() and path.stat().st_size > 0:
            _check_room(path)
            copy_database(path, working)
        _migrate(working, migrations)
        problems = database_problems(working)
        if problems:
            raise StoreError(f"the upgraded copy is damaged: {problems[0]}")
        sync_file(working)
        backup = _swap(path, working, current, time.time() if now is None else now)
    except Busy:
        raise
    except Exception as error:
        raise StoreError(
            f"The upgrade of {path} from schema {current or 'none'} to {head} failed: {error}. Nothing was changed: the"
            " former version of cobblestone runs with it as before."
        ) from error
    finally:
        _remove(working)
    return backup


def _migrate(path: Path, migrations: Path) -> None:
    engine = sa.create_engine(f"sqlite:///{path}")
    config = _config(migrations)
    try:
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    finally:
        engine.dispose()


def _check_room(path: Path) -> None:
    needed, free = int(path.stat().st_size * ROOM_FACTOR), shutil.disk_usage(path.parent).free
    if free < needed:
        raise StoreError(f"it needs {needed // 10**6 + 1} MB of free disk, and there are {free // 10**6} MB")


def _swap(path: Path, working: Path, revision: str | None, now: float) -> Path | None:
    """Put the upgraded database in the old one's place, and keep the old one."""
    backup = None
    if path.exists() and path.stat().st_size > 0:
        _fold_log(path)
        stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now))
        backup = path.with_name(f"{path.stem}-before-upgrade-{revision or 'none'}-{stamp}{path.suffix}")
        try:
            os.link(path, backup)
        except OSError:  # a file system without hard links
            shutil.copyfile(path, backup)
            sync_file(backup)
    working.replace(path)
    sync_folder(path.parent)
    return backup


def _fold_log(path: Path) -> None:
    """Write the log into the database and remove it: it would be taken for the new database's own.

    Raises:
        Busy: somebody has the database open.
    """
    connection = sqlite3.connect(path, isolation_level=None, timeout=5)
    try:
        connection.execute("PRAGMA journal_mode=DELETE")
    except sqlite3.OperationalError as error:
        raise Busy(f"{path} is read by another process; end that one, then upgrade.") from error
    finally:
        connection.close()


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + suffix).unlink()
