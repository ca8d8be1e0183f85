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
