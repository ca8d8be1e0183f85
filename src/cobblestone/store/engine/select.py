"""The engine that belongs to the location of a database."""

from __future__ import annotations

from pathlib import Path

from cobblestone.domain.errors import ConfigError
from cobblestone.ops.installation import how_to_install
from cobblestone.store.engine.engine import Engine

POSTGRES_PREFIXES = ("postgresql://", "postgres://")


def is_postgres(location: Path | str) -> bool:
    """Return whether a location is the address of a PostgreSQL database, not a SQLite file."""
    return isinstance(location, str) and location.startswith(POSTGRES_PREFIXES)


def engine_for(location: Path | str) -> Engine:
    """Return the engine for a SQLite file, or for an address that begins with ``postgresql://``.

    Raises:
        ConfigError: PostgreSQL's driver is not installed.
    """
    if not is_postgres(location):
        from cobblestone.store.engine.sqlite import SqliteEngine

        return SqliteEngine(Path(location))
    try:
        from cobblestone.store.engine.postgres import PostgresEngine
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"PostgreSQL's driver is not installed. Install it with: {how_to_install('postgres')}"
        ) from error
    return PostgresEngine(str(location))
