"""``cobblestone user``: accounts."""

from __future__ import annotations

from typing import Annotated

import typer

from cobblestone.cli.blocking import ReasonOption, set_blocked
from cobblestone.cli.options import Commands, Common
from cobblestone.cli.output import when

commands = Commands(no_args_is_help=True, help="Accounts of volunteers.")


def register(root: typer.Typer) -> None:
    """Add the commands."""
    root.add_typer(commands, name="user")


@commands.command("create")
def create(
    email: Annotated[str, typer.Argument(metavar="EMAIL", help="E-mail address.", show_default=False)],
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name that others see.", show_default=False)],
    password: Annotated[
        str,
        typer.Option(
            help="Else none: clients attach with the authenticator.", prompt=False, show_default=False
        ),
    ] = "",
    *,
    common: Common,
) -> None:
    """Make an account; shows the key by which clients attach."""
    with common.connect() as connected:
        made = connected.admin.create_user(email, name, password=password)
        url = connected.status().url
    common.out.show(
        made,
        lines=[
            f"Account {made.id} for {made.email}. A client attaches with:",
            f"  boinccmd --project_attach {url} {made.authenticator}",
        ],
        essential=[made.authenticator],
    )


@commands.command("list")
def list_users(
    common: Common,
) -> None:
    """List accounts."""
    with common.connect() as connected:
        found = connected.admin.users()
    rows = [
        (each.id, each.name, each.email, each.team_id, f"{each.total_credit:.1f}", when(each.created))
        for each in found
    ]
    common.out.table(
        found,
        ["id", "name", "e-mail", "team", "credit", "made"],
        rows,
        empty="No accounts yet.",
        right=("credit",),
    )


UserArgument = Annotated[
    int, typer.Argument(metavar="ID", help="Number of the user; see `user list`.", show_default=False)
]


@commands.command("role")
def role(
    user_id: UserArgument,
    name: Annotated[
        str, typer.Argument(metavar="operator|volunteer", help="What the user may do.", show_default=False)
    ],
    common: Common,
) -> None:
    """Let a user use the operator's pages, or no more."""
    with common.connect() as connected:
        done = connected.operation.set_role(user_id, "" if name == "volunteer" else name)
    common.out.show(done, lines=[f"User {user_id} is now {done.text}."], essential=[user_id])


@commands.command("block")
def block(
    user_id: UserArgument,
    reason: ReasonOption,
    common: Common,
) -> None:
    """Give the computers of a user no more work."""
    set_blocked(common, "user", user_id, reason)


@commands.command("unblock")
def unblock(
    user_id: UserArgument,
    common: Common,
) -> None:
    """Give the computers of a user work again."""
    set_blocked(common, "user", user_id, None)


@commands.command("reset-password")
def reset_password(
    user_id: UserArgument,
    common: Common,
) -> None:
    """Give a user a new password, which is shown only once; clients must attach anew."""
    with common.connect() as connected:
        done = connected.operation.reset_password(user_id)
    common.out.show(
        done,
        lines=[f"The new password of user {user_id}, shown only now:", done.password],
        essential=[done.password],
    )


@commands.command("delete")
def delete(
    user_id: UserArgument,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    *,
    common: Common,
) -> None:
    """Erase an account: what is personal goes for ever, credit stays in the sums."""
    if not yes:
        typer.confirm(f"Erase the account of user {user_id} for ever?", abort=True, err=True)
    with common.connect() as connected:
        done = connected.operation.delete_user(user_id)
    common.out.show(done, lines=[f"User {user_id} {done.text}."], essential=[user_id])
