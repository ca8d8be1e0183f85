"""Lists of jobs in files: CSV with a header, or JSON lines."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import cast

import msgspec

from cobblestone.api_schema.faults import find_json_fault
from cobblestone.domain.errors import JobError
from cobblestone.sdk.jobs import Input, Job

_COLUMNS = ("name", "priority", "command_line")
MAX_FIELD = 1_000_000


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    """A line of a JSON lines file."""

    inputs: str | list[str] | dict[str, str] = msgspec.field(default_factory=list[str])
    args: dict[str, str | int | float | bool] = msgspec.field(
        default_factory=dict[str, str | int | float | bool]
    )
    name: str = ""
    priority: int = 0
    command_line: str = ""


def read_jobs(path: Path, *, input_names: Collection[str]) -> Iterator[Job]:
    """Yield the jobs of a ``.csv`` or ``.jsonl`` file; paths in it are relative to its folder.

    CSV: columns named as an input of the app (``input_names``), or ``input:NAME``, hold paths; ``name``, ``priority`` and
    ``command_line`` are those of the job; every other column is an argument.

    Raises:
        JobError: the file cannot be read; the text names the line.
    """
    reader = {".csv": _read_csv, ".jsonl": _read_json_lines}.get(path.suffix.lower())
    if reader is None:
        raise JobError(f"--jobs {path}: the file must end in .csv or .jsonl.")
    try:
        yield from reader(path, input_names)
    except (OSError, UnicodeDecodeError) as error:
        raise JobError(f"--jobs {path} cannot be read: {error}.") from error


def _read_csv(path: Path, input_names: Collection[str]) -> Iterator[Job]:
    csv.field_size_limit(MAX_FIELD)
    with path.open(encoding="utf-8-sig", newline="") as handle:
        rows = csv.reader(handle)
        try:
            header = [column.strip() for column in next(rows, list[str]())]
            _check_header(path, header)
            for row in rows:
                if not row:
                    continue
                if len(row) != len(header):
                    raise JobError(
                        f"{path}, line {rows.line_num}: {len(row)} values, but the header has {len(header)} columns."
                    )
                yield _csv_job(path, rows.line_num, dict(zip(header, row, strict=True)), input_names)
        except csv.Error as error:
            raise JobError(f"{path}, line {rows.line_num}: {error}.") from error


def _check_header(path: Path, header: list[str]) -> None:
    if not header or not all(header):
        raise JobError(f"{path}, line 1: the first line must name the columns, e.g. input,k")
    twice = [name for place, name in enumerate(header) if name in header[:place]]
    if twice:
        raise JobError(f"{path}, line 1: the column {twice[0]!r} stands twice.")


def _csv_job(path: Path, line: int, row: Mapping[str, str], input_names: Collection[str]) -> Job:
    inputs: dict[str, Input] = {}
    args: dict[str, object] = {}
    for column, value in row.items():
        name = column.removeprefix("input:")
        if name != column or column in input_names:
            if value.strip():
                inputs[name] = path.parent / value.strip()
        elif column not in _COLUMNS:
            args[column] = value
    try:
        priority = int(row.get("priority", "").strip() or 0)
    except ValueError:
        raise JobError(f"{path}, line {line}: priority {row['priority']!r} is not a whole number.") from None
    return Job(
        inputs=inputs,
        args=args,
        name=row.get("name", "").strip() or _stem(inputs),
        priority=priority,
        command_line=row.get("command_line", ""),
    )


def _read_json_lines(path: Path, input_names: Collection[str]) -> Iterator[Job]:
    with path.open("rb") as handle:
        for number, text in enumerate(handle, start=1):
            if not text.strip():
                continue
            try:
                line = msgspec.json.decode(text, type=_Line)
            except msgspec.ValidationError as error:
                fault = find_json_fault(error, text, _Line)
                raise JobError(f"{path}, line {number}: {fault.message}") from error
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise JobError(f"{path}, line {number}: {error}.") from error
            yield _line_job(path, line)


def _line_job(path: Path, line: _Line) -> Job:
    inputs: list[Input] | dict[str, Input]
    match line.inputs:
        case str(one):
            inputs = [path.parent / one]
        case list(several):
            inputs = [path.parent / each for each in several]
        case named:
            inputs = {name: path.parent / each for name, each in named.items()}
    return Job(
        inputs=inputs,
        args=cast("Mapping[str, object]", line.args),
        name=line.name or _stem(inputs),
        priority=line.priority,
        command_line=line.command_line,
    )


def _stem(inputs: Mapping[str, Input] | list[Input]) -> str:
    values = list(inputs.values()) if isinstance(inputs, Mapping) else inputs
    return values[0].stem if len(values) == 1 and isinstance(values[0], Path) else ""
