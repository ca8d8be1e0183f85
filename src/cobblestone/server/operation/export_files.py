"""Files of exports: XML for statistics sites, columns for researchers, the archive as Parquet."""

from __future__ import annotations

import gzip
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Any, Generic, TypeVar

from cobblestone.domain import exports as domain
from cobblestone.domain.errors import ConfigError
from cobblestone.ops.files import sync_file, sync_folder
from cobblestone.ops.installation import how_to_install
from cobblestone.store.schema.project import declared_types
from cobblestone.store.work import archive
from cobblestone.wire.project import statistics_export as wire

T = TypeVar("T")

#: Twice as fast as zlib's own choice, for files a tenth larger.
GZIP_LEVEL = 3
#: Records that are written together.
CHUNK = 500
#: Rows that a Parquet file keeps together, and that wait in memory until then.
ROW_GROUP = 5_000

#: Name and type of a column, and where in a record its value is.
Column = tuple[str, type, Callable[[Any], Any]]


@dataclass(frozen=True, slots=True)
class TableForm(Generic[T]):
    """How the records of a table are written."""

    element: Callable[[T], str]  #: as XML
    columns: Sequence[Column]  #: as columns, named like the elements


_CREDIT: tuple[Column, ...] = (
    ("total_credit", float, attrgetter("credit.total")),
    ("expavg_credit", float, attrgetter("credit.recent.value")),
    ("expavg_time", float, attrgetter("credit.recent.time")),
)


def _columns(kind: type, *names: str) -> list[Column]:
    return [(name, kind, attrgetter(name)) for name in names]


def _of_hardware(kind: type, *names: str) -> list[Column]:
    return [(name, kind, attrgetter(f"hardware.{name}")) for name in names]


USERS: TableForm[domain.ExportedUser] = TableForm(
    wire.write_user,
    (
        *_columns(int, "id"),
        *_columns(str, "name"),
        *_columns(float, "create_time"),
        *_CREDIT,
        *_columns(str, "cpid", "country", "url"),
        ("teamid", int, attrgetter("team_id")),
        *_columns(bool, "has_profile"),
    ),
)
HOSTS: TableForm[domain.ExportedHost] = TableForm(
    wire.write_host,
    (
        *_columns(int, "id"),
        ("userid", int, attrgetter("user_id")),
        *_CREDIT,
        *_of_hardware(str, "p_vendor", "p_model", "os_name", "os_version"),
        *_columns(float, "create_time", "rpc_time"),
        *_of_hardware(int, "timezone"),
        ("ncpus", int, attrgetter("hardware.p_ncpus")),
        *_of_hardware(float, "p_fpops", "p_iops", "p_membw", "m_nbytes", "m_cache", "m_swap"),
        *_of_hardware(float, "d_total", "d_free", "n_bwup", "n_bwdown"),
        *_columns(float, "avg_turnaround"),
        *_columns(str, "host_cpid"),
    ),
)
TEAMS: TableForm[domain.ExportedTeam] = TableForm(
    wire.write_team,
    (
        *_columns(int, "id", "type"),
        *_columns(str, "name"),
        ("userid", int, attrgetter("founder_id")),
        *_CREDIT,
        *_columns(str, "founder_name"),
        *_columns(float, "create_time"),
        *_columns(str, "url", "name_html", "description", "country"),
    ),
)
USER_DELETIONS: TableForm[domain.Deletion] = TableForm(
    wire.write_user_deletion, (*_columns(int, "id"), *_columns(str, "cpid"))
)
HOST_DELETIONS: TableForm[domain.Deletion] = TableForm(
    wire.write_host_deletion, (*_columns(int, "id"), ("host_cpid", str, attrgetter("cpid")))
)


def badge_holders(table: domain.ExportedTable) -> TableForm[domain.BadgeHolder]:
    """Return the form of a table of badges."""
    return TableForm(
        lambda holder: wire.write_badge_holder(table, holder),
        (
            (f"{table.removeprefix('badge_')}_id", int, attrgetter("owner_id")),
            *_columns(int, "badge_id"),
            *_columns(float, "create_time"),
        ),
    )


class _XmlFiles(Generic[T]):
    """One document, in a file for each format."""

    def __init__(self, folder: Path, stem: str, one: domain.Enumeration, form: TableForm[T]) -> None:
        self._table, self._element = one.table, form.element
        self._stack = ExitStack()
        self._outputs: list[Callable[[bytes], object]] = []
        for kind in one.formats:
            if kind is domain.ExportFormat.PARQUET:
                continue
            file = self._stack.enter_context((folder / kind.file_name(stem)).open("wb"))
            if kind is domain.ExportFormat.GZIP:
                packed = self._stack.enter_context(gzip.GzipFile(stem, "wb", GZIP_LEVEL, file))
                self._outputs.append(packed.write)
            else:
                self._outputs.append(file.write)
        self._put(wire.write_head(one.table))

    def _put(self, text: str) -> None:
        data = text.encode()
        for output in self._outputs:
            output(data)

    def write(self, records: Sequence[T]) -> None:
        self._put("".join(map(self._element, records)))

    def finish(self) -> None:
        self._put(wire.write_tail(self._table))
        self.close()

    def close(self) -> None:
        self._stack.close()


