"""The archive as Parquet, for researchers: one file for each table, with the columns and types of the project's database."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cobblestone.ops.durable_files import sync_file, sync_folder
from cobblestone.server.operation.export_files import ROW_GROUP, load_arrow
from cobblestone.store.schema.tables import metadata
from cobblestone.store.work import archive

ARROW_TYPES: Mapping[type, str] = {int: "int64", float: "double", str: "string", bytes: "binary"}


def export_archive(path: Path, folder: Path, *, report: Callable[[str], object]) -> dict[str, int]:
    """Write the tables of an archive, as they are at one moment, into ``folder``; return their rows by name of the file.

    Each file appears whole, in place of an older one; whatever is killed, there is no half one.

    Raises:
        FileNotFoundError: nothing was archived yet.
        ConfigError: what writes Parquet is not installed.
    """
    arrow, parquet = load_arrow()
    folder.mkdir(parents=True, exist_ok=True)
    rows: dict[str, int] = {}
    with archive.reading(path) as connection:
        for table in archive.TABLES:
            columns, portions = archive.portions(connection, table, size=ROW_GROUP)
            if not columns:
                continue
            schema = arrow.schema([(name, _arrow_type(table, name)) for name in columns])
            target = folder / f"{table}.parquet"
            partial = folder / f".{target.name}.{secrets.token_hex(4)}"
            try:
                with parquet.ParquetWriter(partial, schema, compression="zstd") as writer:
                    rows[target.name] = 0
                    for portion in portions:
                        writer.write_batch(_batch(arrow, schema, portion))
                        rows[target.name] += len(portion)
                        report(f"{target.name}: {rows[target.name]:,} rows")
                sync_file(partial)
                partial.replace(target)
            finally:
                partial.unlink(missing_ok=True)
    sync_folder(folder)
    return rows


def _arrow_type(table: str, name: str) -> str:
    known = metadata.tables[table].columns.get(name)
    return (
        "string" if known is None else ARROW_TYPES[known.type.python_type]
    )  # None: the schema has it no more


def _batch(arrow: Any, schema: Any, rows: list[tuple[Any, ...]]) -> Any:  # Any: modules without exact types
    columns = zip(*rows, strict=True)
    return arrow.record_batch(
        [arrow.array(column, type=kind) for column, kind in zip(columns, schema.types, strict=True)],
        schema=schema,
    )
