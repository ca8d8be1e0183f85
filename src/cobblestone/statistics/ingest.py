"""Reading one project's export into columns, in a process of its own: its memory and its mistakes end with it."""

from __future__ import annotations

import gc
import secrets
import shutil
import time
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from cobblestone.domain.errors import RemoteProtocolError
from cobblestone.domain.exports import ExportedTable
from cobblestone.ops.bounded_files import pieces
from cobblestone.ops.durable_files import sync_folder
from cobblestone.statistics.scan import ColumnReader, gathered, schema
from cobblestone.statistics.state import Counts, ProjectFolder
from cobblestone.statistics.store.history import DAY_SECONDS
from cobblestone.statistics.store.rows import raw_file, take_rows
from cobblestone.wire.statistics_import import ExportReader, TotalsRead, parse_tables, picture_address
from cobblestone.wire.statistics_rows import COLLECTED

MAX_TABLES_BYTES = 10_000_000
LARGEST_SHARE_REFUSED = 0.1
"""A file with more records that cannot be is broken."""
TOLERANCE = 0.01
"""Counts in ``tables.xml`` and in the files may differ by so much: the project goes on while it exports."""

pa: Any = import_module("pyarrow")  # Any: PyArrow has no types, and isal says that its error is an instance
isal_zlib: Any = import_module("isal.isal_zlib")
NEEDED = (ExportedTable.USER,)


class Ingested(msgspec.Struct, frozen=True, kw_only=True):
    """What came of an export."""

    generation: str
    exported: float
    counts: Counts
    seconds: float  #: of the processor


def ingest(
    folder: ProjectFolder,
    previous: str,
    *,
    now: float,
    max_rows: int,
    step: float = DAY_SECONDS,
    url: str = "",
) -> Ingested:
    """Read the files of a project that lie in its folder; ``previous`` is the generation that counts until now,
    ``step`` the seconds from one figure of history to the next, ``url`` the address of the export: pictures of badges
    elsewhere are not noted.

    Nothing that counted is touched but the history of the day; the caller makes the new generation count.

    Raises:
        RemoteProtocolError: the export is broken; the text names file and place.
        OSError: the disk.
    """
    began = time.process_time()
    gc.disable()  # millions of rows are made, and none of them refers to another
    generation = f"{int(now)}-{secrets.token_hex(4)}"
    rows = folder.rows(generation)
    rows.mkdir(parents=True)
    try:
        totals = _totals(folder.incoming / "tables.xml")
        n_refused, in_order = 0, set[str]()
        for table in COLLECTED:
            n_rows, refused, sorted_ = _columns(folder.incoming, table, raw_file(rows, table), max_rows)
            n_refused += refused
            if sorted_:
                in_order.add(table.value)
            _check_count(table, n_rows + refused, totals)
        badges = [replace(each, image_url=picture_address(url, each.image_url)) for each in totals.badges]
        taken = take_rows(
            folder,
            rows,
            folder.rows(previous) if previous else None,
            in_order=in_order,
            badges=badges,
            now=now,
            step=step,
        )
        sync_folder(rows)
    except BaseException:
        shutil.rmtree(rows, ignore_errors=True)
        raise
    return Ingested(
        generation=generation,
        exported=totals.update_time or now,
        counts=Counts(
            users=taken.n_users,
            hosts=taken.n_hosts,
            teams=taken.n_teams,
            refused=n_refused,
            doubled=taken.n_doubled,
        ),
        seconds=time.process_time() - began,
    )


def _totals(path: Path) -> TotalsRead:
    try:
        with path.open("rb") as file:
            return parse_tables(file.read(MAX_TABLES_BYTES).decode("utf-8", "replace"))
    except RemoteProtocolError as error:
        raise RemoteProtocolError(f"tables.xml: {error}") from error


def _check_count(table: ExportedTable, n_rows: int, totals: TotalsRead) -> None:
    said = {
        ExportedTable.USER: totals.n_users,
        ExportedTable.HOST: totals.n_hosts,
        ExportedTable.TEAM: totals.n_teams,
    }.get(table, 0)
    if n_rows < said - max(10.0, TOLERANCE * said):
        raise RemoteProtocolError(f"{table}.gz: it holds {n_rows} records, tables.xml counts {said}")


def part_name(table: ExportedTable, number: int) -> str:
    """Return the name here of a part of a table that a project exports in several files."""
    return f"{table}_{number:05d}.gz"


def _columns(incoming: Path, table: ExportedTable, target: Path, max_rows: int) -> tuple[int, int, bool]:
    """Write the records of a table as columns; return how many there are, how many are refused, and whether numbers grow."""
    whole, n_rows, n_refused, last, in_order = incoming / f"{table}.gz", 0, 0, 0, True
    sources = [whole] if whole.exists() else sorted(incoming.glob(f"{table}_[0-9]*.gz"))
    if table in NEEDED and not sources:
        raise RemoteProtocolError(f"{whole.name}: the project exports none")
    with pa.OSFile(str(target), "wb") as sink, pa.ipc.new_file(sink, schema(table)) as writer:
        for source in sources:
            reader, place, before = ColumnReader(table, last_id=last), 0, n_rows
            try:
                for data in gathered(pieces(source, isal_zlib)):
                    for batch in reader.receive(data):
                        n_rows += batch.num_rows
                        if n_rows > max_rows:
                            raise RemoteProtocolError(f"it holds more than {max_rows} records")
                        writer.write_batch(batch)
                    place += len(data)
                reader.close()
            except RemoteProtocolError as error:
                raise RemoteProtocolError(f"{source.name}, after {place} bytes: {error}") from error
            _check_refused(source, reader, n_rows - before)
            n_refused, last = n_refused + reader.n_refused, reader.last_id
            in_order = in_order and reader.in_order
    return n_rows, n_refused, in_order


def _check_refused(source: Path, reader: ExportReader, n_rows: int) -> None:
    if reader.n_refused > LARGEST_SHARE_REFUSED * (n_rows + reader.n_refused):
        raise RemoteProtocolError(
            f"{source.name}: {reader.n_refused} of {n_rows + reader.n_refused} records cannot be, the first one because"
            f" {reader.first_refusal}"
        )
