"""Moves a service from SQLite to PostgreSQL: the rows, then the settings."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from cobblestone.domain.errors import ConfigError
from cobblestone.ops.durable_files import write_durably
from cobblestone.service.database_settings import settings_mode, with_database
from cobblestone.store.maintenance.copy_to_postgres import MovedTable, Progress, move
from cobblestone.store.maintenance.steps import Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class Movable:
    """A service that may be moved."""

    what: str  #: ``project``
    database: Path  #: on SQLite
    settings: Path
    address: str  #: of PostgreSQL, as the settings name it; empty: it is on SQLite
    schema: Schema
    lock: Callable[[], AbstractContextManager[object]]  #: raises Busy while it runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What was done."""

    tables: list[MovedTable]
    settings: Path
    kept: Path  #: the SQLite database, as it was


def move_service(service: Movable, address: str, *, progress: Progress) -> Moved:
    """Copy a stopped service's rows to PostgreSQL, compare them, and name the new database in the settings.

    Calling it again after an interruption goes on.  The SQLite database is not changed.

    Raises:
        ConfigError: it is on PostgreSQL already, or the target is not empty.
        Busy: the service is running.
        StoreError: the target cannot be reached, or something arrived differently.
    """
    if service.address:
        raise ConfigError(
            f"The {service.what} in {service.settings.parent} is on PostgreSQL already, by [database] url in its settings."
        )
    with service.lock():
        tables = move(service.database, address, service.schema, progress=progress)
        text = with_database(service.settings.read_text(encoding="utf-8"), address)
        write_durably(service.settings, text.encode(), mode=settings_mode(service.settings, address))
    return Moved(tables=tables, settings=service.settings, kept=service.database)