class _ParquetFile(Generic[T]):
    """A table of columns."""

    def __init__(self, path: Path, form: TableForm[T]) -> None:
        self._arrow, parquet = load_arrow()
        kinds = {int: "int64", float: "double", str: "string", bool: "bool"}
        self._columns = form.columns
        self._schema = self._arrow.schema([(name, kinds[kind]) for name, kind, _ in form.columns])
        self._writer = parquet.ParquetWriter(path, self._schema, compression="zstd")
        self._waiting: list[T] = []

    def write(self, records: Sequence[T]) -> None:
        self._waiting += records
        if len(self._waiting) >= ROW_GROUP:
            self._flush()

    def _flush(self) -> None:
        values = [[get(record) for record in self._waiting] for _, _, get in self._columns]
        arrays = [
            self._arrow.array(each, type=kind) for each, kind in zip(values, self._schema.types, strict=True)
        ]
        self._writer.write_batch(self._arrow.record_batch(arrays, schema=self._schema))
        self._waiting.clear()

    def finish(self) -> None:
        self._flush()
        self.close()

    def close(self) -> None:
        self._writer.close()


def load_arrow() -> tuple[Any, Any]:  # Any: modules of an extra, without exact types
    """Return PyArrow and its part for Parquet.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        return import_module("pyarrow"), import_module("pyarrow.parquet")
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"Parquet files need PyArrow, which is not installed. Install it with: {how_to_install('lab')}"
            " or, for the daily export, set export.parquet = false."
        ) from error


def check_formats(formats: Iterable[domain.ExportFormat]) -> None:
    """Raise ConfigError if a format needs a package that is not installed."""
    if domain.ExportFormat.PARQUET in formats:
        load_arrow()


def write_records(folder: Path, one: domain.Enumeration, records: Iterable[T], form: TableForm[T]) -> int:
    """Write a table's records to the files of an enumeration; return how many there were."""
    most = one.records_per_file or sys.maxsize
    part = in_part = count = 0
    files = _open(folder, one, part, form)
    try:
        for chunk in _chunks(records):
            rest = chunk
            while rest:
                if in_part == most:
                    _finish(files)
                    part, in_part = part + 1, 0
                    files = _open(folder, one, part, form)
                now, rest = rest[: most - in_part], rest[most - in_part :]
                for file in files:
                    file.write(now)
                in_part += len(now)
                count += len(now)
        _finish(files)
    finally:
        for file in files:
            file.close()
    return count


def _open(
    folder: Path, one: domain.Enumeration, part: int, form: TableForm[T]
) -> list[_XmlFiles[T] | _ParquetFile[T]]:
    stem = one.part_name(part)
    files: list[_XmlFiles[T] | _ParquetFile[T]] = [_XmlFiles(folder, stem, one, form)]
    if domain.ExportFormat.PARQUET in one.formats:
        files.append(_ParquetFile(folder / domain.ExportFormat.PARQUET.file_name(stem), form))
    return files


def _finish(files: Iterable[_XmlFiles[T] | _ParquetFile[T]]) -> None:
    for file in files:
        file.finish()


def _chunks(records: Iterable[T]) -> Iterator[list[T]]:
    stream = iter(records)
    while chunk := list(islice(stream, CHUNK)):
        yield chunk


ARROW_TYPES = {"INTEGER": "int64", "REAL": "double", "TEXT": "string", "BLOB": "binary"}


def export_archive(path: Path, folder: Path, *, report: Callable[[str], object]) -> dict[str, int]:
    """Write the tables of an archive, as a snapshot, to ``folder``; return their row counts by file name.

    Each file appears whole, in place of an older one; whatever is killed, there is no half one.

    Raises:
        FileNotFoundError: nothing was archived yet.
        ConfigError: what writes Parquet is not installed.
    """
    arrow, parquet = load_arrow()
    folder.mkdir(parents=True, exist_ok=True)
    rows: dict[str, int] = {}
    types = declared_types()
    with archive.reading(path) as connection:
        for table in archive.TABLES:
            columns, portions = archive.portions(connection, table, size=ROW_GROUP)
            if not columns:
                continue
            # A column that the schema has no more is written as text.
            kinds = [ARROW_TYPES[types.get((table, name), "TEXT")] for name in columns]
            schema = arrow.schema(zip(columns, kinds, strict=True))
            target = folder / f"{table}.parquet"
            partial = folder / f".{target.name}.{secrets.token_hex(4)}"
            try:
                with parquet.ParquetWriter(partial, schema, compression="zstd") as writer:
                    rows[target.name] = 0
                    for portion in portions:
                        writer.write_batch(_batch(arrow, schema, portion))
                        rows[target.name] += len(portion)
                        report(f"{target.name}: rows: {rows[target.name]:,}")
                sync_file(partial)
                partial.replace(target)
            finally:
                partial.unlink(missing_ok=True)
    sync_folder(folder)
    return rows


def _batch(arrow: Any, schema: Any, rows: list[tuple[Any, ...]]) -> Any:  # Any: modules without exact types
    columns = zip(*rows, strict=True)
    return arrow.record_batch(
        [arrow.array(column, type=kind) for column, kind in zip(columns, schema.types, strict=True)],
        schema=schema,
    )
