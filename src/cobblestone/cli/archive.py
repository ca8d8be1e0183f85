"""``cobblestone archive``: jobs that were moved out of the project's database."""

from __future__ import annotations

import sqlite3
from typing import Annotated

import typer

from cobblestone.cli.options import Commands, JsonOption, ProjectOption, QuietOption, local_folder, output

commands = Commands(no_args_is_help=True, help="Finished jobs that were moved out of the database.")


def register(root: typer.Typer) -> None:
    """Add the commands."""
    root.add_typer(commands, name="archive")


@commands.callback()
def _group() -> None:
    """Finished jobs that were moved out of the database."""  # a group even though it has one verb


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
    from cobblestone.server.core.project import ProjectFolder
    from cobblestone.server.core.storage import archive_of, open_storage
    from cobblestone.store.work import archive

    folder = ProjectFolder(local_folder(project))
    settings = folder.settings()
    where = archive_of(folder, settings, open_storage(folder.root, settings.storage))
    archive.follow(where)
    try:
        columns, rows = archive.query(where.path, sql)
    except FileNotFoundError as error:
        raise ConfigError(
            "Nothing is in the archive yet: finished jobs go there after files.purge_after."
        ) from error
    except sqlite3.Error as error:
        raise ConfigError(f"The query failed: {error}.") from error
    data = [dict(zip(columns, row, strict=True)) for row in rows]
    output(json, quiet).table(data, columns, rows, empty="No rows.")
