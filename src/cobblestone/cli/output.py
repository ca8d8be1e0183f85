"""Output of commands: tables for people, JSON for programs, or only the essential values."""

from __future__ import annotations

import datetime
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

T = TypeVar("T")
#: Columns of a table that is piped: nothing is folded.
_WHOLE_LINES = 10_000


@dataclass(frozen=True)
class Output:
    """Prints the results of one command on standard output.  Warnings and errors go to standard error."""

    json: bool = False
    quiet: bool = False

    @property
    def for_programs(self) -> bool:
        """Whether only values are printed, without words for people."""
        return self.json or self.quiet

    def show(self, data: object, *, lines: Sequence[str] = (), essential: Sequence[object] = ()) -> None:
        """Print one result: ``data`` as JSON, ``essential`` values one to a line, or ``lines`` for people."""
        if self.json:
            self._json(data)
        elif self.quiet:
            for value in essential:
                self._line(str(value))
        else:
            for line in lines:
                self._line(line)

    def table(
        self,
        data: object,
        columns: Sequence[str],
        rows: Sequence[Sequence[object]],
        *,
        empty: str = "",
        right: Sequence[str] = (),
    ) -> None:
        """Print a list: ``data`` as JSON, the first column only when quiet, or a table."""
        if self.json:
            self._json(data)
        elif self.quiet:
            for row in rows:
                self._line(str(row[0]))
        elif not rows:
            self._line(empty or "Nothing yet.")
        else:
            from rich.markup import escape
            from rich.table import Table

            table = Table(box=None, pad_edge=False, header_style="bold")
            for column in columns:
                table.add_column(column, justify="right" if column in right else "left", overflow="fold")
            for row in rows:
                table.add_row(*(escape(_cell(value)) for value in row))
            _console().print(table)

    def listing(
        self,
        found: Sequence[T],
        columns: Mapping[str, Callable[[T], object]],
        *,
        empty: str = "",
        right: Sequence[str] = (),
    ) -> None:
        """Print a list of values, which are its data, by columns: the title of each, and what it shows of a value."""
        rows = [[show(each) for show in columns.values()] for each in found]
        self.table(found, list(columns), rows, empty=empty, right=right)

    def done(self, data: object, sentence: str, *essential: object) -> None:
        """Print what was done: ``data`` as JSON, ``essential`` values one to a line, or a sentence for people."""
        self.show(data, lines=[sentence], essential=essential)

    def say(self, text: str) -> None:
        """Print a sentence for people only."""
        if not self.for_programs:
            self._line(text)

    def warn(self, text: str) -> None:
        """Print a warning."""
        print_error(f"Note: {text}")

    def _json(self, data: object) -> None:
        import msgspec

        self._line(msgspec.json.format(msgspec.json.encode(data), indent=2).decode())

    def _line(self, text: str) -> None:
        # No markup and no wrapping: what is printed can be copied and piped.
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def print_error(text: str) -> None:
    """Print to standard error."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def progress_bar() -> Progress:
    """Return a progress bar of counted steps, on standard error."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=error_console())


def error_console() -> Console:
    """Return a console for progress bars, on standard error."""
    from rich.console import Console

    return Console(stderr=True)


def _console() -> Console:
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else _WHOLE_LINES, highlight=False)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def named(value: object, *names: str) -> dict[str, object]:
    """Return some attributes of a value, for JSON."""
    return {name: getattr(value, name) for name in names}


def when(seconds: float | None) -> str:
    """Return a time for people, in the machine's time zone."""
    if seconds is None:
        return "-"
    return datetime.datetime.fromtimestamp(seconds).astimezone().strftime("%Y-%m-%d %H:%M")


def counted(numbers: Mapping[str, int]) -> str:
    """Return numbers by name for people, without zeros."""
    return (
        ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in numbers.items() if number)
        or "none"
    )


def size(nbytes: float) -> str:
    """Return a size for people."""
    value = float(nbytes)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 1000 or unit == "TB":
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError("the last unit takes all")


def duration(seconds: float) -> str:
    """Return a time span for people."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.3g} s"
