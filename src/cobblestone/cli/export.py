"""``cobblestone export``."""

from __future__ import annotations

from typing import Annotated

import typer

from cobblestone.cli.options import JsonOption, ProjectOption, QuietOption, local_folder, output
from cobblestone.cli.output import error_console, size


def register(root: typer.Typer) -> None:
    """Add the command."""
    root.command("export")(export)


def export(
    project: ProjectOption = None,
    parquet: Annotated[
        bool, typer.Option("--parquet", help="Also write columns for researchers, whatever the settings say.")
    ] = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Export users who agreed, their computers, and teams for statistics sites; the server may run meanwhile."""
    import gc

    from rich.status import Status

    from cobblestone.ops.clock import system_clock
    from cobblestone.server.core.project import ProjectFolder
    from cobblestone.server.files.exports import CURRENT
    from cobblestone.server.operation.export import make_export

    folder = ProjectFolder(local_folder(project))
    gc.disable()  # millions of records are made, and none of them refers to another
    with Status("", console=error_console()) as status:
        made = make_export(
            folder,
            now=system_clock(),
            parquet=parquet,
            report=status.update if not (json or quiet) else lambda what: None,
        )
    place = folder.exports / CURRENT
    counts = ", ".join(f"{count} {table}" for table, count in made.records.items() if count)
    output(json, quiet).show(
        {"place": str(place), "export": made},
        lines=[
            f"Exported into {place}: {counts or 'nobody who agreed has credit yet'}",
            f"  {len(made.nbytes)} files, {size(sum(made.nbytes.values()))}, in {made.seconds:.1f} s",
        ],
        essential=[place],
    )
