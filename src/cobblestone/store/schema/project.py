"""The schema of a project's database."""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import Path

from cobblestone.store.maintenance.steps import Schema

PROJECT = Schema(what="project database", migrations=Path(__file__).parent / "migrations")

#: Names of the files in the download hierarchy that the rows need.
DOWNLOADS = "SELECT name FROM file WHERE refs > 0"
#: Names of the output files that are on disk, not in the database.
OUTPUTS = "SELECT name FROM upload WHERE data IS NULL"


def declared_types() -> dict[tuple[str, str], str]:
    """Return the types of all columns, by table and column, as SQLite names them: INTEGER, REAL, TEXT or BLOB."""
    from cobblestone.store.engine.sqlite import open_plain
    from cobblestone.store.maintenance.upgrade import upgrade  # not for commands that only name the schema

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "empty.sqlite"
        upgrade(path, PROJECT)
        with closing(open_plain(path)) as connection:
            rows = connection.execute(
                "SELECT t.name, c.name, c.type FROM sqlite_master t JOIN pragma_table_info(t.name) c"
                " WHERE t.type = 'table' AND t.name <> 'alembic_version' AND t.name NOT LIKE 'sqlite_%'"
            )
            return {(table, column): kind for table, column, kind in rows}
