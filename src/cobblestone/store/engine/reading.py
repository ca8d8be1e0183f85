"""The engine for the location of a database, and queries to it.

Questions to a database, as the verbs ask them.

A database on another machine is a round trip away, and a request asks some ten questions, of which only few depend on the
answers to others: those travel together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import structlog

from cobblestone.domain.errors import ConfigError, NotFound, UnreadableRow
from cobblestone.domain.reasons import Reason
from cobblestone.ops.installation import how_to_install
from cobblestone.store.engine.engine import Connection, Engine, Parameters, Row
from cobblestone.store.engine.mapping import RowMapper

T = TypeVar("T")
log = structlog.get_logger(__name__)

MOST_NOTED = 10_000
#: Rows of a long query that are in memory at once.
PAGE = 2000
#: Rows of a table that one statement goes over: PostgreSQL gives up those of our readers that take longer than seconds.
PART = 20_000
_FIRST, _LAST = -(2**63), 2**63 - 1
POSTGRES_PREFIXES = ("postgresql://", "postgres://")


def is_postgres(location: Path | str) -> bool:
    """Return whether a location is the address of a PostgreSQL database, not a SQLite file."""
    return isinstance(location, str) and location.startswith(POSTGRES_PREFIXES)


def engine_for(location: Path | str) -> Engine:
    """Return the engine for a SQLite file, or for an address that begins with ``postgresql://``.

    Raises:
        ConfigError: PostgreSQL's driver is not installed.
    """
    if not is_postgres(location):
        from cobblestone.store.engine.sqlite import SqliteEngine

        return SqliteEngine(Path(location))
    try:
        from cobblestone.store.engine.postgres_engine import PostgresEngine
    except ModuleNotFoundError as error:
        text = f"PostgreSQL's driver is not installed. Install it with: {how_to_install('postgres')}"
        raise ConfigError(text) from error
    return PostgresEngine(str(location))


class Database:
    """Runs SQL with ``?`` placeholders and returns rows as tuples."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.n_looked_at = 0  #: rows that long queries have gone over so far
        self.n_to_look_at = 0  #: about as many they will be; 0: unknown
        self.leaves_out = True  #: rows that cannot be read; else they are errors

    def query(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        """Return all rows of a query."""
        return self._connection.execute(sql, parameters).fetchall()

    def stream(self, sql: str, parameters: Parameters = (), *, after: Parameters = (0,)) -> Iterator[Row]:
        """Yield all rows of a query, a page at a time in memory.

        It ends with ``KEY > (?) ORDER BY KEY``, and the key is the last of its columns; ``after``: where it begins.
        """
        while rows := self.query(f"{sql} LIMIT {PAGE}", (*parameters, *after)):
            yield from rows
            self.n_looked_at += len(rows)
            after = rows[-1][-len(after) :]

    def will_look_at(self, *tables: str) -> None:
        """Note which tables long queries will go over, each as often as they do, for `n_to_look_at`."""
        self.n_to_look_at = sum(map(self._connection.about_rows, tables))

    def in_parts(self, sql: str, table: str, key: str = "id") -> Iterator[Row]:
        """Yield the rows of a query about a part of a table, ``KEY > ? AND KEY <= ?``, for one part after the other."""
        end = f"SELECT {key} FROM {table} WHERE {key} > ? ORDER BY {key} LIMIT 1 OFFSET {PART - 1}"
        after = _FIRST
        while after != _LAST:
            last = self.value(end, (after,)) or _LAST
            yield from self.query(sql, (after, last))
            self.n_looked_at += PART
            after = last

    def one(self, sql: str, parameters: Parameters = ()) -> Row | None:
        """Return the first row of a query, or None."""
        return self._connection.execute(sql, parameters).fetchone()

    def first(self, mapper: RowMapper[T], source: str, parameters: Parameters = ()) -> T | None:
        """Return the value of the first row of ``source``, a table with what follows it in a query; None if there is none."""
        row = self.one(f"SELECT {mapper.columns} FROM {source}", parameters)
        return None if row is None else mapper.load(row)

    def needed(self, mapper: RowMapper[T], source: str, parameters: Parameters, missing: str | Reason) -> T:
        """Return the value of the first row of ``source``, as for `first`.  Raises NotFound, with this text, if there is none."""
        found = self.first(mapper, source, parameters)
        if found is None:
            raise NotFound(missing)
        return found

    def load(self, mapper: RowMapper[T], source: str, parameters: Parameters = ()) -> list[T]:
        """Return the values of all rows of ``source``, as for `first`."""
        return [mapper.load(row) for row in self.query(f"SELECT {mapper.columns} FROM {source}", parameters)]

    def readable(self, load: Callable[[Any], T], rows: Iterable[object]) -> Iterator[T]:
        """Yield what is made of those rows that can be read; the others are left out."""
        for row in rows:
            try:
                yield load(row)
            except UnreadableRow as error:
                if not self.leaves_out:
                    raise
                self.leave_out(str(error))

    def leave_out(self, what: str) -> None:
        """Note what is said of a row that others do not wait for; the log has it once."""
        noted = self._connection.unreadable
        if what not in noted and len(noted) < MOST_NOTED:
            noted[what] = None
            log.error("row_left_out", error=what)

    def load_in(
        self, mapper: RowMapper[T], source: str, values: Sequence[object], parameters: Parameters = ()
    ) -> list[T]:
        """Return the values of all rows of a ``source`` that holds ``IN (??)``, as for `query_in`."""
        rows = self.query_in(f"SELECT {mapper.columns} FROM {source}", values, parameters)
        return [mapper.load(row) for row in rows]

    def value(self, sql: str, parameters: Parameters = ()) -> Any:  # the caller knows its type
        """Return the first column of the first row, or None."""
        row = self.one(sql, parameters)
        return None if row is None else row[0]

    def number(self, sql: str, parameters: Parameters = ()) -> int:
        """Return the first column of the first row as an integer; 0 if there is none."""
        return int(self.value(sql, parameters) or 0)

    def columns(self, table: str) -> list[str]:
        """Return names of a table's columns, in order."""
        return self._connection.column_names(table)

    def query_in(self, sql: str, values: Sequence[object], parameters: Parameters = ()) -> list[Row]:
        """Return rows of a query that holds ``IN (??)`` for a list of values, placed after ``parameters``.

        With very many values the order of rows holds for some hundred of them at a time only.
        """
        return self._connection.select_in(sql, values, parameters)

    def ask_ahead(self, *askers: Callable[[Database], object]) -> None:
        """Send queries that will follow each other to a remote database together.

        Each of ``askers`` is called with a database that has no rows, to see what it asks; nothing that they ask about may
        change in this transaction before it is asked in earnest.
        """
        if self._connection.asks_ahead:
            noted = _Questions(self._connection)
            for ask in askers:
                ask(noted)
            self._connection.ask_ahead(noted.asked)

    @property
    def claiming(self) -> str:
        """Return the end of a query that claims work: in a write, rows of other processes are skipped, and the rest is locked."""
        return ""

    def lock(self, table: str, ids: Iterable[int]) -> None:
        """Lock these rows until this write ends.  A read needs no lock."""


class _Questions(Database):
    """Tables without rows, which record the queries."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.asked: list[tuple[str, Parameters]] = []

    def query(self, sql: str, parameters: Parameters = ()) -> list[Row]:
        """See `Database.query`."""
        self.asked.append((sql, parameters))
        return []

    def one(self, sql: str, parameters: Parameters = ()) -> Row | None:
        """See `Database.one`."""
        self.asked.append((sql, parameters))
        return None

    def query_in(self, sql: str, values: Sequence[object], parameters: Parameters = ()) -> list[Row]:
        """See `Database.query_in`; an empty list is not queried."""
        if values:
            self.asked.append((sql, [*parameters, list(values)]))
        return []
