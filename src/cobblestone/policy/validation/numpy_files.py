"""NumPy's ``.npy`` files, read with the standard library alone.

Format versions 1 to 3.  Booleans, integers, floats of 2, 4 and 8 bytes, complex numbers, strings, and records
of these become values in C order; other kinds (dates, long doubles, nested records) are kept as bytes.
Arrays of Python objects are refused: they are pickles, and a pickle runs code.

Source: the description of the format in NumPy's documentation, ``numpy.lib.format``.
"""

from __future__ import annotations

import ast
import math
import re
import struct
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from cobblestone.domain.reasons import phrase
from cobblestone.policy.validation.archives import MalformedOutput, ReadLimits

NPY_MAGIC = b"\x93NUMPY"

MAX_HEADER_NBYTES = 65_536
"""Larger headers are refused before they are parsed."""

MAX_DIMENSIONS = 64
"""NumPy's own limit."""

MAX_SIZE = 2**62
"""Elements along one axis, and bytes of one element, beyond what any file can hold."""

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
        raise MalformedOutput("the array has a strange header")
    dimensions = cast("tuple[int, ...]", shape)
    data = content[start:]
    if isinstance(dtype, list):
        return _read_records(
            cast("list[object]", dtype), dimensions, data, limits, fortran_order=fortran_order
        )
    if not isinstance(dtype, str):
        raise MalformedOutput("the array has a strange dtype")
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
    """Reorder values that lie in Fortran order (first index fastest) to C order (last index fastest)."""
    shape = tuple(
        size for size in shape if size != 1
    )  # an axis of one place orders nothing, but costs a copy
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
        raise MalformedOutput("the array has two fields of one name")
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
