"""Daily history in Parquet files: one for each new day, merged so that there are never many.

A site may keep figures for shorter steps than a day: then days have fractions.

A file is named by its first and last day (days since 1970) and sorted by key.  Only what changed on a day has a row on that
day.  A file whose days lie within another one's was merged into it and is left over from a crash.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

import duckdb

from cobblestone.statistics.store.engine import count, parquet, write_parquet

pq: Any = import_module("pyarrow.parquet")  # Any: PyArrow has no types
DAY_SECONDS = 86400.0


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A file of history."""

    first: float
    last: float
    path: Path

    @property
    def days(self) -> float:
        """Return how many days it covers."""
        return self.last - self.first + 1


def day_of(now: float, step: float) -> float:
    """Return the start of the time step, in days since 1970; the file names distinguish steps of a second."""
    return round(now // step * step / DAY_SECONDS, 5)


def spans(folder: Path) -> list[Span]:
    """Return the files of a history, oldest first; files merged into another are removed."""
    found: list[Span] = []
    for path in folder.glob("[0-9]*.parquet"):
        first, _, last = path.stem.partition("-")
        found.append(Span(float(first), float(last), path))
    kept: list[Span] = []
    for span in sorted(found, key=lambda each: (each.first, -each.last)):
        if kept and span.last <= kept[-1].last:
            span.path.unlink(missing_ok=True)
        else:
            kept.append(span)
    return kept


def add_day(
    db: duckdb.DuckDBPyConnection, folder: Path, day: float, query: str, *, key: tuple[str, ...] = ("id",)
) -> None:
    """Add the rows of a day, given by a query; earlier rows of the same day stay, unless they have the same key."""
    merge(db, folder, before=day, key=key)
    path, order = _path(folder, day, day), ", ".join(key)
    if path.exists():
        db.execute(f"CREATE OR REPLACE TEMP TABLE of_day AS {query}")
        query = f"SELECT * FROM of_day UNION ALL SELECT * FROM {parquet(path)} AS old ANTI JOIN of_day USING ({order})"
    write_parquet(db, f"SELECT * FROM ({query}) ORDER BY {order}, day", path)


def merge(
    db: duckdb.DuckDBPyConnection, folder: Path, *, before: float, key: tuple[str, ...] = ("id",)
) -> None:
    """Merge files of former days: the newest with the previous one while that is not more than twice as long."""
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
    """Remove the rows of all ids that a query gives."""
    for span in spans(folder):
        source = parquet(span.path)
        if count(db, f"SELECT count(*) FROM {source} WHERE id IN ({ids})"):
            write_parquet(db, f"SELECT * FROM {source} WHERE id NOT IN ({ids}) ORDER BY id, day", span.path)


def files(folder: Path) -> list[Path]:
    """Return the files to read."""
    return [span.path for span in spans(folder)]


def days_of(folder: Path, id_: int) -> Iterator[tuple[float, float, float]]:
    """Yield day, total and recent credit of one user, computer or team, oldest first.

    Pages ask for many of these, each from a few files: finding the place by what is known of the files takes a fraction of a
    millisecond, planning a query some.
    """
    for path in files(folder):
        with path.open("rb") as file:
            facts = os.fstat(file.fileno())
            about, lasts = _about(path, facts.st_mtime_ns, facts.st_size)
            group = bisect_left(lasts, id_)
            # Without a second thread that reads ahead: waiting for it takes longer than reading so little.
            parquet_file = pq.ParquetFile(file, metadata=about, pre_buffer=False)
            while group < len(lasts):
                rows = parquet_file.read_row_group(group, use_threads=False)
                ids = rows.column("id").to_numpy()
                begin, end = ids.searchsorted(id_, "left"), ids.searchsorted(id_, "right")
                for row in rows.slice(begin, end - begin).to_pylist():
                    yield row["day"], row["total"], row["recent"]
                if end < len(ids):  # others follow: the next group has none of these
                    break
                group += 1


@lru_cache(10_000)
def _about(path: Path, changed: int, size: int) -> tuple[Any, list[int]]:
    """Return the footer of a file, and the last id of each of its row groups."""
    about = pq.read_metadata(path)
    place = about.schema.names.index("id")
    return about, [
        about.row_group(group).column(place).statistics.max for group in range(about.num_row_groups)
    ]


def _path(folder: Path, first: float, last: float) -> Path:
    return folder / f"{_number(first)}-{_number(last)}.parquet"


def _number(day: float) -> str:
    return f"{day:06.0f}" if day == int(day) else f"{day:012.5f}"
