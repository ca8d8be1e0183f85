"""``cobblestone manager``: backup, restore, move, upgrade, doctor, and tokens for its API."""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from cobblestone.cli.options import OutputOptions
from cobblestone.cli.output import when
from cobblestone.cli.parameters import Argument, Commands, Option
from cobblestone.cli.project import access, upkeep
from cobblestone.domain.exports import KeysInBackup
from cobblestone.ops.environment import typed_word

FolderArgument = Annotated[Path, Argument(metavar="DIR", help="The account manager's folder.")]


def register(commands: Commands) -> None:
    """Add the commands to those of an account manager."""
    for command in (backup, restore, move, upgrade, doctor):
        commands.verb(command.__name__)(command)
    commands.add_command(token_commands, name="token")


def backup(
    folder: FolderArgument,
    target: upkeep.TargetArgument,
    keys: upkeep.KeysOption = KeysInBackup.ALL,
    out: OutputOptions = OutputOptions(),
) -> None:
    """Back up an account manager, running or stopped, and verify the copy."""
    from cobblestone.account_manager.core.folder import ManagerFolder
    from cobblestone.account_manager.upkeep import manager_contents

    contents = manager_contents(ManagerFolder(folder.resolve()), keys)
    upkeep.backup_and_show(contents, target, out)


def restore(
    source: Annotated[
        Path, Argument(metavar="BACKUP", help="A backup made by `cobblestone manager backup`.")
    ],
    target: upkeep.RestoredArgument = None,
    database: upkeep.RestoredDatabaseOption = "",
    check: upkeep.CheckOption = False,
    out: OutputOptions = OutputOptions(),
) -> None:
    """Make an account manager's folder from a backup; every file is checked first."""
    from cobblestone.account_manager.core.folder import ManagerFolder

    upkeep.restore_and_show(ManagerFolder.kind, source, target, check=check, database=database, out=out)


def move(folder: FolderArgument, to: upkeep.ToOption, out: OutputOptions = OutputOptions()) -> None:
    """Move a stopped account manager's rows from SQLite to PostgreSQL.

    Everything is copied and compared, then the settings name the new database. The SQLite file stays as it was. An
    interrupted move goes on when it is called again.
    """
    from cobblestone.account_manager.core.folder import ManagerFolder

    opened = ManagerFolder(folder.resolve())
    upkeep.move_and_show(opened, to, start=f"cobblestone manager run {typed_word(folder)}", out=out)


def upgrade(
    folder: FolderArgument,
    wait: upkeep.WaitOption = 0,
    dry_run: upkeep.DryRunOption = False,
    out: OutputOptions = OutputOptions(),
) -> None:
    """Upgrade the database to the schema of this version; starting the account manager does the same."""
    from cobblestone.account_manager.core.folder import ManagerFolder

    opened = ManagerFolder(folder.resolve())
    upkeep.upgrade_and_show(opened, opened.settings(), dry_run=dry_run, wait=wait, out=out)


def doctor(
    folder: FolderArgument,
    check: upkeep.OnlyOption = None,
    repair: upkeep.RepairOption = False,
    out: OutputOptions = OutputOptions(),
) -> None:
    """Check the integrity of an account manager, running or stopped: sums, rows, keys, signatures, disk.

    The exit status is 4 if something is wrong (warnings alone do not count).
    """
    from cobblestone.account_manager.core import operation
    from cobblestone.account_manager.upkeep import CHECKS, Opened

    with operation.open_beside(folder) as (found, store):
        opened = Opened(found, store)
        upkeep.examine_folder(
            CHECKS,
            opened,
            lambda each: store.read(lambda db: each.look(opened, db)),
            check,
            out,
            repair=repair,
            what="account manager",
        )


token_commands = Commands(help="Tokens for your programs that use the API.")


class ManagerTokenScope(StrEnum):
    """Scopes of a token; the second includes the first."""

    read = "read"
    operate = "operate"


@token_commands.verb("create")
def create(
    folder: FolderArgument,
    name: access.NameArgument,
    scope: Annotated[
        ManagerTokenScope,
        Option(help="read: look; operate: also pause and resume projects, publish and withdraw news."),
    ] = ManagerTokenScope.read,
    days: access.DaysOption = None,
    forever: access.ForeverOption = False,
    out: OutputOptions = OutputOptions(),
) -> None:
    """Create a token. Its text is shown only once."""
    from cobblestone.account_manager.core import operation

    lasting = access.chosen_days(days, forever=forever)
    with operation.open_beside(folder) as (_, store):
        made, text = store.write(
            lambda tx: operation.create_token(
                tx, name, operates=scope is ManagerTokenScope.operate, days=lasting, now=time.time()
            )
        )
    scopes = sorted(made.scopes, reverse=True)
    out.show(
        {"id": made.id, "name": made.name, "scopes": scopes, "expires": made.expire_time, "token": text},
        lines=access.created_lines(made.id, made.name, made.expire_time, [*scopes], text),
        essential=[text],
    )


@token_commands.verb("list")
def list_tokens(folder: FolderArgument, out: OutputOptions = OutputOptions()) -> None:
    """List tokens, with the last use of each."""
    from cobblestone.account_manager.core import operation
    from cobblestone.account_manager.store import accounts

    with operation.open_beside(folder) as (_, store):
        found = store.read(accounts.list_tokens)
    now = time.time()
    data = [
        {
            "id": each.id,
            "name": each.name,
            "scopes": sorted(each.scopes, reverse=True),
            "created": each.create_time,
            "expires": each.expire_time,
            "revoked": each.revoke_time,
            "used": each.used_time,
            "usable": each.usable(now),
        }
        for each in found
    ]
    rows = [
        (
            each.id,
            each.name,
            ", ".join(sorted(each.scopes, reverse=True)),
            access.state_of(usable=each.usable(now), revoked=each.revoke_time),
            when(each.create_time),
            when(each.expire_time) if each.expire_time else "never",
            when(each.used_time) if each.used_time else "never",
        )
        for each in found
    ]
    columns = ["id", "name", "allows", "state", "made", "expires", "used last"]
    out.table(data, columns, rows, empty="No tokens yet.")


@token_commands.verb("revoke")
def revoke(
    folder: FolderArgument, token_id: access.TokenIdArgument, out: OutputOptions = OutputOptions()
) -> None:
    """Revoke a token."""
    from cobblestone.account_manager.core import operation
    from cobblestone.account_manager.store import accounts

    with operation.open_beside(folder) as (_, store):
        revoked = store.write(lambda tx: accounts.revoke_token(tx, token_id, now=time.time()))
    out.done(
        {"id": revoked.id, "name": revoked.name, "revoked": revoked.revoke_time},
        f"Token {revoked.id} ({revoked.name}) is revoked.",
        revoked.id,
    )
