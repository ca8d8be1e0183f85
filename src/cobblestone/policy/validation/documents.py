"""Output files as documents: JSON by structure, tables and text by lines, NumPy arrays, archives, or plain bytes.

The content decides what a file is; its name is a hint, which also makes the promise that a file must keep: an
output named ``x.json`` that is not JSON is malformed, while a text that only begins like JSON is a text.

Files are as hostile as their writers.  What a file would take in memory is estimated, from the characters that begin values,
before it is read, and time grows with its size alone.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn, cast

from cobblestone.policy.validation.archives import (
    GZIP_MAGIC,
    ZIP_MAGIC,
    MalformedOutput,
    ReadLimits,
    gunzip,
    unzip,
)
from cobblestone.policy.validation.numpy_files import NPY_MAGIC, ArrayDocument, RecordsDocument, read_npy

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
    """Bytes that nobody understands."""

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
    """Return an object.  Which of two members of one name counts, readers do not agree: a lie could stand in the other one."""
    found = dict(pairs)
    if len(found) < len(pairs):
        name = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"{name[:60]!r} comes twice in an object")
    return found


def _refuse_depth(limits: ReadLimits) -> NoReturn:
    raise MalformedOutput("is nested more than {most} deep", most=limits.max_depth) from None


def _is_deeper(value: Json, max_depth: int) -> bool:
    """Whether a value is nested deeper; level by level, so that depth costs no stack."""
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
