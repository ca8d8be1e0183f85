"""Reading one project's export into columns, fast, in a separate process.

Reading the export of any project at speed: all records of a piece of a file at once, as columns.

A compiled function walks once over the bytes and notes where the values of each element begin and end, whatever their order and
what is beside them; values are converted column by column.  Where anything is unusual (an element twice, a tag in a value, an
odd number) the strict reader of `wire.statistics_import` takes the records of that piece instead, to the same rows.
"""

from __future__ import annotations

import gc
import secrets
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from cobblestone.domain.errors import RemoteProtocolError
from cobblestone.domain.exports import ExportedTable
from cobblestone.ops.files import pieces, sync_folder
from cobblestone.statistics.folder import ExportFolder, RowCounts
from cobblestone.statistics.store.history import DAY_SECONDS
from cobblestone.statistics.store.rows import raw_file, take_rows
from cobblestone.wire.project import statistics_import as wire

numba: Any = import_module("numba")  # Any: neither Numba nor PyArrow has types
pa: Any = import_module("pyarrow")
pc: Any = import_module("pyarrow.compute")
Bytes = NDArray[np.uint8]
Places = NDArray[np.int32]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
#: Of the record and of its elements: their letters one behind the other, where each ends, the last element of each slot, and the
#: one before in its slot.
Names = tuple[Bytes, Places, Places, Places]
_SLOTS = 128
_CDATA = np.frombuffer(b"<![CDATA[", np.uint8)

#: Bytes of a file that are scanned together: fewer cost more calls, more cost more memory that is not in the cache.
AT_ONCE = 1 << 21
#: Bytes of a usual record, at least.
LEAST_RECORD = 40
#: ASCII that can be printed, without references, is what it says.
_USUAL_TEXT = np.isin(np.arange(256), [*range(32, 38), *range(39, 127)])
_USUAL_CPID = np.isin(np.arange(256), list(b"0123456789abcdef"))
_CPID_LENGTH = 32
#: Powers of ten up to this one, and whole numbers below 2^53, are exact: so is their quotient, but for one rounding.
_MOST_DECIMALS = 22
_TENS = 10.0 ** np.arange(_MOST_DECIMALS + 1)
_TYPES = {wire.Form.ID: pa.int64(), wire.Form.WHOLE: pa.int64(), wire.Form.NUMBER: pa.float64()}
#: Processors, systems and countries: many records have the same.
_often = lru_cache(10_000)(wire.resolved)
_gpus_often = lru_cache(10_000)(wire.gpu_models)


class _Unusual(Exception):
    """Only the strict reader can decide."""


def schema(table: ExportedTable) -> Any:
    """Return the columns of a table."""
    return pa.schema([(each.column, _TYPES.get(each.form, pa.string())) for each in wire.ELEMENTS[table]])


