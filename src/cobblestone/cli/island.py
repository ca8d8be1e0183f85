"""``cobblestone island``: servers with jobs and a PostgreSQL server of their own, whose accounts and credit a centre keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cobblestone.cli.options import Commands, JsonOption, ProjectOption, QuietOption, local_folder, output

commands = Commands(
    no_args_is_help=True, help="More than one PostgreSQL server: islands of a project (experimental)."
)


def register(root: typer.Typer) -> None:
    """Add the commands."""
    root.add_typer(commands, name="island")


@commands.command("add")
def add(
    name: Annotated[str, typer.Argument(help="Of small letters, digits, _ and -.")],
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="The island's folder, empty or not there; it may move later."),
    ],
    url: Annotated[
        str, typer.Option(help="Address at which clients reach the island, ending in /.", show_default=False)
    ],
    database: Annotated[
        str,
        typer.Option(
            metavar="postgresql://USER@HOST/DATABASE",
            help="An empty database on the island's PostgreSQL server, as the centre reaches it too.",
            show_default=False,
        ),
    ],
    number: Annotated[
        int | None, typer.Option(min=1, max=20, help="Its range of ids. Else the first free one.")
    ] = None,
    share: Annotated[
        float,
        typer.Option(
            min=0, max=1e6, help="Part of the new computers, against the others' and the centre's 1."
        ),
    ] = 1.0,
    project: ProjectOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make an island of a project: a folder, a database, and a line in the project's islands.toml.

    The island has the project's keys and settings, accounts come by themselves; apps are made on each island. The server of
    the project then sends its part of the new computers there, once it was restarted.
    """
    import time

    from cobblestone.server.core.islands import made_island
    from cobblestone.server.core.project import ProjectFolder
    from cobblestone.server.operation.islands import add_island, free_number

    centre = ProjectFolder(local_folder(project))
    island = made_island(
        name=name,
        number=free_number(centre) if number is None else number,
        url=url,
        database=database,
        share=share,
    )
    add_island(centre, folder, island, now=time.time())
    output(json, quiet).show(
        {"name": island.name, "number": island.number, "folder": str(folder.absolute()), "url": island.url},
        lines=[
            f"Made island {island.number}, {island.name}, in {folder.absolute()} for {island.url}",
            "",
            "Next:",
            f"  cobblestone run {folder}                                  # on its machine",
            f"  cobblestone app create NAME --project {folder} ...        # its apps, with the names that the centre has",
            f"  cobblestone restart {centre.root}                         # the centre sends computers from then on",
        ],
        essential=[island.number],
    )


@commands.command("status")
def status(project: ProjectOption = None, json: JsonOption = False, quiet: QuietOption = False) -> None:
    """Tell how far each island is: what waits there, and whether both ledgers agree.

    The exit status is 1 if an island cannot be reached, or its ledger is not what the centre took.
    """
    from cobblestone.cli.output import duration
    from cobblestone.server.operation.islands import island_states
    from cobblestone.server.run import open_project

    with open_project(local_folder(project)) as ctx:
        states = ctx.store.read(lambda db: list(island_states(ctx, db)))
    rows = [
        (
            state.name,
            state.number,
            f"{state.share:g}",
            state.waiting,
            duration(state.late_seconds) if state.waiting else "-",
            state.entries,
            f"{state.credit:.2f}",
            state.problem or ("yes" if state.agrees else "NO: see cobblestone doctor"),
        )
        for state in states
    ]
    output(json, quiet).table(
        states,
        ["island", "ids", "share", "waiting", "for", "entries", "credit", "ledgers agree"],
        rows,
        empty="This project has no islands.",
        right=("ids", "share", "waiting", "entries", "credit"),
    )
    if any(state.problem or not state.agrees for state in states):
        raise typer.Exit(1)
