"""``cobblestone user``: accounts."""

from __future__ import annotations

from typing import Annotated

import typer

from cobblestone.cli.options import JsonOption, ProjectOption, QuietOption, TokenOption, open_project, output
from cobblestone.cli.output import when

commands = typer.Typer(no_args_is_help=True, help="Accounts of volunteers.")


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
    project: ProjectOption = None,
    token: TokenOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make an account; shows the key by which clients attach."""
    with open_project(project, token) as connected:
        made = connected.admin.create_user(email, name, password=password)
        url = connected.status().url
    output(json, quiet).show(
        made,
        lines=[
            f"Account {made.id} for {made.email}. A client attaches with:",
            f"  boinccmd --project_attach {url} {made.authenticator}",
        ],
        essential=[made.authenticator],
    )


@commands.command("list")
def list_users(
    project: ProjectOption = None,
    token: TokenOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """List accounts."""
    with open_project(project, token) as connected:
        found = connected.admin.users()
    rows = [
        (each.id, each.name, each.email, each.team_id, f"{each.total_credit:.1f}", when(each.created))
        for each in found
    ]
    output(json, quiet).table(
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
    project: ProjectOption = None,
    token: TokenOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Let a user use the operator's pages, or no more."""
    with open_project(project, token) as connected:
        done = connected.operation.set_role(user_id, "" if name == "volunteer" else name)
    output(json, quiet).show(done, lines=[f"User {user_id} is now {done.text}."], essential=[user_id])


@commands.command("block")
def block(
    user_id: UserArgument,
    reason: Annotated[
        str, typer.Option(help="Why, and what would change it: the volunteer reads it.", show_default=False)
    ],
    project: ProjectOption = None,
    token: TokenOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Give the computers of a user no more work."""
    with open_project(project, token) as connected:
        done = connected.operation.block("user", user_id, reason)
    output(json, quiet).show(done, lines=[f"User {user_id} {done.text}."], essential=[user_id])


@commands.command("unblock")
def unblock(
    user_id: UserArgument,
    project: ProjectOption = None,
    token: TokenOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Give the computers of a user work again."""
    with open_project(project, token) as connected:
        done = connected.operation.unblock("user", user_id)
    output(json, quiet).show(done, lines=[f"User {user_id} {done.text}."], essential=[user_id])


@commands.command("reset-password")
def reset_password(
    user_id: UserArgument,
    project: ProjectOption = None,
    token: TokenOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Give a user a new password, which is shown only once; clients must attach anew."""
    with open_project(project, token) as connected:
        done = connected.operation.reset_password(user_id)
    output(json, quiet).show(
        done,
        lines=[f"The new password of user {user_id}, shown only now:", done.password],
        essential=[done.password],
    )


@commands.command("delete")
def delete(
    user_id: UserArgument,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    project: ProjectOption = None,
    token: TokenOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Erase an account: what is personal goes for ever, credit stays in the sums."""
    if not yes:
        typer.confirm(f"Erase the account of user {user_id} for ever?", abort=True, err=True)
    with open_project(project, token) as connected:
        done = connected.operation.delete_user(user_id)
    output(json, quiet).show(done, lines=[f"User {user_id} {done.text}."], essential=[user_id])