def gathered(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield several pieces as one."""
    waiting: list[bytes] = []
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= AT_ONCE:
            yield b"".join(waiting)
            waiting, size = [], 0
    yield b"".join(waiting)


class ColumnReader(wire.ExportReader):
    """Consumes the bytes of a file as they arrive, and yields batches of columns."""

    def __init__(self, table: ExportedTable, *, last_id: int = 0) -> None:
        super().__init__(table, wire.row_maker(table))
        self._elements = wire.ELEMENTS[table]
        self._schema = schema(table)
        self._names = _listed([self._begin[1:-1].encode(), *(each.name.encode() for each in self._elements)])
        forms = [each.form for each in self._elements]
        self._free = forms.index(wire.Form.GPUS) if wire.Form.GPUS in forms else -1
        self.last_id = last_id  #: of the record before
        self.in_order = True  #: each record had a larger number than the one before

    def records(self, data: memoryview) -> list[Any]:
        """Return one batch of the records in some bytes, or none."""
        try:
            columns = self._columns(data)
        except (_Unusual, UnicodeDecodeError):
            rows: list[wire.Row] = super().records(data)
            if not rows:
                return []
            columns = [
                pa.array(column, field.type)
                for column, field in zip(zip(*rows, strict=True), self._schema, strict=True)
            ]
        self._note_order(columns[0].to_numpy())
        return [pa.RecordBatch.from_arrays(columns, schema=self._schema)]

    def _note_order(self, ids: NDArray[np.int64]) -> None:
        self.in_order = self.in_order and ids[0] > self.last_id and bool((ids[1:] > ids[:-1]).all())
        self.last_id = int(ids[-1])

    def _columns(self, data: memoryview) -> list[Any]:
        """Return the columns of usual records.  Raises _Unusual, UnicodeDecodeError."""
        shape = (len(self._elements), len(data) // LEAST_RECORD + 1)
        begins, ends = np.empty(shape, np.int32), np.empty(shape, np.int32)
        scanned = np.frombuffer(data, np.uint8)
        n = _places(scanned, *self._names, self._free, wire.MAX_RECORD_BYTES, begins, ends)
        if n < 1:
            raise _Unusual
        return [
            _column(scanned, begins[place, :n], ends[place, :n], element)
            for place, element in enumerate(self._elements)
        ]


@numba.njit(cache=True)
def _same(data: Bytes, at: int, names: Bytes, first: int, length: int) -> bool:
    """Return whether a number of bytes is the same at two places, both within bounds."""
    # Unsigned: a place that may be negative is looked at twice by what Numba makes of it.
    here, there = np.uint64(at), np.uint64(first)
    for k in range(np.uint64(length)):  # noqa: SIM110  # compiled
        if data[here + k] != names[there + k]:
            return False
    return True


@numba.njit(cache=True)
def _slot(first: int, last: int, length: int) -> int:
    """Return the slot of names with this length and these first and last letters."""
    return int((3 * np.int64(first) + 5 * np.int64(last) + length) & (_SLOTS - 1))


@numba.njit(cache=True)
def _element_at(
    data: Bytes, at: int, length: int, letters: Bytes, cuts: Places, slots: Places, others: Places
) -> int:
    """Return the number of the element whose tag begins at a place, or -1."""
    element = int(slots[_slot(data[np.uint64(at)], data[np.uint64(at + length - 1)], length)])
    while element >= 0 and not (
        cuts[element + 1] - cuts[element] == length and _same(data, at, letters, cuts[element], length)
    ):
        element = int(others[element])
    return element


@numba.njit(cache=True)
def _next(data: Bytes, at: int, wanted: int) -> int:
    """Return the first position from ``at`` on with this byte, or the end."""
    place, size, byte = np.uint64(at), np.uint64(data.size), np.uint8(wanted)
    while place < size and data[place] != byte:
        place += np.uint64(1)
    return int(np.int64(place))


@numba.njit(cache=True)
def _tag_end(data: Bytes, at: int) -> int:
    """Return the end of the tag that started before a position, or -1 if it has no end or an invalid character."""
    end, size = np.uint64(at), np.uint64(data.size)
    while end < size and data[end] != np.uint8(62):  # >
        if data[end] == np.uint8(60):  # <
            return -1
        end += np.uint64(1)
    if end == size or (data[at] == 33 and not (data[end - 1] == 93 and data[end - 2] == 93)):
        return -1  # free text, <![CDATA[...]]>, with a bracket in it
    return int(np.int64(end))


@numba.njit(cache=True)
def _places(
    data: Bytes,
    letters: Bytes,
    cuts: Places,
    slots: Places,
    others: Places,
    free: int,
    most: int,
    begins: Places,
    ends: Places,
) -> int:
    """Record where the values of elements start and end in each record (0, 0: missing); return the number of records.

    ``free``: the element that may hold free text, <![CDATA[...]]>; ``most``: bytes of a record.  -1: unusual.
    """
    own = np.int64(cuts[0])
    n, record = 0, -1
    at = _next(data, 0, 60)  # <
    while at < data.size:
        at += 1
        close = _tag_end(data, at)
        if close < 0:
            return -1
        length = close - at
        if record < 0:
            if length == own and _same(data, at, letters, 0, own):
                if n == begins.shape[1]:
                    return -1
                record = at
                begins[:, n] = 0
                ends[:, n] = 0
        elif data[at] == 47:  # /
            if length - 1 == own and _same(data, at + 1, letters, 0, own):
                if at - record > most:
                    return -1
                record = -1
                n += 1
        else:
            element = _element_at(data, at, length, letters, cuts, slots, others)
            begin = close + 1
            at = _next(data, begin, 60)
            end = at
            free_text = at + len(_CDATA) if element == free and at == begin else data.size
            if element >= 0 and free_text < data.size and _same(data, at, _CDATA, 0, len(_CDATA)):
                begin = free_text
                at = _next(data, begin, 60)
                end = at - 3
                # ]]>
                if end < begin or not (data[end] == 93 and data[end + 1] == 93 and data[end + 2] == 62):
                    return -1
            after = at + 2 + length
            closed = after < data.size and data[at + 1] == 47 and data[after] == 62  # /, >
            closed = closed and _same(data, at + 2, data, close - length, length)
            if element >= 0:
                if ends[element, n] or not closed:
                    return -1
                begins[element, n] = begin
                ends[element, n] = end
            if closed and not (length == own and _same(data, at + 2, letters, 0, own)):
                at = _next(data, after + 1, 60)
            continue
        at = _next(data, close + 1, 60)
    return n if record < 0 else -1


@numba.njit(cache=True)
def _numbers(data: Bytes, begins: Places, ends: Places, tens: Floats, numbers: Floats, odd: Flags) -> None:
    """Parse decimal numbers exactly, or note those in another notation."""
    for row in range(len(begins)):
        whole, decimals, dots, n_digits = np.int64(0), 0, 0, 0
        odd[row] = False
        for place in range(np.uint64(begins[row]), np.uint64(ends[row])):
            digit = np.int64(data[place]) - 48
            if 0 <= digit <= 9:
                whole = whole * 10 + digit
                decimals += dots
                n_digits += 1
            elif digit == -2 and not dots:  # .
                dots = 1
            else:
                odd[row] = True
                break
        if n_digits == 0 or n_digits > 18 or whole >= 1 << 53 or decimals >= len(tens):
            odd[row] = True
        else:
            numbers[row] = whole / tens[decimals]


@numba.njit(cache=True)
def _trim(data: Bytes, begins: Places, ends: Places, usual: Flags, odd: Flags) -> None:
    """Strip spaces around texts, and note which contain unusual bytes."""
    for row in range(len(begins)):
        begin, end = np.uint64(begins[row]), np.uint64(ends[row])
        while begin < end and data[begin] == np.uint8(32):
            begin += np.uint64(1)
        while begin < end and data[end - np.uint64(1)] == np.uint8(32):
            end -= np.uint64(1)
        odd[row] = False
        for place in range(begin, end):
            if not usual[data[place]]:
                odd[row] = True
                break
        if not odd[row]:
            begins[row], ends[row] = begin, end


def _listed(names: Sequence[bytes]) -> Names:
    """Return the names of a record and of its elements in a form for fast look-up."""
    slots, others = np.full(_SLOTS, -1, np.int32), np.full(len(names), -1, np.int32)
    for element, name in enumerate(names[1:]):
        slot = _slot(name[0], name[-1], len(name))
        others[element], slots[slot] = slots[slot], element
    return (
        np.frombuffer(b"".join(names), np.uint8),
        np.cumsum([len(name) for name in names], dtype=np.int32),
        slots,
        others,
    )


def _column(data: Bytes, begins: Places, ends: Places, element: wire.Element) -> Any:
    """Return the values of an element at some positions.  Raises _Unusual, UnicodeDecodeError."""
    match element.form:
        case wire.Form.ID | wire.Form.WHOLE | wire.Form.NUMBER:
            return _number_column(data, begins, ends, element)
        case wire.Form.FEW | wire.Form.GPUS:
            read = _often if element.form is wire.Form.FEW else _gpus_often
            known = _values(data, begins, ends).dictionary_encode()
            texts = [read(each.decode()) for each in known.dictionary.to_pylist()]
            return pa.array(texts, pa.string()).take(known.indices)
        case wire.Form.TEXT | wire.Form.CPID:
            return _text_column(data, begins, ends, element)


def _number_column(data: Bytes, begins: Places, ends: Places, element: wire.Element) -> Any:
    numbers, odd = np.empty(len(begins)), np.empty(len(begins), np.bool_)
    _numbers(data, begins, ends, _TENS, numbers, odd)
    missing = ends == 0
    if missing.any():
        if element.needed:
            raise _Unusual
        numbers[missing] = 0
    for row in np.flatnonzero(odd & ~missing):
        try:
            numbers[row] = float(data[begins[row] : ends[row]].tobytes().decode())
        except ValueError:
            raise _Unusual from None
    least = 1 if element.form is wire.Form.ID else 0
    if not ((numbers >= least) & (numbers <= element.most)).all():
        raise _Unusual
    return pa.array(numbers if element.form is wire.Form.NUMBER else numbers.astype(np.int64))


def _text_column(data: Bytes, begins: Places, ends: Places, element: wire.Element) -> Any:
    odd = np.empty(len(begins), np.bool_)
    is_cpid = element.form is wire.Form.CPID
    _trim(data, begins, ends, _USUAL_CPID if is_cpid else _USUAL_TEXT, odd)
    lengths = ends - begins
    odd |= (lengths != 0) & (lengths != _CPID_LENGTH) if is_cpid else lengths > wire.MAX_TEXT
    values = _values(data, begins, ends)
    if not odd.any():
        return values.view(pa.string())
    read = wire.cpid_in if is_cpid else wire.resolved
    few = [read(each.decode()) for each in values.filter(pa.array(odd)).to_pylist()]
    return pc.replace_with_mask(
        values, pa.array(odd), pa.array([each.encode() for each in few], pa.binary())
    ).view(pa.string())


def _values(data: Bytes, begins: Places, ends: Places) -> Any:
    """Return the bytes between some positions; none where both are 0."""
    cuts = np.empty(2 * len(begins), np.int32)
    cuts[0::2], cuts[1::2] = begins, ends
    if not ends.all():
        np.maximum.accumulate(cuts, out=cuts)
    between = pa.BinaryArray.from_buffers(
        pa.binary(), len(cuts) - 1, [None, pa.py_buffer(cuts), pa.py_buffer(data)]
    )
    return between.take(pa.array(np.arange(0, len(cuts), 2)))


MAX_TABLES_BYTES = 10_000_000
#: A file with more bytes, decompressed, than so many and so many for each record was made to cost time.
BYTES_AT_FIRST, BYTES_PER_RECORD = 100_000_000, 10_000
#: A file with more records that cannot be is broken.
LARGEST_SHARE_REFUSED = 0.1
#: Counts in ``tables.xml`` and in the files may differ by so much: the project goes on while it exports.
TOLERANCE = 0.01

isal_zlib: Any = import_module("isal.isal_zlib")
NEEDED = (ExportedTable.USER,)


class Ingested(msgspec.Struct, frozen=True, kw_only=True):
    """The result of reading an export."""

    generation: str
    exported: float
    counts: RowCounts
    seconds: float  #: of the processor


def ingest(
    folder: ExportFolder,
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
        exported = totals.update_time or now
        n_refused, in_order = 0, set[str]()
        for table in wire.COLLECTED:
            n_rows, refused, sorted_ = _columns(folder.incoming, table, raw_file(rows, table), max_rows)
            n_refused += refused
            if sorted_:
                in_order.add(table.value)
            _check_count(table, n_rows + refused, totals)
        badges = [
            replace(each, image_url=wire.picture_address(url, each.image_url)) for each in totals.badges
        ]
        counts = take_rows(
            folder,
            rows,
            folder.rows(previous) if previous else None,
            in_order=in_order,
            badges=badges,
            now=now,
            exported=exported,
            step=step,
        )
        sync_folder(rows)
    except BaseException:
        shutil.rmtree(rows, ignore_errors=True)
        raise
    return Ingested(
        generation=generation,
        exported=min(exported, now),
        counts=msgspec.structs.replace(counts, refused=n_refused),
        seconds=time.process_time() - began,
    )


def _totals(path: Path) -> wire.TotalsRead:
    try:
        with path.open("rb") as file:
            return wire.parse_tables(file.read(MAX_TABLES_BYTES).decode("utf-8", "replace"))
    except RemoteProtocolError as error:
        raise RemoteProtocolError(f"tables.xml: {error}") from error


def _check_count(table: ExportedTable, n_rows: int, totals: wire.TotalsRead) -> None:
    said = {
        ExportedTable.USER: totals.n_users,
        ExportedTable.HOST: totals.n_hosts,
        ExportedTable.TEAM: totals.n_teams,
    }.get(table, 0)
    if said is not None and n_rows < said - max(10.0, TOLERANCE * said):
        raise RemoteProtocolError(f"{table}.gz: it has {n_rows} records, but tables.xml says {said}")


def part_name(table: ExportedTable, number: int) -> str:
    """Return the local name of a part of a table that a project exports in several files."""
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
                    n = n_rows - before + reader.n_refused
                    if place > BYTES_AT_FIRST + BYTES_PER_RECORD * n:
                        raise RemoteProtocolError(f"it holds {n} records only: refused")
                reader.close()
            except RemoteProtocolError as error:
                raise RemoteProtocolError(f"{source.name}, after {place} bytes: {error}") from error
            _check_refused(source, reader, n_rows - before)
            n_refused, last = n_refused + reader.n_refused, reader.last_id
            in_order = in_order and reader.in_order
    return n_rows, n_refused, in_order


def _check_refused(source: Path, reader: wire.ExportReader, n_rows: int) -> None:
    if reader.n_refused > LARGEST_SHARE_REFUSED * (n_rows + reader.n_refused):
        raise RemoteProtocolError(
            f"{source.name}: {reader.n_refused} of {n_rows + reader.n_refused} records are invalid, the first one because"
            f" {reader.first_refusal}"
        )
