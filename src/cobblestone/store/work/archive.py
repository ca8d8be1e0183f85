"""The archive of purged jobs: a second SQLite database, or packed parts in storage that several machines share.

The archive of a project that several machines share: parts, each a packed file of lines in the storage that all of them reach.

A part holds what one purge took out of the database, a table after the other, with the names of its columns in front.  It never
changes: when words must go, a part without them is added and the old one is removed.  The name says which part it is: the first
workunit, how often it was written again, and the MD5 of the file.

The archive of purged jobs: a second SQLite database with rows as they were.

Where several machines work on a project, purged rows go into parts that all machines reach (`archive_parts`), and each machine
has a database of its own that follows them.

A workunit is first written to the archive and committed there, then removed from the project's database; a crash between
leaves it in both, and the next purge removes it from the project.  The ledger and the averages stay in the project.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import re
import secrets
import sqlite3
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from cobblestone.domain.errors import StoreError
from cobblestone.domain.work import BatchState, FileDeleteState
from cobblestone.ops.files import sync_file, sync_folder
from cobblestone.policy.lifecycle.deadlines import why_not_purge
from cobblestone.store.catalog.file_storage import FileStorage
from cobblestone.store.engine.database import Database, Store, Transaction
from cobblestone.store.engine.sqlite import SqliteEngine
from cobblestone.store.work import lifecycle
from cobblestone.store.work.steps import TO_ARCHIVE, matching

#: Names of columns, and rows.
Rows = tuple[list[str], list[tuple[Any, ...]]]
Tables = Mapping[str, Rows]

_NAME = re.compile(r"(\d{12})-(\d{4})-([0-9a-f]{32})\.jsonl\.gz")


@dataclass(frozen=True, slots=True)
class ArchiveParts:
    """The parts in a folder.  Not for the event loop.

    Raises everywhere:
        StoreError: the storage cannot be reached, or a part is damaged.
    """

    folder: Path
    storage: FileStorage

    def names(self) -> dict[str, int]:
        """Return all parts with their sizes; of a rewritten one, the latest comes last."""
        return {
            name: n for name, n in sorted(self.storage.listed(self.folder).items()) if _NAME.fullmatch(name)
        }

    def add(self, tables: Tables, *, instead_of: str = "") -> str:
        """Add a part; return its name once it is durable.  ``instead_of``: the one that it replaces, which stays for now."""
        self.folder.mkdir(parents=True, exist_ok=True)
        working = self.folder / f".{secrets.token_hex(8)}"
        try:
            working.touch(0o600)  # it has the words of people's computers
            working.write_bytes(packed(tables))
            sync_file(working)
            name = _name(
                tables, hashlib.md5(working.read_bytes(), usedforsecurity=False).hexdigest(), instead_of
            )
            self.storage.keep_now(self.folder / name, working)
            if not self.storage.in_bucket:
                working.replace(self.folder / name)
                sync_folder(self.folder)
            return name
        except OSError as error:
            raise StoreError(f"The archive in {self.folder} cannot be written: {error}.") from error
        finally:
            working.unlink(missing_ok=True)

    def read(self, name: str, nbytes: int) -> Tables | None:
        """Return the content of a part; None if it has gone."""
        found = _NAME.fullmatch(name)
        place = self.folder / name
        self.storage.bring_now(place, nbytes=nbytes, md5=found[3] if found else "")
        try:
            return unpacked(place.read_bytes(), name)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"{place} cannot be read: {error}.") from error
        finally:
            if self.storage.in_bucket:
                place.unlink(missing_ok=True)

    def remove(self, name: str) -> None:
        """Remove a part."""
        self.storage.remove([self.folder / name])
        (self.folder / name).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Archive:
    """The database of purged jobs: SQLite on this machine, or made from parts."""

    path: Path
    parts: ArchiveParts | None = None


def packed(tables: Tables) -> bytes:
    """Return a part's content; equal rows give equal bytes."""
    lines: list[str] = []
    for table, (columns, rows) in tables.items():
        lines.append(json.dumps({"table": table, "columns": columns}))
        lines += (json.dumps(row, default=_plain, ensure_ascii=False) for row in rows)
    return gzip.compress("\n".join(lines).encode(), 6, mtime=0)


