"""What moving a service from SQLite to PostgreSQL shows, whichever service it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from cobblestone.cli.options import output

if TYPE_CHECKING:
    from cobblestone.service.moving import Moved

ToOption = Annotated[
    str,
    typer.Option(
        "--to",
        metavar="postgresql://USER@HOST/DATABASE",
        help="An empty PostgreSQL database.",
        show_default=False,
    ),
]


def move_and_show(
    move: Callable[[Callable[[str, int, int], None]], Moved], *, start: str, json: bool, quiet: bool
) -> None:
    """Move with a bar of progress, which ``move`` reports to.  ``start``: the command that starts the service."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from cobblestone.cli.output import error_console

    columns = (TextColumn("{task.description:20}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = error_console()
    with Progress(*columns, console=console, disable=json or quiet or not console.is_terminal) as bar:
        task = bar.add_task("", total=None)
        moved = move(
            lambda name, done, total: bar.update(task, description=name, completed=done, total=total)
        )
    out = output(json, quiet)
    n_rows = sum(table.rows for table in moved.tables)
    stripped = sum(table.stripped for table in moved.tables)
    if stripped:
        out.warn(f"NUL characters were left out of {stripped} rows: PostgreSQL cannot hold them.")
    out.show(
        {"rows": n_rows, "tables": moved.tables, "settings": str(moved.settings), "kept": str(moved.kept)},
        lines=[
            f"Moved {n_rows} rows of {len(moved.tables)} tables, and compared them: they are the same.",
            f"{moved.settings} names the new database.",
            f"{moved.kept} is as it was; delete it when you do not need it any more.",
            "",
            "Next:",
            f"  {start}",
        ],
        essential=[n_rows],
    )
