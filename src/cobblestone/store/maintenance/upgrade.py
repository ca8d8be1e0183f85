"""Upgrade of a database to the current schema, for any service.

The steps (Alembic) run on a copy, which takes the place of the database in one rename when all of them are done and the copy
is found sound.  So a step that fails, a full disk or a SIGKILL leaves the database as it was, and the old one stays beside
the new one as a backup.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import apsw

from cobblestone.domain.errors import Busy, StoreError
from cobblestone.ops.files import sync_file, sync_folder
from cobblestone.store.engine.process_group import Program
from cobblestone.store.engine.reading import is_postgres
from cobblestone.store.engine.sqlite import make_private, open_plain, open_reader
from cobblestone.store.maintenance.snapshot import copy_database, database_problems
from cobblestone.store.maintenance.steps import Schema, UpgradePlan, name_of_backup, take_steps

#: Room that an upgrade needs, as a multiple of the database's size.
ROOM_FACTOR = 1.2


def current_revision(location: Path | str, schema: Schema) -> str | None:
    """Return the revision that a database has; None for a new or empty one.

    Raises:
        Busy: another process holds the file for longer than the time-out.
        StoreError: it cannot be reached, or the file is not a database.
    """
    if is_postgres(location):
        from cobblestone.store.engine.postgres import opened
        from cobblestone.store.maintenance.postgres import postgres_revision

        with opened(str(location)) as connection:
            return postgres_revision(connection)
    path = Path(location)
    if not path.exists() or path.stat().st_size == 0:
        return None
    reader = open_reader(path)
    try:
        row = reader.execute("SELECT version_num FROM alembic_version").fetchone()
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise StoreError(f"{path} is not a {schema.what}: {error}.") from error
    except apsw.SQLError:  # it has no such table
        return None
    except (apsw.BusyError, apsw.LockedError) as error:
        raise Busy(f"{path} is in use by another process.") from error
    except apsw.Error as error:
        # what SQLite says of it is "disk I/O error"
        full = "" if shutil.disk_usage(path.parent).free else " The disk is full."
        raise StoreError(f"{path} cannot be read: {error}.{full}") from error
    finally:
        reader.close()
    return None if row is None else str(row[0])


def check_revision(location: Path | str, schema: Schema, *, replaces: tuple[str, int] | None = None) -> None:
    """Refuse a database that this program cannot use.

    ``replaces``: machine and process id of a running program whose place this one takes, which upgrades the database.

    Raises:
        Busy: it can as soon as older programs have ended.
        StoreError: it is not a database, was made by a newer program or one from before the first schema, or there is no room
            for the upgrade.
    """
    if is_postgres(location):
        from cobblestone.store.engine.postgres import shown

        upgrade_plan(location, schema, replaces=replaces)[0].refuse(shown(str(location)))
    elif needs_steps(current_revision(location, schema), str(location), schema) and replaces is not None:
        _check_room(Path(location))


def upgrade_plan(
    location: Path | str, schema: Schema, *, replaces: tuple[str, int] | None = None
) -> tuple[UpgradePlan, Sequence[Program]]:
    """Return what `upgrade` would do now, and the running programs (on PostgreSQL; otherwise at most one).

    Raises:
        StoreError: as `check_revision`.
    """
    if is_postgres(location):
        from cobblestone.store.maintenance.postgres import plan_of_postgres

        return plan_of_postgres(str(location), schema, replaces=replaces)
    current = current_revision(location, schema)
    needs_steps(current, str(location), schema)
    return schema.plan(current), ()


def upgrade(
    location: Path | str,
    schema: Schema,
    *,
    program: Program | None = None,
    now: float | None = None,
    keep: Path | None = None,
) -> Path | None:
    """Upgrade a database as far as its running programs allow; the project's lock must be held.

    Returns where the old database is kept, or None when there was none or nothing to do.  On SQLite no other program runs, and
    all steps are taken.  On PostgreSQL the steps are one transaction, only one process at a time takes them, a dump of the old
    database goes into the folder ``keep``, and ``program``, this one, is known to later upgrades from here on.

    Raises:
        StoreError: it cannot be reached, is not a database, was made by a newer program or one from before the first schema,
            or a step failed; then the database is as it was.
        Busy: another process reads the file at this moment, or programs run that cannot work with what this one needs.
    """
    now = time.time() if now is None else now
    if is_postgres(location):
        from cobblestone.store.maintenance.postgres import upgrade_postgres

        return upgrade_postgres(str(location), schema, program=program, keep=keep, now=now)
    path = Path(location)
    working = path.with_name(f".{path.name}.upgrading")
    _remove(working)  # of an upgrade that was killed
    current = current_revision(path, schema)
    if not needs_steps(current, str(path), schema):
        return None
    if current is not None:
        _check_room(path)
    try:
        if path.exists() and path.stat().st_size > 0:
            make_private(working, owner_of=path)
            copy_database(path, working)
        _migrate(working, schema)
        if problems := database_problems(working):
            raise StoreError(f"the upgraded copy is damaged: {problems[0]}")
        sync_file(working)
        backup = _swap(path, working, current, now)
    except Busy:
        raise
    except Exception as error:
        raise StoreError(
            f"The upgrade of {path} from schema {current or 'none'} failed: {error}. Nothing was changed: the"
            " former version of cobblestone runs with it as before."
        ) from error
    finally:
        _remove(working)
    return backup


def _migrate(path: Path, schema: Schema) -> None:
    import sqlalchemy as sa

    engine = sa.create_engine(f"sqlite:///{path}")
    try:
        with engine.begin() as connection:
            take_steps(connection, schema, schema.head)
    finally:
        engine.dispose()


def _check_room(path: Path) -> None:
    needed, free = int(path.stat().st_size * ROOM_FACTOR), shutil.disk_usage(path.parent).free
    if free < needed:
        text = f"The upgrade of {path} needs {needed // 10**6 + 1} MB of free disk, and there are {free // 10**6} MB."
        raise StoreError(f"{text} Nothing was changed.")


def _swap(path: Path, working: Path, revision: str | None, now: float) -> Path | None:
    """Replace the old database with the upgraded one, and keep the old one."""
    backup = None
    if path.exists() and path.stat().st_size > 0:
        _fold_log(path)
        backup = path.with_name(name_of_backup(path.stem, revision, now) + path.suffix)
        try:
            os.link(path, backup)
        except OSError:  # a file system without hard links
            make_private(backup, owner_of=path)
            shutil.copyfile(path, backup)
            sync_file(backup)
    working.replace(path)
    sync_folder(path.parent)
    return backup


def needs_steps(current: str | None, name: str, schema: Schema) -> bool:
    """Return whether a database of this revision lacks steps.

    Raises:
        StoreError: it was made by a newer program, or one from before the first schema.
    """
    if current is not None and current not in schema.known():
        raise schema.unknown(name, current)
    return current != schema.head


def _fold_log(path: Path) -> None:
    """Write the log into the database and remove it: it would be taken for the new database's log.

    Raises:
        Busy: another process has the database open.
    """
    with contextlib.closing(open_plain(path)) as connection:
        try:
            connection.execute("PRAGMA journal_mode=DELETE")
        except apsw.Error as error:
            raise Busy(f"{path} is read by another process; end that one, then upgrade.") from error


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + suffix).unlink()
