"""Moves a project from SQLite to PostgreSQL: the rows, then the settings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cobblestone.domain.errors import ConfigError
from cobblestone.ops.durable_files import write_durably
from cobblestone.ops.settings import FILE_NAME
from cobblestone.server.core.project import ProjectFolder
from cobblestone.service.database_settings import settings_mode, with_database
from cobblestone.store.maintenance.copy_to_postgres import MovedTable, Progress, move
from cobblestone.store.schema.project import PROJECT
from cobblestone.store.schema.tables import metadata


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedProject:
    """What was done."""

    tables: list[MovedTable]
    settings: Path
    kept: Path  #: the SQLite database, as it was


def move_project(root: Path, address: str, *, progress: Progress) -> MovedProject:
    """Copy a stopped project's rows to PostgreSQL, compare them, and name the new database in the settings.

    Calling it again after an interruption goes on.  The SQLite database is not changed.

    Raises:
        ConfigError: it is on PostgreSQL already, or the target is not empty.
        Busy: the project is running.
        StoreError: the target cannot be reached, or something arrived differently.
    """
    folder = ProjectFolder(root.resolve())
    if folder.settings().database.url:
        raise ConfigError(
            f"The project in {root} is on PostgreSQL already, by [database] url in its settings."
        )
    with folder.lock():
        tables = move(folder.database, address, PROJECT, metadata, progress=progress)
        settings = folder.root / FILE_NAME
        text = with_database(settings.read_text(encoding="utf-8"), address)
        write_durably(settings, text.encode(), mode=settings_mode(settings, address))
    return MovedProject(tables=tables, settings=settings, kept=folder.database)
