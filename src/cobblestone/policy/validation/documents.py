"""Output files as documents: JSON by structure, tables and text by lines, NumPy arrays, archives, or plain bytes.

NumPy's ``.npy`` files, read with the standard library alone.

Format versions 1 to 3.  Booleans, integers, floats of 2, 4 and 8 bytes, complex numbers, strings, and records
of these become values in C order; other kinds (dates, long doubles, nested records) are kept as bytes.
Arrays of Python objects are refused: they are pickles, and a pickle runs code.

Source: the description of the format in NumPy's documentation, ``numpy.lib.format``.

Output files as documents: JSON by structure, tables and text by lines, NumPy arrays, archives, or plain bytes.

The content decides what a file is; its name is a hint, which also makes the promise that a file must keep: an
output named ``x.json`` that is not JSON is malformed, while a text that only begins like JSON is a text.

Files are as hostile as their writers.  What a file would take in memory is estimated, from the characters that begin values,
before it is read, and time grows with its size alone.
"""

from __future__ import annotations

import ast
import csv
import json
import math
import re
import struct
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn, cast

from cobblestone.domain.reasons import phrase
from cobblestone.policy.validation.archives import (
    GZIP_MAGIC,
    ZIP_MAGIC,
    MalformedOutput,
    ReadLimits,
    gunzip,
    unzip,
)

NPY_MAGIC = b"\x93NUMPY"

#: Larger headers are refused before they are parsed.
MAX_HEADER_NBYTES = 65_536

#: NumPy's own limit.
MAX_DIMENSIONS = 64

#: Elements along one axis, and bytes of one element, beyond what any file can hold.
MAX_SIZE = 2**62

Values = Sequence[bool] | Sequence[int] | Sequence[float] | Sequence[complex] | Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayDocument:
    """An array: ``values`` in C order; ``kind`` is ``number``, ``bool``, ``text``, or the dtype of opaque bytes."""

    shape: tuple[int, ...]
    kind: str
    values: Values | bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsDocument:
    """A structured array: one array for each named field."""

    fields: dict[str, ArrayDocument]


_INTEGERS = {"i1": "b", "i2": "h", "i4": "i", "i8": "q", "u1": "B", "u2": "H", "u4": "I", "u8": "Q"}
_FLOATS = {"f4": "f", "f8": "d"}
_COMPLEX = {"c8": "f", "c16": "d"}
_NUMBER_OBJECT, _TEXT_OBJECT = 48, 80  # bytes that one takes in CPython, with what points to it, rounded up
_LITTLE_ENDIAN = struct.pack("=H", 1) == b"\x01\x00"
_DTYPE = re.compile(r"([<>|=])(?:([A-LN-Za-ln-z])(\d{1,12})|([mM])8(?:\[\w{1,20}\])?)", re.ASCII)


def read_npy(content: bytes, limits: ReadLimits) -> tuple[ArrayDocument | RecordsDocument, ReadLimits]:
    """Read an array; returns it with the limits that are left for others.

    Raises:
        MalformedOutput: not an array file, damaged, an array of Python objects, or too large for the limits.

    """
    header, start = _read_header(content)
    dtype, fortran_order, shape = header["descr"], header["fortran_order"], header["shape"]
    if not isinstance(fortran_order, bool) or not _is_shape(shape):
        raise MalformedOutput("the array has an unknown header")
    dimensions = cast("tuple[int, ...]", shape)
    data = content[start:]
    if isinstance(dtype, list):
        return _read_records(
            cast("list[object]", dtype), dimensions, data, limits, fortran_order=fortran_order
        )
    if not isinstance(dtype, str):
        raise MalformedOutput("the array has an unknown dtype")
    count = math.prod(dimensions)
    _check_size(data, count, _itemsize(dtype), dimensions)
    left = limits.room_for(count * _memory_of_element(dtype, fortran_order=fortran_order))
    return _array(dtype, dimensions, data, fortran_order=fortran_order), left


