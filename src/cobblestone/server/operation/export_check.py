"""Reading an export again, ours or another project's: is it whole, and does it say what it promises?"""

from __future__ import annotations

from pathlib import Path

import msgspec

from cobblestone.domain.errors import ConfigError, RemoteProtocolError
from cobblestone.domain.exports import ExportedTable, ExportFormat
from cobblestone.ops.bounded_files import plain_pieces, unpacked_pieces
from cobblestone.wire.statistics_import import ExportReader, parse_tables
from cobblestone.wire.statistics_rows import row_maker

MAX_TABLES_BYTES = 10_000_000


class CheckedFile(msgspec.Struct, frozen=True, kw_only=True):
    """What a file of an export holds."""

    name: str
    records: int = 0
    refused: int = 0  #: records with numbers that cannot be, or without their own
    problem: str = ""  #: empty: none


def check_export(folder: Path) -> list[CheckedFile]:
    """Read all files of an export.

    Raises:
        ConfigError: there is none in the folder.
    """
    tables = folder / "tables.xml"
    if not tables.is_file():
        raise ConfigError(f"{folder} holds no export: there is no tables.xml in it.")
    found = {
        table: checked for table in ExportedTable if (checked := _check_table(folder, table)) is not None
    }
    return [_check_totals(tables, found), *found.values()]


def _check_table(folder: Path, table: ExportedTable) -> CheckedFile | None:
    for kind in (ExportFormat.GZIP, ExportFormat.PLAIN):
        path = folder / kind.file_name(table)
        if path.is_file():
            break
    else:
        return None
    reader, count, problem = ExportReader(table, row_maker(table)), 0, ""
    try:
        for data in unpacked_pieces(path) if kind is ExportFormat.GZIP else plain_pieces(path):
            count += len(reader.receive(data))
        reader.close()
    except (RemoteProtocolError, OSError) as error:
        problem = str(error)
    if reader.n_refused and not problem:
        problem = f"{reader.n_refused} records are refused, the first one because {reader.first_refusal}"
    return CheckedFile(name=path.name, records=count, refused=reader.n_refused, problem=problem)


def _check_totals(path: Path, found: dict[ExportedTable, CheckedFile]) -> CheckedFile:
    try:
        with path.open("rb") as file:
            totals = parse_tables(file.read(MAX_TABLES_BYTES).decode("utf-8", "replace"))
    except (RemoteProtocolError, OSError) as error:
        return CheckedFile(name=path.name, problem=str(error))
    wrong = [
        f"it counts {counted} of {table}, the file holds {found[table].records}"
        for table, counted in (
            (ExportedTable.USER, totals.n_users),
            (ExportedTable.TEAM, totals.n_teams),
            (ExportedTable.HOST, totals.n_hosts),
        )
        if table in found and counted != found[table].records
    ]
    return CheckedFile(name=path.name, problem="; ".join(wrong))
