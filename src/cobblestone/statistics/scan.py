"""Reading the export of any project at speed: all records of a piece of a file at once, as columns.

A compiled function walks once over the bytes and notes where the values of each element begin and end, whatever their order and
what is beside them; values are converted column by column.  Where anything is unusual (an element twice, a tag in a value, an
odd number) the strict reader of `wire.statistics_import` takes the records of that piece instead, to the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cobblestone.domain.exports import ExportedTable
from cobblestone.wire.statistics_import import MAX_RECORD_BYTES, ExportReader, cpid_in, resolved
from cobblestone.wire.statistics_rows import ELEMENTS, Element, Form, Row, row_maker

numba: Any = import_module("numba")  # Any: neither Numba nor PyArrow has types
pa: Any = import_module("pyarrow")
pc: Any = import_module("pyarrow.compute")
Bytes = NDArray[np.uint8]
Places = NDArray[np.int32]

AT_ONCE = 1 << 20
"""Bytes of a file that are scanned together: fewer cost more calls, more cost more memory that is not in the cache."""
LEAST_RECORD = 40
"""Bytes of a usual record, at least."""
MAX_TEXT = 255
_ODD_TEXT = r"[^ -%'-~]"
"""ASCII that can be printed, without references, is what it says."""
_USUAL_CPID = "^[0-9a-f]{32}$"
_TYPES = {Form.ID: pa.int64(), Form.WHOLE: pa.int64(), Form.NUMBER: pa.float64()}
_often = lru_cache(10_000)(resolved)
"""Processors, systems and countries: many records have the same."""


class _Unusual(Exception):
    """Only the strict reader can tell."""


def schema(table: ExportedTable) -> Any:
    """Return the columns of a table."""
    return pa.schema([(each.column, _TYPES.get(each.form, pa.string())) for each in ELEMENTS[table]])


def gathered(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield some pieces as one."""
    waiting: list[bytes] = []
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= AT_ONCE:
            yield b"".join(waiting)
            waiting, size = [], 0
    yield b"".join(waiting)


