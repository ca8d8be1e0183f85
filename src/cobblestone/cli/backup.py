"""``cobblestone backup`` and ``cobblestone restore``."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cobblestone.cli.options import JsonOption, ProjectOption, QuietOption, local_folder, output
from cobblestone.cli.output import Output, error_console, size, when
from cobblestone.domain.backups import KeysInBackup

if TYPE_CHECKING:
    from cobblestone.service.backup import Manifest, Report

TargetArgument = Annotated[
    Path, typer.Argument(metavar="DIR|FILE", help="A new folder, or a new file: .tar, .tar.gz or .tgz.")
]
KeysOption = Annotated[
    KeysInBackup, typer.Option(help="Which secrets go along. Without them it cannot be restored as it was.")
]
RestoredArgument = Annotated[
    Path | None,
    typer.Argument(metavar="[DIR]", help="A folder that is empty or does not exist.", show_default=False),
]
CheckOption = Annotated[bool, typer.Option("--check", help="Only check the backup.")]


def register(root: typer.Typer) -> None:
    """Add the commands."""
    root.command("backup")(backup)
    root.command("restore")(restore)


def backup(
    target: TargetArgument,
    project: ProjectOption = None,
    keys: KeysOption = KeysInBackup.ALL,
    results: Annotated[bool, typer.Option(help="Also what assimilators wrote (the folder results).")] = True,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Back up a project, running or not, and check the copy."""
    from cobblestone.server.core.project import ProjectFolder
    from cobblestone.server.operation.backup import BackupWish, make_backup, verify_backup

    folder = ProjectFolder(local_folder(project))
    with progress(quiet or json) as report:
        made = make_backup(folder, target.absolute(), BackupWish(keys=keys, results=results), report=report)
        verify_backup(target.absolute(), report=report)
    show_backup(output(json, quiet), made, target)


def restore(
    source: Annotated[Path, typer.Argument(metavar="BACKUP", help="What `cobblestone backup` wrote.")],
    target: RestoredArgument = None,
    database: Annotated[
        str,
        typer.Option(
            metavar="postgresql://USER@HOST/DATABASE",
            help="An empty database for a project that was on PostgreSQL. Without it: the one that the settings in the"
            " backup name, if it is empty.",
            show_default=False,
        ),
    ] = "",
    check: CheckOption = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make a project folder from a backup; every file is checked first."""
    from cobblestone.server.operation.backup import restore_backup, verify_backup

    check_wish(target, check=check)
    with progress(quiet or json) as report:
        if target is None:
            found = verify_backup(source.absolute(), report=report)
        else:
            found = restore_backup(source.absolute(), target, database=database, report=report)
    show_restored(output(json, quiet), found, source, target)


def check_wish(target: Path | None, *, check: bool) -> None:
    """Refuse to restore without a place, and to check and restore at once."""
    if check == (target is not None):
        raise typer.BadParameter("give the folder to restore into, or --check")


def show_backup(out: Output, made: Manifest, target: Path) -> None:
    """Say what a backup holds."""
    if made.keys == KeysInBackup.ALL.value:
        out.warn("the backup holds secrets: keep it as safe as the server itself.")
    _show(out, made, target, "Backed up")


def show_restored(out: Output, found: Manifest, source: Path, target: Path | None) -> None:
    """Say what was restored, or found sound (``target`` None)."""
    _show(out, found, target or source, "Restored" if target else "Sound:")
    if target is not None and found.keys != KeysInBackup.ALL.value:
        out.warn(
            f"the backup was made with --keys {found.keys}: put the missing files into {target / 'keys'} before you run it."
        )


def _show(out: Output, manifest: Manifest, place: Path, verb: str) -> None:
    out.show(
        {
            "place": str(place),
            "name": manifest.name,
            "url": manifest.url,
            "time": manifest.time,
            "cobblestone": manifest.cobblestone,
            "schema": manifest.schema,
            "keys": manifest.keys,
            "files": len(manifest.files),
            "nbytes": manifest.nbytes,
        },
        lines=[
            f"{verb} {manifest.name} ({manifest.url}): {place}",
            (
                f"  {len(manifest.files)} files, {size(manifest.nbytes)}, as of {when(manifest.time)};"
                f" cobblestone {manifest.cobblestone}, schema {manifest.schema}"
            ),
        ],
        essential=[place],
    )


@contextmanager
def progress(hidden: bool) -> Generator[Report]:
    """Show how far it is."""
    from rich.progress import Progress

    with Progress(console=error_console(), transient=True, disable=hidden) as bar:
        task = bar.add_task("", total=1.0)
        yield lambda what, part: bar.update(task, description=what, completed=part)