def unpacked(content: bytes, name: str) -> Tables:
    """Return the tables of a part.

    Raises:
        StoreError: it is damaged.
    """
    tables: dict[str, Rows] = {}
    rows: list[tuple[Any, ...]] = []
    try:
        for line in gzip.decompress(content).split(b"\n"):
            value: Any = json.loads(line)  # what stands in a file
            if isinstance(value, dict):
                header = cast("dict[str, Any]", value)
                rows = []
                tables[header["table"]] = (header["columns"], rows)
            else:
                rows.append(tuple(_value(each) for each in value))
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"The part {name} of the archive is damaged: {error}.") from error
    return tables


def _value(plain: Any) -> Any:
    """Return a value of a row; bytes are stored as hexadecimal."""
    return bytes.fromhex(cast("dict[str, str]", plain)["hex"]) if isinstance(plain, dict) else plain


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    raise TypeError(f"{type(value).__name__} in a row")


def _name(tables: Tables, md5: str, instead_of: str) -> str:
    if old := _NAME.fullmatch(instead_of):
        return f"{old[1]}-{min(int(old[2]) + 1, 9999):04d}-{md5}.jsonl.gz"
    columns, rows = tables["workunit"]
    first = min((row[columns.index("id")] for row in rows), default=0)
    return f"{first:012d}-0000-{md5}.jsonl.gz"


_OLD = f"{matching(FileDeleteState.DONE)} AND completed_time < ?"
# No EXISTS: PostgreSQL may read the jobs of all batches for it.
_OLDEST = (
    f"SELECT MIN(completed_time) FROM workunit WHERE batch_id = batch.id AND {matching(FileDeleteState.DONE)}"
)
_BATCHES_TO_ARCHIVE = f"SELECT id FROM batch WHERE {TO_ARCHIVE} AND ({_OLDEST}) < ? ORDER BY id"
_NOTHING_LEFT = (
    f"UPDATE batch SET archived = 1 WHERE id = ? AND {TO_ARCHIVE}"
    " AND NOT EXISTS (SELECT 1 FROM workunit WHERE workunit.batch_id = batch.id)"
)
MOVED_TOGETHER = 1000
BUSY_SECONDS = 60.0  #: to wait for another write to the archive
TABLES = ("workunit", "result", "result_text")
_KEYS = {"workunit": "id", "result": "workunit_id", "result_text": "result_id"}


def _opened(path: Path) -> closing[sqlite3.Connection]:
    return closing(sqlite3.connect(path, isolation_level=None, timeout=BUSY_SECONDS))


def purge(store: Store, archive: Archive, *, now: float, min_age: float, limit: int) -> int:
    """Move finished workunits into the archive; return how many.  Not for the event loop."""
    ids = store.read(lambda db: _ready(db, now=now, min_age=min_age, limit=limit))
    if not ids:
        return 0
    rows = store.read(lambda db: _rows(db, ids))
    if archive.parts is None:
        _append(archive.path, rows)
    else:
        name = archive.parts.add(rows)
        _append(archive.path, rows, part=name)
    return store.write(lambda tx: _remove(tx, ids))


def _ready(db: Database, *, now: float, min_age: float, limit: int) -> list[int]:
    """Return workunits that can be purged: of no batch, then of each retired one.

    Batch by batch, since a batch that was not retired may have millions, which are not even looked at.
    """
    before = now - min_age
    batches: list[int | None] = [None, *(row[0] for row in db.query(_BATCHES_TO_ARCHIVE, (before,)))]
    ready: list[int] = []
    for batch_id in batches:
        condition, key = ("batch_id IS NULL", ()) if batch_id is None else ("batch_id = ?", (batch_id,))
        candidates = db.query(
            # as the index has them: PostgreSQL takes "IS NULL" for no order
            f"SELECT id FROM workunit WHERE {condition} AND {_OLD} ORDER BY batch_id, completed_time LIMIT ?",
            (*key, before, limit - len(ready)),
        )
        state = None if batch_id is None else BatchState.RETIRED
        ready += (
            view.workunit.id
            for view in lifecycle.readable_views(db, [row[0] for row in candidates])
            if why_not_purge(view, now=now, min_age_seconds=min_age, batch_state=state) is None
        )
        if len(ready) >= limit:
            break
    return ready


