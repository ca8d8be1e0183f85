"""A table of jobs as CSV: a row for each job, whose columns are its input files, its arguments, and its name.

Commas, semicolons or tabs stand between columns; the first line, which names the columns, tells which.  Linear in the text.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from cobblestone.domain.errors import JobError
from cobblestone.domain.reasons import Reason, reason
from cobblestone.domain.values import value

#: Columns that are neither inputs nor arguments.
OWN_COLUMNS = ("name", "priority", "command_line")
_ARCHIVES = (b"PK\x03\x04", b"\x1f\x8b", b"7z\xbc\xaf", b"\xfd7zXZ")


class TableFault(JobError):
    """A fault of a table, with its place."""

    def __init__(self, row: int, why: Reason, column: str = "") -> None:
        """``row``: line of the file, from 1; ``column``: its name, or number; empty: the whole row."""
        super().__init__(f"line {row}{f', column {column!r}' if column else ''}: {why.text()}")
        self.row = row
        self.column = column
        self.why = why


@value(kw_only=True)
class TableRow:
    """A job as a row describes it."""

    row: int  #: line of the file in which it begins, from 1
    empty: bool
    inputs: Mapping[str, str]  #: what is written for each input; inputs without are left out
    columns: Mapping[str, str]  #: the column of each input
    args: Mapping[str, str]
    name: str
    priority: int
    command_line: str


def decode_table(content: bytes) -> str:
    """Return the text of a table.

    Raises:
        TableFault: it is not UTF-8, or is a packed archive.
    """
    if content.startswith(_ARCHIVES):
        raise TableFault(1, reason("packed", "This is a packed archive, not a table. Unpack it first."))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = _lines(content[: error.start].decode("utf-8-sig", "replace"))
        why = reason("not_utf8", "The text is not UTF-8. In a spreadsheet, save it as “CSV UTF-8”.")
        raise TableFault(len(before), why, _column(before, len(before))) from None


def read_table(text: str, input_names: Collection[str]) -> Iterator[TableRow | TableFault]:
    """Yield the jobs of a table, and the faults of rows in their places; empty rows at its end are left out.

    Columns named as one of ``input_names``, or ``input:NAME``, name files; ``name``, ``priority`` and ``command_line`` are
    those of the job; every other column is an argument.

    Raises:
        TableFault: its columns cannot be told.
    """
    lines = _lines(text)
    rows = csv.reader(lines, delimiter=_delimiter(lines), strict=True)
    line = 1
    waiting: list[TableRow] = []  # empty rows, which may be the last ones
    try:
        header = _header([column.strip() for column in next(rows, list[str]())])
        line = rows.line_num + 1
        for row in rows:
            if not any(field.strip() for field in row):
                waiting.append(_row(line, header, [""] * len(header), input_names))
            else:
                yield from waiting
                waiting.clear()
                try:
                    yield _row(line, header, row, input_names)
                except TableFault as fault:
                    yield fault
            line = rows.line_num + 1
    except csv.Error as error:
        inside = "".join(lines[line - 1 : rows.line_num])
        if inside.count('"') % 2 or "expected after" in str(error):
            why = reason("open_quote", 'A quote (") is opened here and not closed before the next column.')
        else:
            why = reason("bad_csv", "The table cannot be read here: {error}.", error=str(error))
        raise TableFault(line, why, _column(lines, line, rows.line_num)) from None


def _lines(text: str) -> list[str]:
    *whole, last = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return [*(f"{line}\n" for line in whole), last]


def _delimiter(lines: Sequence[str]) -> str:
    return max(",;\t", key=lines[0].count)


def _column(lines: Sequence[str], first: int, last: int = 0) -> str:
    """Return the name of the column in which a record stops that goes from the first of these lines to the last, or the end.

    If a quote is not closed, or text follows where it is, that is its column.
    """
    delimiter = _delimiter(lines)
    parts = "".join(lines[first - 1 : last or None]).split('"')  # the second, fourth … are quoted
    after = {
        place: parts[place + 1][:1] if place + 1 < len(parts) else '"' for place in range(1, len(parts), 2)
    }
    bad = (place for place, letter in after.items() if letter not in f"{delimiter}\n")
    end = next(bad, len(parts) - 1)
    number = sum(part.count(delimiter) for part in parts[: end + 1 : 2])
    names = lines[0].strip().split(delimiter) if first > 1 else []
    return names[number].strip(' "') if number < len(names) else str(number + 1)


def _header(header: list[str]) -> list[str]:
    if not header or not all(header):
        why = reason("no_columns", "The first line must name the columns, e.g. input,k")
        raise TableFault(1, why, str(header.index("") + 1) if header else "")
    twice = {name for name, count in Counter(header).items() if count > 1}
    if name := next((each for each in header if each in twice), ""):
        raise TableFault(1, reason("column_twice", "The column {name} occurs twice.", name=repr(name)), name)
    return header


def _row(line: int, header: Sequence[str], row: Sequence[str], input_names: Collection[str]) -> TableRow:
    if len(row) != len(header):
        sizes = {"n": len(row), "columns": len(header)}
        why = reason(
            "wrong_length", "The row has values: {n}, but the header has columns: {columns}.", **sizes
        )
        raise TableFault(line, why)
    inputs: dict[str, str] = {}
    columns: dict[str, str] = {}
    args: dict[str, str] = {}
    own = dict.fromkeys(OWN_COLUMNS, "")
    for column, field in zip(header, row, strict=True):
        name = column.removeprefix("input:")
        if name != column or column in input_names:
            columns[name] = column
            if field.strip():
                inputs[name] = field.strip()
        elif column in own:
            own[column] = field
        else:
            args[column] = field
    try:
        priority = int(own["priority"].strip() or 0)
    except ValueError:
        why = reason("bad_priority", "{text} is not a whole number.", text=repr(own["priority"][:40]))
        raise TableFault(line, why, "priority") from None
    return TableRow(
        row=line,
        empty=not any(row),
        inputs=inputs,
        columns=columns,
        args=args,
        name=own["name"].strip(),
        priority=priority,
        command_line=own["command_line"],
    )
