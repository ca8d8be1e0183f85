"""DuckDB connections: in memory for work on Parquet files, read-only for pages."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import duckdb

from cobblestone.ops.files import sync_file, sync_folder

pq: Any = import_module("pyarrow.parquet")  # Any: PyArrow has no types
#: Rows that are read at least to find one.
ROW_GROUP = 2_048
#: Rows of a group where all are read: DuckDB's own number, and a tenth less work than small groups.
WHOLE = 122_880
HALF_LIFE_SECONDS = 7 * 86400


def workbench(scratch: Path, *, threads: int = 1, memory: str = "1GB") -> duckdb.DuckDBPyConnection:
    """Return a connection for work on files; data that does not fit into memory goes to ``scratch``."""
    return duckdb.connect(
        config={"threads": threads, "memory_limit": memory, "temp_directory": str(scratch / "duckdb")}
    )


def text(value: str | Path) -> str:
    """Return a trusted text (a path, a name) as an SQL literal."""
    return "'" + str(value).replace("'", "''") + "'"


def parquet(paths: Path | Iterable[Path], options: str = "") -> str:
    """Return the SQL that reads Parquet files."""
    files = [paths] if isinstance(paths, Path) else list(paths)
    return f"read_parquet([{', '.join(map(text, files))}]{options})"


#: What columns hold in rows written by an earlier version, which lack them.
_FORMERLY = {"gpus": "''", "claimed": "0.0::DOUBLE", "type": "0"}


def known(path: Path, columns: str) -> str:
    """Return the SQL for columns of a Parquet file, in which an earlier version may not have written all."""
    there = pq.read_schema(path).names
    found = ", ".join(
        each if each in there else f"{_FORMERLY[each]} AS {each}" for each in columns.split(", ")
    )
    return f"SELECT {found} FROM {parquet(path)}"


def write_parquet(db: duckdb.DuckDBPyConnection, query: str, target: Path, *, group: int = ROW_GROUP) -> None:
    """Write the rows of a query, atomically."""
    # LZ4: twice the room of Zstandard, and a page with hundreds of small parts is read in half the time.
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        db.execute(
            f"COPY ({query}) TO {text(temporary)} (FORMAT parquet, COMPRESSION lz4, ROW_GROUP_SIZE {group})"
        )
        sync_file(temporary)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(target.parent)


def decayed(value: str, time: str, now: float) -> str:
    """Return the SQL for an average decayed to ``now``; one from the future is taken as of now."""
    return f"{value} * pow(2, -greatest(0, {now!r} - {time}) / {HALF_LIFE_SECONDS})"


def count(db: duckdb.DuckDBPyConnection, query: str) -> int:
    """Return the single number of a query."""
    (number,) = db.execute(query).fetchall()[0]
    return int(number)