def _rows(db: Database, ids: Sequence[int]) -> Tables:
    """Return rows of the archived tables with the names of their columns."""
    found: dict[str, Rows] = {}
    keys: Sequence[int] = ids
    for table in TABLES:
        columns = db.columns(table)
        key = _KEYS[table]
        rows = db.query_in(f"SELECT {', '.join(columns)} FROM {table} WHERE {key} IN (??)", keys)
        found[table] = (columns, rows)
        if table == "result":
            keys = [row[columns.index("id")] for row in rows]
    return found


def follow(archive: Archive) -> int:
    """Update this machine's database from the parts; return how many were new.  Not for the event loop.

    Raises:
        StoreError: see `ArchiveParts`.
    """
    if archive.parts is None:
        return 0
    there = archive.parts.names()
    known = _known_parts(archive.path)
    new = [name for name in there if name not in known]
    for name in new:
        tables = archive.parts.read(name, there[name])
        if tables is not None:
            _append(archive.path, tables, part=name)
    if gone := known - there.keys():
        _forget_parts(archive.path, gone)
    return len(new)


def move_into_parts(old: Path, archive: Archive) -> None:
    """Move one machine's own database into parts.  Not for the event loop; harmless to repeat.

    Raises:
        StoreError: see `ArchiveParts`.
    """
    if archive.parts is None or not old.exists():
        return
    with closing(SqliteEngine(old).connect(read_only=True)) as connection:
        db, after = Database(connection), 0
        query = f"SELECT id FROM workunit WHERE id > ? ORDER BY id LIMIT {MOVED_TOGETHER}"
        while ids := [row[0] for row in db.query(query, (after,))]:
            tables = _rows(db, ids)
            _append(archive.path, tables, part=archive.parts.add(tables))
            after = ids[-1]
    for suffix in ("", "-wal", "-shm"):
        old.with_name(old.name + suffix).unlink(missing_ok=True)


def _known_parts(path: Path) -> set[str]:
    if not path.exists():
        return set()
    with _opened(path) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'part'").fetchone():
            return set()
        return {row[0] for row in connection.execute("SELECT name FROM part")}


def _forget_parts(path: Path, names: Iterable[str]) -> None:
    with _opened(path) as connection:
        connection.executemany("DELETE FROM part_user WHERE part = ?", [(name,) for name in names])
        connection.executemany("DELETE FROM part WHERE name = ?", [(name,) for name in names])


def _note_part(connection: sqlite3.Connection, part: str, tables: Tables) -> None:
    """Record that a part is here, and whose results it has, so that all of an erased user's can be found."""
    connection.execute("CREATE TABLE IF NOT EXISTS part (name TEXT PRIMARY KEY)")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS part_user (user_id INTEGER, part TEXT, PRIMARY KEY (user_id, part)) WITHOUT ROWID"
    )
    columns, rows = tables["result"]
    users = {row[columns.index("user_id")] for row in rows} - {None}
    connection.executemany("INSERT OR IGNORE INTO part_user VALUES (?, ?)", [(user, part) for user in users])
    connection.execute("INSERT OR IGNORE INTO part VALUES (?)", (part,))


def _append(path: Path, tables: Tables, *, part: str = "") -> None:
    with _opened(path) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("BEGIN IMMEDIATE")
        for table, (columns, rows) in tables.items():
            primary = "result_id" if table == "result_text" else "id"
            connection.execute(f"CREATE TABLE IF NOT EXISTS {table} ({primary} INTEGER PRIMARY KEY)")
            known = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
            for column in columns:
                if column not in known:  # a newer schema has more
                    connection.execute(f"ALTER TABLE {table} ADD COLUMN {column}")
            connection.executemany(
                f"INSERT OR REPLACE INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})",
                rows,
            )
        connection.execute("CREATE INDEX IF NOT EXISTS result_by_workunit ON result (workunit_id)")
        connection.execute("CREATE INDEX IF NOT EXISTS result_by_host ON result (host_id)")
        connection.execute("CREATE INDEX IF NOT EXISTS result_by_user ON result (user_id)")
        if part:
            _note_part(connection, part, tables)
        connection.execute("COMMIT")


