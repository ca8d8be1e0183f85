"""``cobblestone paper``: reproduce the figures of the 2007 scheduling paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from cobblestone.domain.errors import CobblestoneError
from cobblestone.simulator.paper.reproduce import reproduce


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("paper")(paper_command)


def paper_command(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="OUT", help="Folder for pictures, tables and report; an interrupted run goes on there."
        ),
    ],
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="Replicates per point.")] = 10,
    scheduler: Annotated[
        str, typer.Option(help="dask://host:port or dask://local instead of this machine's cores.")
    ] = "",
    workers: Annotated[
        int | None, typer.Option(min=1, max=1024, help="Processes; default: one per core.")
    ] = None,
    literal: Annotated[
        bool, typer.Option(help="Also follow the simulator of 2007 draw by draw (slow).")
    ] = True,
) -> None:
    """Reproduce Tables 1-4 and Figures 1-6 of Kondo, Anderson, McLeod (2007)."""
    bar = Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with bar:
        line = bar.add_task("cells", total=None)

        def progress(done: int, total: int) -> None:
            bar.update(line, completed=done, total=total)

        try:
            report = reproduce(
                folder, seeds=seeds, scheduler=scheduler, workers=workers, literal=literal, progress=progress
            )
        except CobblestoneError as error:
            typer.echo(f"error: {error}", err=True)
            raise typer.Exit(2) from error
        except KeyboardInterrupt:
            typer.echo(f"interrupted; the same command goes on from what is in {folder}", err=True)
            raise typer.Exit(130) from None
    typer.echo(f"report: {report}")
