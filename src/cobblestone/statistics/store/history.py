"""History of days in Parquet files: one for each new day, merged so that there are never many.

A file is named by its first and last day (days since 1970) and sorted by key.  Only what changed on a day has a row on that
day.  A file whose days lie within another one's was merged into it and is left over from a crash.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import duckdb

from cobblestone.statistics.store.engine import count, parquet, write_parquet


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A file of history."""

    first: int
    last: int
    path: Path

    @property
    def days(self) -> int:
        """How many days it covers."""
        return self.last - self.first + 1


def spans(folder: Path) -> list[Span]:
    """Return the files of a history, the oldest first; what was merged into another is removed."""
    found: list[Span] = []
    for path in folder.glob("[0-9]*.parquet"):
        first, _, last = path.stem.partition("-")
        found.append(Span(int(first), int(last), path))
    kept: list[Span] = []
    for span in sorted(found, key=lambda each: (each.first, -each.last)):
        if kept and span.last <= kept[-1].last:
            span.path.unlink(missing_ok=True)
        else:
            kept.append(span)
    return kept


def add_day(
    db: duckdb.DuckDBPyConnection, folder: Path, day: int, query: str, *, key: tuple[str, ...] = ("id",)
) -> None:
    """Add the rows of a day, given by a query; those of the same day that came before stay, unless they have the same key."""
    merge(db, folder, before=day, key=key)
    path, order = _path(folder, day, day), ", ".join(key)
    if path.exists():
        db.execute(f"CREATE OR REPLACE TEMP TABLE of_day AS {query}")
        query = f"SELECT * FROM of_day UNION ALL SELECT * FROM {parquet(path)} AS old ANTI JOIN of_day USING ({order})"
    write_parquet(db, f"SELECT * FROM ({query}) ORDER BY {order}, day", path)


def merge(
    db: duckdb.DuckDBPyConnection, folder: Path, *, before: int, key: tuple[str, ...] = ("id",)
) -> None:
    """Merge files of former days, the newest with the one before while that is not more than twice as long."""
    found = [span for span in spans(folder) if span.last < before]
    while len(found) > 1 and 2 * found[-1].days >= found[-2].days:
        last, earlier = found.pop(), found.pop()
        path = _path(folder, earlier.first, last.last)
        order = ", ".join((*key, "day"))
        write_parquet(db, f"SELECT * FROM {parquet([earlier.path, last.path])} ORDER BY {order}", path)
        earlier.path.unlink()
        last.path.unlink()
        found.append(Span(earlier.first, last.last, path))


def forget(db: duckdb.DuckDBPyConnection, folder: Path, ids: str) -> None:
    """Remove the rows of everybody whose id a query gives."""
    for span in spans(folder):
        source = parquet(span.path)
        if count(db, f"SELECT count(*) FROM {source} WHERE id IN ({ids})"):
            write_parquet(db, f"SELECT * FROM {source} WHERE id NOT IN ({ids}) ORDER BY id, day", span.path)


def files(folder: Path) -> Iterable[Path]:
    """Return the files to read."""
    return [span.path for span in spans(folder)]


def _path(folder: Path, first: int, last: int) -> Path:
    return folder / f"{first:06d}-{last:06d}.parquet"