class ColumnReader(ExportReader):
    """Takes the bytes of a file as they come, and gives batches of columns."""

    def __init__(self, table: ExportedTable, *, last_id: int = 0) -> None:
        super().__init__(table, row_maker(table))
        self._elements = ELEMENTS[table]
        self._schema = schema(table)
        names = [self._begin[1:-1], *(each.name for each in self._elements)]
        self._names = (
            np.frombuffer("".join(names).encode(), np.uint8),
            np.cumsum([len(name) for name in names], dtype=np.int32),
        )
        self.last_id = last_id  #: of the record before
        self.in_order = True  #: each record had a larger number than the one before

    def records(self, data: bytes) -> list[Any]:
        """Return one batch of the records in some bytes, or none."""
        try:
            columns = self._columns(data)
        except (_Unusual, pa.ArrowInvalid):
            rows: list[Row] = super().records(data)
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

    def _columns(self, data: bytes) -> list[Any]:
        """Return the columns of usual records.  Raises _Unusual, ArrowInvalid."""
        shape = (len(self._elements), len(data) // LEAST_RECORD + 1)
        begins, ends = np.empty(shape, np.int32), np.empty(shape, np.int32)
        n = _places(np.frombuffer(data, np.uint8), *self._names, MAX_RECORD_BYTES, begins, ends)
        if n < 1:
            raise _Unusual
        buffer = pa.py_buffer(data)
        return [
            _converted(_values(buffer, begins[place, :n], ends[place, :n], element.form), element)
            for place, element in enumerate(self._elements)
        ]


@numba.njit(cache=True)
def _same(data: Bytes, at: int, names: Bytes, first: int, last: int) -> bool:
    """Whether a name stands somewhere."""
    if at + last - first > data.size:
        return False
    for k in range(last - first):  # noqa: SIM110  # compiled
        if data[at + k] != names[first + k]:
            return False
    return True


@numba.njit(cache=True)
def _element_at(data: Bytes, at: int, length: int, names: Bytes, cuts: Places) -> int:
    """Return the number of the element whose tag begins at a place, or -1."""
    for element in range(len(cuts) - 1):
        if cuts[element + 1] - cuts[element] == length and _same(
            data, at, names, cuts[element], cuts[element + 1]
        ):
            return element
    return -1


@numba.njit(cache=True)
def _tag_end(data: Bytes, at: int) -> int:
    """Return where the tag ends that began before a place, or -1 if it does not, or holds what is no tag."""
    end = at
    while end < data.size and data[end] != 62:  # >
        if data[end] == 60:  # <
            return -1
        end += 1
    if end == data.size or (data[at] == 33 and not (data[end - 1] == 93 and data[end - 2] == 93)):
        return -1  # free text, <![CDATA[...]]>, with a bracket in it
    return end


@numba.njit(cache=True)
def _places(data: Bytes, names: Bytes, cuts: Places, most: int, begins: Places, ends: Places) -> int:
    """Note where the values of elements begin and end in each record (0, 0: missing); return how many records there are.

    ``names``: of the record and of its elements, one behind the other; ``cuts``: where each of them ends; ``most``: bytes of
    a record.  -1: unusual.
    """
    n, at, record = 0, 0, -1
    while at < data.size:
        if data[at] != 60:  # <
            at += 1
            continue
        at += 1
        close = _tag_end(data, at)
        if close < 0:
            return -1
        if record < 0:
            if close - at == cuts[0] and _same(data, at, names, 0, cuts[0]):
                if n == begins.shape[1]:
                    return -1
                record = at
                begins[:, n] = 0
                ends[:, n] = 0
        elif data[at] == 47:  # /
            if close - at - 1 == cuts[0] and _same(data, at + 1, names, 0, cuts[0]):
                if at - record > most:
                    return -1
                record = -1
                n += 1
        else:
            length = close - at
            element = _element_at(data, at, length, names, cuts)
            if element >= 0:
                end = close + 1
                while end < data.size and data[end] != 60:
                    end += 1
                after = end + 2 + length
                if ends[element, n] or after >= data.size or data[end + 1] != 47 or data[after] != 62:
                    return -1
                if not _same(data, end + 2, names, cuts[element], cuts[element + 1]):
                    return -1
                begins[element, n] = close + 1
                ends[element, n] = end
                close = after
        at = close + 1
    return n if record < 0 else -1


def _values(buffer: Any, begins: Places, ends: Places, form: Form) -> Any:
    """Return what is at some places; where there is nothing, what that means.  Raises _Unusual."""
    cuts = np.empty(2 * len(begins), np.int32)
    cuts[0::2], cuts[1::2] = begins, ends
    missing = ends == 0
    some = bool(missing.any())
    if some:
        if form is Form.ID:
            raise _Unusual
        np.maximum.accumulate(cuts, out=cuts)
    places = pa.array(np.arange(0, len(cuts), 2), mask=missing if some else None)
    values = pa.BinaryArray.from_buffers(pa.binary(), len(cuts) - 1, [None, pa.py_buffer(cuts), buffer]).take(
        places
    )
    return values.fill_null(b"0" if form in (Form.WHOLE, Form.NUMBER) else b"") if some else values


def _converted(values: Any, element: Element) -> Any:
    """Return a column of raw values.  Raises _Unusual, ArrowInvalid."""
    texts = values.cast(pa.string())  # not of bytes that are no UTF-8
    match element.form:
        case Form.TEXT:
            trimmed = pc.ascii_trim(texts, " ")
            return _mended(trimmed, pc.match_substring_regex(texts, _ODD_TEXT), texts, resolved)
        case Form.CPID:
            small = pc.ascii_lower(texts)
            return _mended(small, pc.invert(pc.match_substring_regex(small, _USUAL_CPID)), texts, cpid_in)
        case Form.FEW:
            known = texts.dictionary_encode()
            return pa.array(map(_often, known.dictionary.to_pylist()), pa.string()).take(known.indices)
        case Form.ID | Form.WHOLE | Form.NUMBER:
            numbers = texts.cast(pa.float64()).to_numpy()
            least = 1 if element.form is Form.ID else 0
            if not ((numbers >= least) & (numbers <= element.most)).all():
                raise _Unusual
            return pa.array(numbers if element.form is Form.NUMBER else numbers.astype(np.int64))


def _mended(quick: Any, odd: Any, texts: Any, read: Callable[[str], str]) -> Any:
    """Return texts, the odd ones of which are read one by one."""
    if pc.max(pc.binary_length(quick)).as_py() > MAX_TEXT:
        odd = pc.or_(odd, pc.greater(pc.binary_length(quick), MAX_TEXT))
    if not pc.any(odd).as_py():
        return quick
    few: Sequence[str] = texts.filter(odd).to_pylist()
    return pc.replace_with_mask(quick, odd, pa.array(map(read, few), pa.string()))
