"""``cobblestone manager token``: which programs of the operator may use an account manager's API."""

from __future__ import annotations

import time
from enum import StrEnum
from typing import Annotated

import typer

from cobblestone.cli.account_manager_upkeep import FolderArgument
from cobblestone.cli.options import Commands, JsonOption, QuietOption, output
from cobblestone.cli.output import when
from cobblestone.cli.token import (
    DaysOption,
    ForeverOption,
    NameArgument,
    TokenIdArgument,
    chosen_days,
    created_lines,
    state_of,
)

commands = Commands(no_args_is_help=True, help="Tokens: which programs of yours may use the API.")


class Scope(StrEnum):
    """What a token allows; the second includes the first."""

    read = "read"
    operate = "operate"


@commands.command("create")
def create(
    folder: FolderArgument,
    name: NameArgument,
    scope: Annotated[
        Scope,
        typer.Option(help="read: look; operate: also pause and resume projects, publish and withdraw news."),
    ] = Scope.read,
    days: DaysOption = None,
    forever: ForeverOption = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make a token. Its text is shown only once."""
    from cobblestone.account_manager import operation

    lasting = chosen_days(days, forever=forever)
    with operation.open_beside(folder) as (_, store):
        made, text = store.write(
            lambda tx: operation.create_token(
                tx, name, operates=scope is Scope.operate, days=lasting, now=time.time()
            )
        )
    scopes = sorted(made.scopes, reverse=True)
    output(json, quiet).show(
        {"id": made.id, "name": made.name, "scopes": scopes, "expires": made.expire_time, "token": text},
        lines=created_lines(made.id, made.name, made.expire_time, [*scopes], text),
        essential=[text],
    )


@commands.command("list")
def list_tokens(folder: FolderArgument, json: JsonOption = False, quiet: QuietOption = False) -> None:
    """List tokens, with when each was used last."""
    from cobblestone.account_manager import operation
    from cobblestone.account_manager.store import tokens

    with operation.open_beside(folder) as (_, store):
        found = store.read(tokens.list_tokens)
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
            state_of(usable=each.usable(now), revoked=each.revoke_time),
            when(each.create_time),
            when(each.expire_time) if each.expire_time else "never",
            when(each.used_time) if each.used_time else "never",
        )
        for each in found
    ]
    columns = ["id", "name", "allows", "state", "made", "expires", "used last"]
    output(json, quiet).table(data, columns, rows, empty="No tokens yet.")


@commands.command("revoke")
def revoke(
    folder: FolderArgument, token_id: TokenIdArgument, json: JsonOption = False, quiet: QuietOption = False
) -> None:
    """Make a token useless from now on."""
    from cobblestone.account_manager import operation
    from cobblestone.account_manager.store import tokens

    with operation.open_beside(folder) as (_, store):
        revoked = store.write(lambda tx: tokens.revoke_token(tx, token_id, now=time.time()))
    output(json, quiet).show(
        {"id": revoked.id, "name": revoked.name, "revoked": revoked.revoke_time},
        lines=[f"Token {revoked.id} ({revoked.name}) is revoked."],
        essential=[revoked.id],
    )
