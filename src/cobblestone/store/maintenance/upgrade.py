"""Bring a database to the current schema, of whatever service it is.

The steps (Alembic) run on a copy, which takes the place of the database in one rename when all of them are done and the copy
is found sound.  So a step that fails, a full disk or a SIGKILL leaves the database as it was, and the old one stays beside
the new one as a backup.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw

from cobblestone.domain.errors import Busy, StoreError
from cobblestone.ops.durable_files import sync_file, sync_folder
from cobblestone.store.engine.select import is_postgres
from cobblestone.store.engine.sqlite import open_plain, open_reader
from cobblestone.store.maintenance.snapshot import copy_database, database_problems

if TYPE_CHECKING:
    import sqlalchemy as sa

UPGRADE_LOCK = 7_204_001  #: any number that nobody else uses in this database
ROOM_FACTOR = 1.2
"""Room that an upgrade needs, as a multiple of the database's size."""


_REVISION = re.compile(r"""^(revision|down_revision) = (?:["'](\w+)["']|None)$""", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The tables of one kind of database, as the steps that make them."""

    what: str  #: the kind in messages, such as ``project database``
    migrations: Path  #: folder with ``env.py`` and ``versions``

    def revisions(self) -> tuple[frozenset[str], str]:
        """Return all revisions that there are steps to, and the last one, which this program needs.

        Read from the steps' files: Alembic and SQLAlchemy, which take 26 MB, are loaded when there are steps to take.

        Raises:
            StoreError: the steps are missing.
        """
        before: dict[str, str | None] = {}
        for path in (self.migrations / "versions").glob("*.py"):
            text = path.read_text(encoding="utf-8")
            found = {name: value or None for name, value in _REVISION.findall(text)}
            if found.get("revision"):
                before[str(found["revision"])] = found.get("down_revision")
        heads = before.keys() - before.values()
        if len(heads) != 1:  # a broken installation
            raise StoreError("This installation of cobblestone lacks its migrations. Install it again.")
        return frozenset(before), heads.pop()

    @property
    def head(self) -> str:
        """The revision that this program needs."""
        return self.revisions()[1]


def current_revision(location: Path | str, schema: Schema) -> str | None:
    """Return the revision that a database has; None for a new or empty one.

    Raises:
        Busy: another process holds the file for longer than the time-out.
        StoreError: it cannot be reached, or the file is not a database.
    """
    if is_postgres(location):
        with _postgres_connection(str(location)) as connection:
            return _revision_in(connection)
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
        raise StoreError(f"{path} cannot be read: {error}.") from error
    finally:
        reader.close()
    return None if row is None else str(row[0])


def check_revision(location: Path | str, schema: Schema) -> None:
    """Refuse a database that this program cannot bring to its own revision.

    Raises:
        StoreError: it is not a database, or was made by a newer program.
    """
    current = current_revision(location, schema)
    if is_postgres(location):
        from cobblestone.store.engine.postgres import shown

        _needs_steps(current, shown(str(location)), schema)
    else:
        _needs_steps(current, str(location), schema)


def check_schema(revision: str, name: str, schema: Schema) -> None:
    """Refuse a revision that this program cannot bring to its own.

    Raises:
        StoreError: it was made by a newer program.
    """
    _needs_steps(revision or None, name, schema)


def upgrade(
    location: Path | str,
    schema: Schema,
    *,
    now: float | None = None,
    keep: Path | None = None,
) -> Path | None:
    """Upgrade a database to the head revision; hold the project's lock.

    Returns where the old SQLite file is kept, or None when there was none or nothing to do.  On PostgreSQL all steps are one
    transaction, only one process at a time takes them, and a dump of the old database goes into the folder ``keep``.

    Raises:
        StoreError: it cannot be reached, is not a database, was made by a newer program, or a step failed; then the database
            is as it was.
        Busy: another process reads the database at this moment.
    """
    if is_postgres(location):
        return _upgrade_postgres(str(location), schema, keep, time.time() if now is None else now)
    path = Path(location)
    working = path.with_name(f".{path.name}.upgrading")
    _remove(working)  # of an upgrade that was killed
    current = current_revision(path, schema)
    if not _needs_steps(current, str(path), schema):
        return None
    try:
        if path.exists() and path.stat().st_size > 0:
            _check_room(path)
            copy_database(path, working)
        _migrate(working, schema)
        problems = database_problems(working)
        if problems:
            raise StoreError(f"the upgraded copy is damaged: {problems[0]}")
        sync_file(working)
        backup = _swap(path, working, current, time.time() if now is None else now)
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
            _take_steps(connection, schema)
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
        backup = path.with_name(_name_of_backup(path.stem, revision, now) + path.suffix)
        try:
            os.link(path, backup)
        except OSError:  # a file system without hard links
            shutil.copyfile(path, backup)
            sync_file(backup)
    working.replace(path)
    sync_folder(path.parent)
    return backup


def _name_of_backup(stem: str, revision: str | None, now: float) -> str:
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now))
    return f"{stem}-before-upgrade-{revision or 'none'}-{stamp}"


def _needs_steps(current: str | None, name: str, schema: Schema) -> bool:
    known, head = schema.revisions()
    if current == head:
        return False
    if current is not None and current not in known:
        raise StoreError(
            f"{name} was made by a newer cobblestone (schema {current}). Install that version, or restore a backup."
        )
    return True


def _take_steps(connection: sa.Connection, schema: Schema) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(schema.migrations).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _fold_log(path: Path) -> None:
    """Write the log into the database and remove it: it would be taken for the new database's own.

    Raises:
        Busy: somebody has the database open.
    """
    connection = open_plain(path)
    try:
        connection.execute("PRAGMA journal_mode=DELETE")
    except apsw.Error as error:
        raise Busy(f"{path} is read by another process; end that one, then upgrade.") from error
    finally:
        connection.close()


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + suffix).unlink()


# -- PostgreSQL ----------------------------------------------------------------


def _upgrade_postgres(address: str, schema: Schema, keep: Path | None, now: float) -> Path | None:
    import sqlalchemy as sa

    from cobblestone.store.engine.postgres import shown

    with _postgres_connection(address) as connection:
        if not _needs_steps(_revision_in(connection), shown(address), schema):
            return None
        connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({UPGRADE_LOCK})"))
        current = _revision_in(connection)
        if not _needs_steps(current, shown(address), schema):  # another process did it meanwhile
            return None
        backup = None if keep is None or current is None else _dump_before(address, keep, current, now)
        try:
            _take_steps(connection, schema)
            connection.commit()
        except Exception as error:
            connection.rollback()
            raise _upgrade_error(shown(address), current, error) from error
        return backup


def _dump_before(address: str, folder: Path, current: str, now: float) -> Path:
    """Keep what the database holds; the upgrade does not begin without it."""
    from cobblestone.store.maintenance.postgres_dump import dump

    backup = folder / f"{_name_of_backup('project', current, now)}.dump"
    working = folder / f".{backup.name}"
    try:
        # Nobody else reads it, not even while it is written: it holds addresses and the hashes of passwords.
        working.touch(0o600)
        dump(address, working)
        sync_file(working)
        working.replace(backup)
        sync_folder(folder)
    except (StoreError, OSError) as error:
        raise StoreError(
            f"No upgrade without a backup: {error} Nothing was changed. (Or make one yourself, and set"
            " database.backup_before_upgrade = false.)"
        ) from error
    finally:
        working.unlink(missing_ok=True)
    return backup


def _upgrade_error(name: str, current: str | None, error: Exception) -> StoreError:
    from sqlalchemy.exc import DBAPIError, ProgrammingError

    from cobblestone.store.engine.postgres import first_line

    cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
    if current is None and isinstance(error, ProgrammingError):
        return StoreError(
            f"The tables of {name} cannot be made: {first_line(cause)}."
            " Make the database's owner the user that cobblestone connects as."
        )
    return StoreError(
        f"The upgrade of {name} from schema {current or 'none'} failed: {first_line(cause)}. Nothing was changed: the"
        " former version of cobblestone runs with it as before."
    )


@contextmanager
def _postgres_connection(address: str) -> Generator[sa.Connection]:
    import sqlalchemy as sa

    from cobblestone.store.engine.postgres import connect

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
    import sqlalchemy as sa

    if connection.scalar(sa.text("SELECT to_regclass('alembic_version')")) is None:
        return None
    revision = connection.scalar(sa.text("SELECT version_num FROM alembic_version"))
    return None if revision is None else str(revision)
