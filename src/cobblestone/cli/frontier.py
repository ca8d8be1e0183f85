"""``cobblestone frontier``: two policies on a whole set of scenarios."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from cobblestone.cli.output import error_console
from cobblestone.domain.errors import CobblestoneError
from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.simulator.frontier.compare import compare
from cobblestone.simulator.frontier.report import as_text, draw_frontier, write_csv
from cobblestone.simulator.picture import load_matplotlib


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("frontier")(frontier_command)


def frontier_command(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="OUT", help="Folder for table, CSV and picture; an interrupted run goes on there."
        ),
    ],
    policy: Annotated[str, typer.Option(help="The policy that is looked at.")] = "CS3_WF3_WS2_JC2",
    against: Annotated[str, typer.Option(help="The policy that it is compared with.")] = "CS2_WF2_WS2_JC2",
    seeds: Annotated[int, typer.Option(min=2, max=1000, help="Replicates per scenario.")] = 5,
    only: Annotated[
        str, typer.Option(help='Only scenarios whose name begins so, e.g. "tight mix" or "stdev".')
    ] = "",
    scheduler: Annotated[
        str, typer.Option(help="dask://host:port or dask://local instead of this machine's cores.")
    ] = "",
    workers: Annotated[
        int | None, typer.Option(min=1, max=1024, help="Processes; default: one per core.")
    ] = None,
) -> None:
    """Say where one policy is better and where it is worse than another: all mixes, slacks, buffers, errors, spreads of size."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    try:
        choices = PolicyChoice.parse(policy), PolicyChoice.parse(against)
        load_matplotlib()  # if it is missing, that is said before the work
        with Progress(*columns, console=error_console()) as bar:
            line = bar.add_task("runs", total=None)

            def progress(done: int, total: int) -> None:
                bar.update(line, completed=done, total=total)

            found = compare(
                folder,
                *choices,
                seeds=seeds,
                only=only,
                scheduler=scheduler,
                workers=workers,
                progress=progress,
            )
        text = as_text(found, *map(str, choices))
        (folder / "frontier.md").write_text(text + "\n", encoding="utf-8")
        write_csv(found, folder / "frontier.csv")
        draw_frontier(found, folder / "frontier.png", policy=str(choices[0]), base=str(choices[1]))
    except CobblestoneError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from error
    except KeyboardInterrupt:
        typer.echo(f"interrupted; the same command goes on from what is in {folder}", err=True)
        raise typer.Exit(130) from None
    typer.echo(text)