def _read_header(content: bytes) -> tuple[dict[str, object], int]:
    """Parse the header; returns it with the offset of the data."""
    if not content.startswith(NPY_MAGIC) or len(content) < 12:
        raise MalformedOutput("not a NumPy array file")
    length_format = {1: "<H", 2: "<I", 3: "<I"}.get(content[6])
    if length_format is None:
        raise MalformedOutput("NumPy array files of version {version} are not read", version=content[6])
    (length,) = struct.unpack_from(length_format, content, 8)
    start = 8 + struct.calcsize(length_format)
    if length > MAX_HEADER_NBYTES or start + length > len(content):
        raise MalformedOutput("the header of the array is cut off or too long")
    text = content[start : start + length].decode("utf-8" if content[6] == 3 else "latin-1", errors="replace")
    try:
        header = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        raise MalformedOutput("the header of the array cannot be read") from None
    if not isinstance(header, dict) or set(cast("dict[object, object]", header)) != {
        "descr",
        "fortran_order",
        "shape",
    }:
        raise MalformedOutput("the header of the array lacks descr, fortran_order or shape")
    return cast("dict[str, object]", header), start + length


def _is_shape(shape: object) -> bool:
    if not isinstance(shape, tuple):
        return False
    sizes = cast("tuple[object, ...]", shape)
    return len(sizes) <= MAX_DIMENSIONS and all(type(size) is int and 0 <= size <= MAX_SIZE for size in sizes)


def _itemsize(dtype: str) -> int:
    """Bytes of one element."""
    parts = _DTYPE.fullmatch(dtype)
    if parts is None or parts[2] == "O":
        raise MalformedOutput(
            "arrays of dtype {dtype} are not read (Python objects could run code)", dtype=repr(dtype[:40])
        )
    size = int(parts[3] or 8) * (4 if parts[2] == "U" else 1)
    if not 0 < size <= MAX_SIZE:
        raise MalformedOutput("the elements of the array have no size, or more than a file holds")
    return size


def _memory_of_element(dtype: str, *, fortran_order: bool) -> int:
    """Bytes that one element takes in memory, rounded up."""
    size = _itemsize(dtype)
    if dtype[1] in "SU":
        return _TEXT_OBJECT + 5 * size
    if fortran_order or dtype[1:] in _COMPLEX or dtype[1:] in ("f2", "b1"):
        return _NUMBER_OBJECT + 2 * size
    return 2 * size


def _check_size(data: bytes, count: int, itemsize: int, shape: tuple[int, ...]) -> None:
    if count * itemsize != len(data):
        needed = count * itemsize
        shown = needed if needed <= MAX_SIZE else phrase("far more")
        raise MalformedOutput(
            "an array of shape {shape} needs {needed} bytes; the file has {nbytes}",
            shape=str(shape),
            needed=shown,
            nbytes=len(data),
        )


def _array(dtype: str, shape: tuple[int, ...], data: bytes, *, fortran_order: bool) -> ArrayDocument:
    kind, values = _values(dtype, data)
    if fortran_order and len(shape) > 1:
        if isinstance(values, bytes):
            kind += " (Fortran order)"
        elif len(values):
            values = _c_order(values, shape)
    return ArrayDocument(shape=shape, kind=kind, values=values)


def _values(dtype: str, data: bytes) -> tuple[str, Values | bytes]:
    order, letter, size = dtype[0], dtype[1], dtype[2:]
    code = letter + size
    if code == "b1":
        return "bool", [byte != 0 for byte in data]
    if code in _INTEGERS:
        return "number", _numbers(_INTEGERS[code], order, data)
    if code in _FLOATS:
        return "number", _numbers(_FLOATS[code], order, data)
    if code in _COMPLEX:
        parts = cast("array[float]", _numbers(_COMPLEX[code], order, data))
        return "number", list(map(complex, parts[0::2], parts[1::2]))
    if code == "f2":
        big = ">" if order == ">" or (order != "<" and not _LITTLE_ENDIAN) else "<"
        return "number", struct.unpack(f"{big}{len(data) // 2}e", data)
    if letter in "SU":
        return "text", _strings(letter, order, int(size), data)
    return dtype, data


def _numbers(typecode: str, order: str, data: bytes) -> array[int] | array[float]:
    numbers = cast("array[float]", array(typecode))
    numbers.frombytes(data)
    if (order == ">" and _LITTLE_ENDIAN) or (order == "<" and not _LITTLE_ENDIAN):
        numbers.byteswap()
    return numbers


def _strings(letter: str, order: str, length: int, data: bytes) -> list[str]:
    size = length * 4 if letter == "U" else length
    encoding = "latin-1"
    if letter == "U":
        encoding = "utf-32-be" if order == ">" else "utf-32-le"
    pieces = (data[start : start + size] for start in range(0, len(data), size))
    return [piece.decode(encoding, errors="replace").rstrip("\0") for piece in pieces]


