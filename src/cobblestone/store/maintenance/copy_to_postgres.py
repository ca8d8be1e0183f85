"""Copy a SQLite database into an empty PostgreSQL one.

Each table is one transaction: after an interruption the next call goes on with the first table that is not there yet.  What was
copied is read back and compared.  The SQLite file is only read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cobblestone.domain.errors import ConfigError, StoreError
from cobblestone.store.engine.engine import Row
from cobblestone.store.engine.reading import is_postgres
from cobblestone.store.engine.sqlite import open_reader
from cobblestone.store.maintenance.snapshot import check_empty
from cobblestone.store.maintenance.steps import Schema
from cobblestone.store.maintenance.upgrade import current_revision, needs_steps, upgrade

if TYPE_CHECKING:
    from psycopg import Connection

PAGE = 2000
#: Begins the comment on the table `alembic_version` of a database that is being filled; gone when it is complete.
MARK = "being filled from "

#: Receives a table's name, how many of its rows are through, and how many there are.
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedTable:
    """A table that was copied and compared."""

    name: str
    rows: int
    checksum: str  #: over all rows, in any order
    stripped: int  #: rows with NUL characters in texts, which PostgreSQL cannot hold: they are left out


def move(source: Path, address: str, schema: Schema, *, progress: Progress) -> list[MovedTable]:
    """Copy all rows of a schema's tables; return the copied tables, in order.  The source must not be written meanwhile.

    Raises:
        ConfigError: the target is no address of PostgreSQL, or holds something else.
        StoreError: the target cannot be reached or written, or what arrived differs from what was sent.
    """
    if not is_postgres(address):
        raise ConfigError(f"{address} is not a PostgreSQL database. Write postgresql://USER@HOST/DATABASE")
    _check_source(source, schema)
    _prepare(source, address, schema)
    with closing(open_reader(source)) as reader:
        moved = [_move_table(reader, address, *table, progress) for table in _tables(reader).items()]
    _finish(address)
    return moved


def _check_source(source: Path, schema: Schema) -> None:
    revision, head = current_revision(source, schema), schema.head
    if revision is None:
        raise StoreError(f"{source} is no {schema.what}.")
    if needs_steps(revision, str(source), schema):
        raise StoreError(
            f"{source} has schema {revision}, this program {head}. Start once with this version, which upgrades it, and stop"
            " again."
        )


def _prepare(source: Path, address: str, schema: Schema) -> None:
    """Create the tables, or recognise those of an earlier, interrupted call."""
    from cobblestone.store.engine.postgres import opened, shown

    mark = MARK + str(source.resolve())
    if current_revision(address, schema) is None:
        check_empty(address)
        upgrade(address, schema)
        with opened(address) as connection:
            _set_mark(connection, mark)
        return
    with opened(address) as connection:
        (found,) = connection.execute(
            "SELECT obj_description('alembic_version'::regclass, 'pg_class')"
        ).fetchall()[0]
    if found is None:
        raise ConfigError(f"{shown(address)} is already in use. Give an empty database.")
    if found != mark:
        raise ConfigError(f"{shown(address)} is {found}. Finish that one, or give an empty database.")


def _set_mark(connection: Connection[Row], mark: str | None) -> None:
    from psycopg import sql

    connection.execute(sql.SQL("COMMENT ON TABLE alembic_version IS {}").format(mark))


def _tables(reader: Any) -> dict[str, list[str]]:
    """Return the tables of the source and their columns, each after those that it refers to."""
    names = [
        row[0]
        for row in reader.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite|_%' ESCAPE '|'"
            " AND name <> 'alembic_version' ORDER BY name"
        )
    ]
    needs = {
        name: {row[0] for row in reader.execute('SELECT "table" FROM pragma_foreign_key_list(?)', (name,))}
        - {name}
        for name in names
    }
    return {
        name: [row[0] for row in reader.execute("SELECT name FROM pragma_table_info(?)", (name,))]
        for name in TopologicalSorter(needs).static_order()
    }


def _move_table(
    reader: Any, address: str, table: str, columns: Sequence[str], progress: Progress
) -> MovedTable:
    from cobblestone.store.engine.postgres import opened

    names = ", ".join(f'"{name}"' for name in columns)
    total = int(reader.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0])
    progress(table, 0, total)
    source = _Rows(reader.execute(f"SELECT {names} FROM {table}"))
    with opened(address) as connection:
        query = f"SELECT {names} FROM {table}".encode()
        there = connection.execute(query.replace(names.encode(), b"COUNT(*)", 1), binary=True).fetchone()
        if there is not None and int(there[0]) not in (0, total):
            text = f"{table} has {there[0]} rows, but {total} are expected. Give an empty database."
            raise StoreError(text)
        fresh = there is None or int(there[0]) == 0
        with connection.transaction(), connection.cursor() as cursor:
            if fresh:
                with cursor.copy(f"COPY {table} ({names}) FROM STDIN".encode()) as copy:
                    for row in source:
                        copy.write_row(row)
                        if source.rows % PAGE == 0:
                            progress(table, source.rows, 2 * total)
            else:
                for _ in source:
                    pass
            target = _Rows(_stream(connection, query))
            for _ in target:
                if target.rows % PAGE == 0:
                    progress(table, total + target.rows, 2 * total)
            if (target.rows, target.checksum()) != (source.rows, source.checksum()):
                raise StoreError(
                    f"The copy of {table} differs from the original ({target.rows} of {source.rows} rows arrived)."
                    " Nothing of this table was kept; try again."
                )
            if "id" in columns:
                _set_sequence(reader, connection, table)
    progress(table, 2 * total, 2 * total)
    return MovedTable(name=table, rows=source.rows, checksum=source.checksum(), stripped=source.stripped)


class _Rows:
    """Passes rows on, counting them and computing a checksum independent of their order."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._iterator = iter(rows)
        self._sum = 0
        self.rows = 0
        self.stripped = 0

    def __iter__(self) -> Iterator[Row]:
        for row in self._iterator:
            if any(isinstance(item, str) and "\0" in item for item in row):
                self.stripped += 1
                row = tuple(item.replace("\0", "") if isinstance(item, str) else item for item in row)  # noqa: PLW2901  # the row as PostgreSQL takes it
            self.rows += 1
            digest = hashlib.blake2b(repr(row).encode("utf-8", "surrogatepass"), digest_size=16).digest()
            self._sum = (self._sum + int.from_bytes(digest)) % 2**128
            yield row

    def checksum(self) -> str:
        """Return the checksum of the rows so far."""
        return f"{self._sum:032x}"


def _stream(connection: Connection[Row], query: bytes) -> Iterator[Row]:
    """Yield rows of a query, a page at a time in memory."""
    with connection.cursor("readback", binary=True) as cursor:
        cursor.itersize = PAGE
        cursor.execute(query)
        for row in cursor:
            yield tuple(row)


def _set_sequence(reader: Any, connection: Connection[Row], table: str) -> None:
    """Make new ids start after all used ones."""
    row = reader.execute("SELECT seq FROM sqlite_sequence WHERE name = ?", (table,)).fetchone()
    last = int(row[0]) if row else 0
    connection.execute(
        "SELECT setval(pg_get_serial_sequence(%s, 'id'), GREATEST(%s::int8, 1), %s::int8 > 0)",
        (table, last, last),
    )


def _finish(address: str) -> None:
    from cobblestone.store.engine.postgres import opened

    with opened(address) as connection:
        _set_mark(connection, None)
        connection.execute("ANALYZE")
