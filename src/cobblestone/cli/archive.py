"""``cobblestone archive``: jobs that were moved out of the project's database."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Annotated

import typer

from cobblestone.cli.options import Commands, JsonOption, ProjectOption, QuietOption, local_folder, output

NOTHING_YET = "Nothing is in the archive yet: finished jobs go there after files.purge_after."

commands = Commands(no_args_is_help=True, help="Finished jobs that were moved out of the database.")


def register(root: typer.Typer) -> None:
    """Add the commands."""
    root.add_typer(commands, name="archive")


@commands.callback()
def _group() -> None:
    """Finished jobs that were moved out of the database."""


def _archive(project: str | None) -> Path:
    """Return the database of the archive, with all that other machines have put there."""
    from cobblestone.server.core.project import ProjectFolder
    from cobblestone.server.core.storage import archive_of, open_storage
    from cobblestone.store.work import archive

    folder = ProjectFolder(local_folder(project))
    settings = folder.settings()
    where = archive_of(folder, settings, open_storage(folder.root, settings.storage))
    archive.follow(where)
    return where.path


@commands.command("query")
def query(
    sql: Annotated[
        str,
        typer.Argument(
            metavar="SQL",
            help="A query over the tables workunit, result and result_text, which have the columns that they had.",
            show_default=False,
        ),
    ],
    project: ProjectOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Ask the archive, e.g. "SELECT name, granted_credit FROM result WHERE user_id = 1"."""
    from cobblestone.domain.errors import ConfigError
    from cobblestone.store.work import archive

    path = _archive(project)
    try:
        columns, rows = archive.query(path, sql)
    except FileNotFoundError as error:
        raise ConfigError(NOTHING_YET) from error
    except sqlite3.Error as error:
        raise ConfigError(f"The query failed: {error}.") from error
    data = [dict(zip(columns, row, strict=True)) for row in rows]
    output(json, quiet).table(data, columns, rows, empty="No rows.")


@commands.command("export")
def export(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="Where the files are to be; made if it is missing.", show_default=False
        ),
    ],
    project: ProjectOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write the archive as Parquet, a file for each table, for pandas, DuckDB, R and the like."""
    from rich.status import Status

    from cobblestone.cli.output import error_console
    from cobblestone.domain.errors import ConfigError
    from cobblestone.server.operation.archive_export import export_archive

    path = _archive(project)
    try:
        with Status("", console=error_console()) as status:
            made = export_archive(
                path, folder, report=status.update if not (json or quiet) else lambda what: None
            )
    except FileNotFoundError as error:
        raise ConfigError(NOTHING_YET) from error
    output(json, quiet).show(
        {"place": str(folder), "rows": made},
        lines=[f"{folder / name}: {count} rows" for name, count in made.items()],
        essential=[folder],
    )