def _remove(tx: Transaction, ids: Sequence[int]) -> int:
    # Row by row, for a subquery may be planned as a walk through a whole table.
    batches = tx.query_in("SELECT batch_id FROM workunit WHERE id IN (??)", ids)
    results = tx.query_in("SELECT id FROM result WHERE workunit_id IN (??)", ids)
    hosts = tx.query_in("SELECT host_id, name FROM result WHERE host_id > 0 AND workunit_id IN (??)", ids)
    gone = "DELETE FROM msg_to_host WHERE host_id = ? AND sent_time IS NULL AND result_name = ?"
    tx.execute_many(gone, hosts)
    tx.execute_many("DELETE FROM result_text WHERE result_id = ?", results)
    tx.execute_many("DELETE FROM upload WHERE result_id = ?", results)
    tx.execute_many("DELETE FROM result WHERE id = ?", results)
    tx.execute_many("DELETE FROM workunit WHERE id = ?", [(id_,) for id_ in ids])
    tx.execute_many(_NOTHING_LEFT, sorted({tuple(row) for row in batches if row[0] is not None}))
    return len(ids)


def forget_words(archive: Archive, user_id: int) -> None:
    """Remove the program output from a user's computers, as `account_changes.erase` does in the project.

    Not for the event loop; harmless to repeat.

    Raises:
        StoreError: see `ArchiveParts`.
    """
    if archive.parts is not None:
        _forget_in_parts(archive, archive.parts, user_id)
    path = archive.path
    if not path.exists():
        return
    with _opened(path) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'result_text'").fetchone():
            return  # the process that made the file was killed before its first commit
        connection.execute(
            "UPDATE result_text SET stderr = NULL, report = '{}' WHERE result_id IN (SELECT id FROM result WHERE user_id = ?)",
            (user_id,),
        )


def _forget_in_parts(archive: Archive, parts: ArchiveParts, user_id: int) -> None:
    """Rewrite the parts with results of a user, without the texts; the old ones are removed once the new ones are durable."""
    follow(archive)
    if not archive.path.exists():
        return
    with _opened(archive.path) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'part_user'").fetchone():
            return
        names = [
            row[0]
            for row in connection.execute(
                "SELECT part FROM part_user WHERE user_id = ? ORDER BY part", (user_id,)
            )
        ]
    there = parts.names()
    for name in names:
        tables = parts.read(name, there.get(name, 0))
        if tables is None:
            continue
        silent = _without_words(tables, user_id)
        if silent != tables:
            _append(archive.path, silent, part=parts.add(silent, instead_of=name))
            parts.remove(name)
            _forget_parts(archive.path, [name])


def _without_words(tables: Tables, user_id: int) -> Tables:
    columns, rows = tables["result"]
    id_, user = columns.index("id"), columns.index("user_id")
    own = {row[id_] for row in rows if row[user] == user_id}
    text_columns, texts = tables["result_text"]
    blank = {"stderr": None, "report": "{}"}
    of = text_columns.index("result_id")
    silent = [
        tuple(blank.get(column, value) for column, value in zip(text_columns, row, strict=True))
        if row[of] in own
        else row
        for row in texts
    ]
    return {**tables, "result_text": (text_columns, silent)}


@contextlib.contextmanager
def reading(path: Path) -> Generator[sqlite3.Connection, None, None]:
    """Open a snapshot of the archive for reading while the block runs.

    Raises:
        FileNotFoundError: nothing was archived yet.
    """
    if not path.exists():
        raise FileNotFoundError(path)
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None)
    try:
        connection.execute("PRAGMA query_only=ON")
        connection.execute("BEGIN")
        yield connection
    finally:
        connection.close()


def portions(
    connection: sqlite3.Connection, table: str, *, size: int
) -> tuple[list[str], Iterator[list[tuple[Any, ...]]]]:
    """Return the columns of one of `TABLES` and its rows, ``size`` at a time; no columns if it has not been archived."""
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    if not columns:
        return [], iter(())
    cursor = connection.execute(f"SELECT {', '.join(columns)} FROM {table} ORDER BY {columns[0]}")
    return columns, iter(lambda: cursor.fetchmany(size), [])


def query(path: Path, sql: str, parameters: Sequence[object] = ()) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Run a read-only query on the archive; return column names and rows.

    Raises:
        FileNotFoundError: nothing was archived yet.
        sqlite3.Error: the query is wrong, or tries to write.
    """
    with reading(path) as connection:
        cursor = connection.execute(sql, parameters)
        return [column[0] for column in cursor.description or ()], cursor.fetchall()
