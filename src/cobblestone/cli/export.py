"""``cobblestone export``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cobblestone.cli.options import JsonOption, ProjectOption, QuietOption, local_folder, output
from cobblestone.cli.output import error_console, size
from cobblestone.domain.errors import StoreError


def register(root: typer.Typer) -> None:
    """Add the command."""
    root.command("export")(export)


def export(
    project: ProjectOption = None,
    parquet: Annotated[
        bool, typer.Option("--parquet", help="Also write columns for researchers, whatever the settings say.")
    ] = False,
    check: Annotated[
        Path | None,
        typer.Option(
            "--check",
            metavar="DIR",
            help="Export nothing, but read the export in this folder, ours or another project's, and say what is wrong with it.",
            show_default=False,
        ),
    ] = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Export users who agreed, their computers, and teams for statistics sites; the server may run meanwhile."""
    if check is not None:
        _check(check, json=json, quiet=quiet)
        return
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


def _check(folder: Path, *, json: bool, quiet: bool) -> None:
    from cobblestone.server.operation.export_check import check_export

    found = check_export(folder)
    rows = [(each.name, each.records or "", each.problem or "good") for each in found]
    output(json, quiet).table(found, ["file", "records", ""], rows, right=["records"])
    bad = [each.name for each in found if each.problem]
    if bad:
        raise StoreError(
            f"{len(bad)} of {len(found)} files of the export in {folder} are not as they should be."
        )
