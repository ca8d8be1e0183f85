"""Copies of a database in use, and their verification."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import apsw

from cobblestone.domain.errors import ConfigError, StoreError
from cobblestone.store.engine.engine import Row
from cobblestone.store.engine.reading import is_postgres
from cobblestone.store.engine.sqlite import open_plain, open_reader

PAGES_PER_STEP = 2000
MAX_PROBLEMS = 20
#: The table of running processes, which no copy has.
OF_PROCESSES = "server_process"

#: Is told the part that is done, from 0 to 1.
Progress = Callable[[float], None]


def copy_database(source: Path, target: Path, *, progress: Progress | None = None) -> None:
    """Copy a database as a snapshot, while it is in use.  The copy has no log of its own.

    Raises:
        StoreError: it cannot be read, or the copy cannot be written.
    """
    try:
        with closing(open_reader(source)) as reader, closing(open_plain(target)) as writer:
            # An open read holds the snapshot: writes of others do not make the copy start again.
            reader.execute("BEGIN")
            reader.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
            with writer.backup("main", reader, "main") as backup:
                while not backup.done:
                    backup.step(PAGES_PER_STEP)
                    if progress is not None and backup.page_count:
                        progress(1 - backup.remaining / backup.page_count)
            reader.execute("ROLLBACK")
            writer.execute("PRAGMA journal_mode=DELETE")
    except apsw.Error as error:
        why = "the disk is full" if isinstance(error, apsw.FullError) else error  # it says "not an error"
        raise StoreError(f"{source} could not be copied to {target}: {why}.") from error


def database_problems(path: Path) -> list[str]:
    """Return the faults of a database file; an empty list if there are none."""
    try:
        with closing(open_reader(path)) as connection:
            found = [row[0] for row in connection.execute(f"PRAGMA integrity_check({MAX_PROBLEMS})")]
    except apsw.Error as error:
        return [str(error)]
    return [] if found == ["ok"] else found


def copy_rows(
    location: Path | str, target: Path, *, queries: Sequence[str] = (), progress: Progress | None = None
) -> list[list[Row]]:
    """Copy a SQLite database, or dump a PostgreSQL one; return the results of queries on the copy.

    Raises:
        StoreError: it cannot be read, or the copy cannot be written.
    """
    if is_postgres(location):
        from cobblestone.store.maintenance.postgres import dump

        return dump(str(location), target, queries=queries)
    copy_database(Path(location), target, progress=progress)
    _forget_processes(target)
    return read_rows(target, queries)


def _forget_processes(path: Path) -> None:
    """Delete the rows of running processes from a copy: where it is restored, they do not run."""
    try:
        with closing(open_plain(path)) as connection:
            tables = connection.execute("SELECT name FROM sqlite_master WHERE name = ?", (OF_PROCESSES,))
            if tables.fetchone():
                connection.execute(f"DELETE FROM {OF_PROCESSES}")
    except apsw.Error as error:
        raise StoreError(f"{path} could not be written: {error}.") from error


def check_dump(path: Path) -> None:
    """Read the contents of a dump of PostgreSQL.

    Raises:
        StoreError: it is none, or PostgreSQL's program for it is missing or too old.
    """
    from cobblestone.store.maintenance.postgres import check_archive

    check_archive(path)


def check_empty(address: str) -> None:
    """Refuse a database that already has tables.

    Raises:
        ConfigError: it has.
        StoreError: it cannot be reached.
    """
    from cobblestone.store.engine.postgres import opened, shown

    with opened(address) as connection:
        rows = connection.execute(
            "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace = current_schema()::regnamespace"
            " ORDER BY relname"
        ).fetchall()
    if rows:
        names = ", ".join(str(row[0]) for row in rows[:3])
        raise ConfigError(
            f"{shown(address)} is not empty: it has {len(rows)} tables ({names}{', …' if len(rows) > 3 else ''})."
            " Give an empty database; `createdb NAME` creates one."
        )


def fill_database(address: str, path: Path) -> None:
    """Fill an empty PostgreSQL database from a dump, atomically.

    Raises:
        ConfigError: the database is not empty.
        StoreError: it cannot be reached, the program is missing or too old, or the dump is damaged.
    """
    from cobblestone.store.maintenance.postgres import restore

    check_empty(address)
    restore(address, path)


def read_rows(location: Path | str, queries: Sequence[str]) -> list[list[Row]]:
    """Return the rows of each query, without a store.

    Raises:
        StoreError: it cannot be reached, or is damaged.
    """
    if is_postgres(location):
        from cobblestone.store.engine.postgres import opened

        with opened(str(location)) as connection:
            return [connection.execute(query.encode()).fetchall() for query in queries]
    try:
        # not a store's: that would leave its log beside a copy
        with closing(open_reader(Path(location))) as reader:
            return [reader.execute(query).fetchall() for query in queries]
    except apsw.Error as error:
        raise StoreError(f"{location} cannot be read: {error}.") from error
