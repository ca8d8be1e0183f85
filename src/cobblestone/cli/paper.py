"""``cobblestone paper``: reproduce the figures of the 2007 scheduling paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cobblestone.cli.sweeping import Scheduler, Workers, sweeping
from cobblestone.simulator.paper.reproduce import PRECISION, reproduce


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
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="Replicates per point, at most.")] = 10,
    precision: Annotated[
        float,
        typer.Option(
            min=0.0, max=1.0, help="A point has runs enough when its 95 % intervals are no wider than ± this."
        ),
    ] = PRECISION,
    scheduler: Scheduler = "",
    workers: Workers = None,
    literal: Annotated[
        bool, typer.Option(help="Also follow the simulator of 2007 draw by draw (slow).")
    ] = True,
) -> None:
    """Reproduce Tables 1-4 and Figures 1-6 of Kondo, Anderson, McLeod (2007)."""
    with sweeping("cells", folder) as progress:
        report = reproduce(
            folder,
            seeds=seeds,
            precision=precision,
            scheduler=scheduler,
            workers=workers,
            literal=literal,
            progress=progress,
        )
    typer.echo(f"report: {report}")
