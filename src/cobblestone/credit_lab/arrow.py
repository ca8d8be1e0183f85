"""Reading Parquet and large CSV files into NumPy arrays.  Needs the extra ``lab``; imported only when a file is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from cobblestone.domain.errors import ConfigError

BLOCK_BYTES = 4_000_000


Words = Mapping[str, Sequence[str]]
"""Columns of whole numbers that may be given by words, whose places are the numbers."""


def read_parquet(
    path: Path, *, whole_numbers: Sequence[str], figures: Sequence[str], words: Words
) -> dict[str, Any]:  # Any: NumPy arrays
    """Return the known columns of a file; figures as float64 (absent: not a number), identifiers as int64."""
    arrow: Any = import_module("pyarrow")  # Any: PyArrow has no types
    parquet: Any = import_module("pyarrow.parquet")  # Any: PyArrow has no types
    try:
        with parquet.ParquetFile(path) as file:
            names = [name for name in file.schema_arrow.names if name in (*whole_numbers, *figures)]
            table = file.read(columns=names, use_threads=False)
    except (arrow.ArrowException, OSError) as error:
        raise ConfigError(f"{path}: not a readable Parquet file ({error})") from error
    return _columns(table, path, figures, words, arrow)


def read_csv(
    path: Path, *, whole_numbers: Sequence[str], figures: Sequence[str], words: Words
) -> dict[str, Any]:  # Any: NumPy arrays
    """Return the known columns of a CSV file, as `read_parquet` gives them.

    Raises `ConfigError` when anything is out of order; a slower reader can then say where.
    """
    arrow: Any = import_module("pyarrow")  # Any: PyArrow has no types
    csv: Any = import_module("pyarrow.csv")  # Any: PyArrow has no types
    numbers = {name: arrow.int64() for name in whole_numbers if name not in words}
    known = [name for name in _header(path, csv) if name in (*whole_numbers, *figures)]
    if len(set(known)) != len(known):
        raise ConfigError(f"{path}: a column occurs twice")
    # With the types of figures given, reading is faster; text among them makes them unknown.
    for types in (numbers | {name: arrow.float64() for name in figures}, numbers):
        try:
            table = csv.read_csv(
                path,
                read_options=csv.ReadOptions(use_threads=False, block_size=BLOCK_BYTES),
                convert_options=csv.ConvertOptions(
                    column_types=types, include_columns=known, strings_can_be_null=True
                ),
            )
        except (arrow.ArrowException, OSError) as error:
            problem = error
        else:
            return _columns(table, path, figures, words, arrow)
    raise ConfigError(f"{path}: not a readable CSV file ({problem})") from problem


def _header(path: Path, csv: Any) -> list[str]:  # Any: PyArrow has no types
    arrow: Any = import_module("pyarrow")  # Any: PyArrow has no types
    try:
        with csv.open_csv(path, read_options=csv.ReadOptions(use_threads=False)) as reader:
            names: list[str] = list(reader.schema.names)
    except (arrow.ArrowException, OSError) as error:
        raise ConfigError(f"{path}: not a readable CSV file ({error})") from error
    if any(name != name.strip() for name in names):
        raise ConfigError(f"{path}: names of columns have spaces around them")
    return names


def _columns(
    table: Any, path: Path, figures: Sequence[str], words: Words, arrow: Any
) -> dict[str, Any]:  # Any: PyArrow, NumPy
    columns: dict[str, Any] = {}  # Any: NumPy arrays
    for name in table.column_names:
        column = table.column(name)
        if name in figures:
            columns[name] = _figures(column, arrow)
        else:
            try:
                if name in words and not arrow.types.is_integer(column.type):
                    column = _places(column, words[name], arrow)
                values = column.cast(arrow.int64())
            except arrow.ArrowException as error:
                raise ConfigError(f"{path}: {name}: whole numbers are required ({error})") from error
            if values.null_count:
                raise ConfigError(f"{path}: {name}: {values.null_count} values are missing")
            columns[name] = values.to_numpy()
    return columns


def _places(column: Any, words: Sequence[str], arrow: Any) -> Any:  # Any: PyArrow has no types
    """Numbers for words; those of numbers that are written as text; null for anything else."""
    compute: Any = import_module("pyarrow.compute")  # Any: PyArrow has no types
    text = column.cast(arrow.string())
    by_word = compute.index_in(text, value_set=arrow.array(list(words)))
    by_number = compute.index_in(text, value_set=arrow.array([str(place) for place in range(len(words))]))
    return compute.coalesce(by_word, by_number)


def _figures(column: Any, arrow: Any) -> Any:  # Any: PyArrow has no types
    """Return a column as float64; text becomes a number where it is one."""
    try:
        return column.cast(arrow.float64()).to_numpy()
    except arrow.ArrowException:
        return np.array([_number(value) for value in column.to_pylist()], dtype=np.float64)


def _number(value: object) -> float:
    try:
        return float(str(value))
    except ValueError:
        return float("nan")