def _c_order(values: Values, shape: tuple[int, ...]) -> Values:
    """Reorder values from Fortran order (first index fastest) to C order (last index fastest)."""
    # an axis of one place orders nothing, but costs a copy
    shape = tuple(size for size in shape if size != 1)
    if len(shape) <= 1:
        return values
    reordered: list[object] = []
    for first in range(shape[0]):
        reordered.extend(_c_order(values[first :: shape[0]], shape[1:]))
    return cast("Values", reordered)


def _read_records(
    dtype: list[object], shape: tuple[int, ...], data: bytes, limits: ReadLimits, *, fortran_order: bool
) -> tuple[ArrayDocument | RecordsDocument, ReadLimits]:
    """Read a structured array field by field; nested ones stay opaque bytes."""
    simple: list[tuple[str, str, int]] = []
    for entry in dtype:
        match entry:
            case (str() as name, str() as field_type):
                simple.append((name, field_type, _itemsize(field_type)))
            case _:
                opaque = ArrayDocument(shape=shape, kind=f"records {dtype!r} {fortran_order}", values=data)
                return opaque, limits.room_for(len(data))
    itemsize = sum(size for _, _, size in simple)
    if itemsize == 0:
        raise MalformedOutput("the elements of the array have no size")
    count = math.prod(shape)
    _check_size(data, count, itemsize, shape)
    names = [name for name, _, _ in simple if name]
    if len(set(names)) < len(names):
        raise MalformedOutput("the array has two fields of the same name")
    per_element = sum(_memory_of_element(dtype, fortran_order=fortran_order) for _, dtype, _ in simple)
    left = limits.room_for(count * per_element)
    fields: dict[str, ArrayDocument] = {}
    offset = 0
    for name, field_type, size in simple:
        column = b"".join(data[at : at + size] for at in range(offset, len(data), itemsize))
        offset += size
        if name:  # fields without a name are padding
            fields[name] = _array(field_type, shape, column, fortran_order=fortran_order)
    return RecordsDocument(fields=fields), left


Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonDocument:
    """A JSON value."""

    value: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDocument:
    """Rows of fields, with the number of the line on which each row ends."""

    rows: list[list[str]]
    lines: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDocument:
    """Lines of text, without empty ones at the end."""

    lines: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class BinaryDocument:
    """Bytes in an unknown format."""

    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveDocument:
    """Files in a file, by name."""

    members: Mapping[str, Document]


Document = (
    JsonDocument
    | TableDocument
    | TextDocument
    | BinaryDocument
    | ArrayDocument
    | RecordsDocument
    | ArchiveDocument
)


def read_document(name: str, content: bytes, limits: ReadLimits) -> Document:
    """Read an output file.

    Raises:
        MalformedOutput: larger than the limits, damaged, or not what its name promises.

    """
    return _read(name, content, limits)[0]


def _read(name: str, content: bytes, limits: ReadLimits) -> tuple[Document, ReadLimits]:
    """Read a file; returns it with the limits that are left for others."""
    if content.startswith(GZIP_MAGIC):
        content, name = gunzip(content, limits), name.removesuffix(".gz")
    if len(content) > limits.max_nbytes:
        raise MalformedOutput(
            "has {nbytes} bytes; at most {most} are compared", nbytes=len(content), most=limits.max_nbytes
        )
    promise = name.rpartition(".")[2].lower() if "." in name else ""
    match promise:
        case "json":
            return _read_json(_promised_text(content), limits)
        case "csv" | "tsv":
            text = _promised_text(content)
            return _read_table(text, "\t" if promise == "tsv" else _delimiter(text), limits)
        case "npy":
            return read_npy(content, limits)
        case "npz" | "zip":
            return _read_archive(content, limits)
        case _:
            return _read_unpromised(content, limits)


def _read_unpromised(content: bytes, limits: ReadLimits) -> tuple[Document, ReadLimits]:
    """Read a file whose name says nothing: what cannot be read in the way it looks is compared as it is."""
    if content.startswith(NPY_MAGIC):
        return read_npy(content, limits)  # nothing else looks like this
    text = _as_text(content)
    try:
        if content.startswith(ZIP_MAGIC):
            return _read_archive(content, limits)
        if text is not None and text.lstrip().startswith(("{", "[")):
            return _read_json(text, limits)
    except MalformedOutput:
        pass
    if text is None:
        return BinaryDocument(content=content), limits.room_for(len(content))
    return _read_text(text, limits)


