"""``cobblestone manager``: what an operator does for the health of an account manager: backup, restore, move, upgrade, doctor."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cobblestone.cli.backup import (
    CheckOption,
    KeysOption,
    RestoredArgument,
    TargetArgument,
    check_wish,
    progress,
    show_backup,
    show_restored,
)
from cobblestone.cli.doctor import OnlyOption, examine
from cobblestone.cli.move import ToOption, move_and_show
from cobblestone.cli.options import Commands, JsonOption, QuietOption, output
from cobblestone.cli.upgrade import DryRunOption, WaitOption, upgrade_and_show
from cobblestone.domain.backups import KeysInBackup

FolderArgument = Annotated[Path, typer.Argument(metavar="DIR", help="The account manager's folder.")]


def register(commands: Commands) -> None:
    """Add the commands to those of an account manager."""
    for command in (backup, restore, move, upgrade, doctor):
        commands.command(command.__name__)(command)


def backup(
    folder: FolderArgument,
    target: TargetArgument,
    keys: KeysOption = KeysInBackup.ALL,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Back up an account manager, running or not, and check the copy."""
    from cobblestone.account_manager.backup import make_backup
    from cobblestone.account_manager.folder import ManagerFolder

    with progress(quiet or json) as report:
        made = make_backup(ManagerFolder(folder.resolve()), target.absolute(), keys=keys, report=report)
    show_backup(output(json, quiet), made, target)


def restore(
    source: Annotated[
        Path, typer.Argument(metavar="BACKUP", help="What `cobblestone manager backup` wrote.")
    ],
    target: RestoredArgument = None,
    database: Annotated[
        str,
        typer.Option(
            metavar="postgresql://USER@HOST/DATABASE",
            help="An empty database for one that was on PostgreSQL. Without it: the one that the settings in the backup name.",
            show_default=False,
        ),
    ] = "",
    check: CheckOption = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make an account manager's folder from a backup; every file is checked first."""
    from cobblestone.account_manager.backup import restore_backup, verify_backup

    check_wish(target, check=check)
    with progress(quiet or json) as report:
        if target is None:
            found = verify_backup(source.absolute(), report=report)
        else:
            found = restore_backup(source.absolute(), target, database=database, report=report)
    show_restored(output(json, quiet), found, source, target)


def move(folder: FolderArgument, to: ToOption, json: JsonOption = False, quiet: QuietOption = False) -> None:
    """Move a stopped account manager's rows from SQLite to PostgreSQL.

    Everything is copied and compared, then the settings name the new database. The SQLite file stays as it was. An
    interrupted move goes on when it is called again.
    """
    from cobblestone.account_manager.move_to_postgres import move_manager

    move_and_show(
        lambda progress: move_manager(folder, to, progress=progress),
        start=f"cobblestone manager run {folder}",
        json=json,
        quiet=quiet,
    )


def upgrade(
    folder: FolderArgument,
    wait: WaitOption = 0,
    dry_run: DryRunOption = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Bring the database to the schema of this version; starting it does the same."""
    from cobblestone.account_manager.folder import ManagerFolder

    opened = ManagerFolder(folder.resolve())
    upgrade_and_show(opened.upgraded(opened.settings()), dry_run=dry_run, wait=wait, out=output(json, quiet))


def doctor(
    folder: FolderArgument,
    check: OnlyOption = None,
    repair: Annotated[bool, typer.Option("--repair", help="Mend what can be mended safely.")] = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Check the promises of an account manager, running or not: sums, rows, keys, signatures, disk.

    The exit status is 4 if something is wrong (warnings alone do not count).
    """
    from cobblestone.account_manager import operation
    from cobblestone.account_manager.doctor import CHECKS, Opened

    with operation.open_beside(folder) as (found, store):
        opened = Opened(found, store)

        def mend(name: str) -> int:
            mending = CHECKS[name].repair
            return mending(opened) if mending else 0

        examine(
            [each.described() for each in CHECKS.values()],
            check or [],
            lambda name: store.read(lambda db: CHECKS[name].look(opened, db)).described(),
            mend if repair else None,
            output(json, quiet),
            what="account manager",
        )