def _as_text(content: bytes) -> str | None:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _promised_text(content: bytes) -> str:
    text = _as_text(content)
    if text is None:
        raise MalformedOutput("is not UTF-8 text")
    return text


def _read_archive(content: bytes, limits: ReadLimits) -> tuple[ArchiveDocument, ReadLimits]:
    members: dict[str, Document] = {}
    for name, data in unzip(content, limits).items():
        members[name], limits = _member(name, data, limits)
    return ArchiveDocument(members=members), limits


def _member(name: str, content: bytes, limits: ReadLimits) -> tuple[Document, ReadLimits]:
    """Read a file of an archive; archives in archives stay bytes, so that nothing unfolds without end."""
    if content.startswith((ZIP_MAGIC, GZIP_MAGIC)):
        return BinaryDocument(content=content), limits.room_for(len(content))
    try:
        return _read(name, content, limits)
    except MalformedOutput as error:
        raise MalformedOutput("{name} in the archive: {problem}", name=name, problem=error.why) from None


# Bytes that a value takes in CPython, with what points to it, rounded up; of a character in a text that is not ASCII.
_JSON_ITEM, _JSON_LIST, _JSON_OBJECT, _LINE, _CELL, _CHARACTER = 120, 120, 260, 70, 80, 4


def _text_nbytes(text: str) -> int:
    return len(text) * (1 if text.isascii() else _CHARACTER)


def _read_json(text: str, limits: ReadLimits) -> tuple[JsonDocument, ReadLimits]:
    n_items = text.count(",") + text.count(":")
    containers = text.count("[") * _JSON_LIST + text.count("{") * _JSON_OBJECT
    left = limits.room_for(_text_nbytes(text) + n_items * _JSON_ITEM + containers)
    try:
        value = cast("Json", json.loads(text, object_pairs_hook=_members))
    except json.JSONDecodeError as error:
        raise MalformedOutput(
            "is not JSON: {problem}, line {line} column {column}",
            problem=error.msg,
            line=error.lineno,
            column=error.colno,
        ) from None
    except ValueError as error:  # a number with thousands of digits, or a name that comes twice
        raise MalformedOutput("is not JSON that can be compared: {problem}", problem=str(error)) from None
    except RecursionError:
        _refuse_depth(limits)
    if _is_deeper(value, limits.max_depth):
        _refuse_depth(limits)
    return JsonDocument(value=value), left


def _members(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    """Return an object.  Readers disagree on which of two members of one name counts: the other could hide a lie."""
    found = dict(pairs)
    if len(found) < len(pairs):
        name = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"{name[:60]!r} comes twice in an object")
    return found


def _refuse_depth(limits: ReadLimits) -> NoReturn:
    raise MalformedOutput("is nested more than {most} levels deep", most=limits.max_depth) from None


def _is_deeper(value: Json, max_depth: int) -> bool:
    """Return whether a value is nested deeper; level by level, so that depth costs no stack."""
    level: list[Json] = [value]
    for _ in range(max_depth + 1):
        level = [child for each in level for child in _children(each) if isinstance(child, dict | list)]
        if not level:
            return False
    return True


def _children(value: Json) -> list[Json]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _delimiter(text: str) -> str:
    """Return the delimiter of a table: the one that is most frequent in its first line."""
    first_line = text.lstrip().partition("\n")[0]
    return max(",;\t|", key=first_line.count)


def _read_table(text: str, delimiter: str, limits: ReadLimits) -> tuple[TableDocument, ReadLimits]:
    n_lines = text.count("\n") + 1
    left = limits.room_for(
        _text_nbytes(text) + 2 * n_lines * _LINE + (text.count(delimiter) + n_lines) * _CELL
    )
    rows: list[list[str]] = []
    lines: list[int] = []
    reader = csv.reader((line + "\n" for line in text.split("\n")), delimiter=delimiter)
    try:
        for row in reader:
            if row:
                rows.append([cell.strip() for cell in row])
                lines.append(reader.line_num)
    except csv.Error as error:
        raise MalformedOutput(
            "is not a table: {problem}, line {line}", problem=str(error), line=reader.line_num
        ) from None
    return TableDocument(rows=rows, lines=lines), left


def _read_text(text: str, limits: ReadLimits) -> tuple[TextDocument, ReadLimits]:
    left = limits.room_for(_text_nbytes(text) + (text.count("\n") + 1) * _LINE)
    lines = [line.rstrip() for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return TextDocument(lines=lines), left
