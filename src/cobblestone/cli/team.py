"""``cobblestone team``: groups of users."""

from __future__ import annotations

from typing import Annotated

import typer

from cobblestone.cli.options import Commands, Common
from cobblestone.cli.output import when

commands = Commands(no_args_is_help=True, help="Teams of users.")
UserIdArgument = Annotated[int, typer.Argument(metavar="USERID", help="See `user list`.", show_default=False)]


def register(root: typer.Typer) -> None:
    """Add the commands."""
    root.add_typer(commands, name="team")


@commands.command("create")
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the team.", show_default=False)],
    founder: UserIdArgument,
    common: Common,
) -> None:
    """Make a team; its founder joins it."""
    with common.connect() as connected:
        made = connected.admin.create_team(name, founder)
    common.out.show(made, lines=[f"Team {made.id}: {made.name}."], essential=[made.id])


@commands.command("join")
def join(
    team: Annotated[str, typer.Argument(metavar="TEAM", help="Name or number.", show_default=False)],
    user: UserIdArgument,
    common: Common,
) -> None:
    """Put a user into a team."""
    with common.connect() as connected:
        joined = connected.admin.join_team(team, user)
    common.out.show(joined, lines=[f"User {user} is in {joined.name} now."], essential=[joined.id])


@commands.command("list")
def list_teams(
    common: Common,
) -> None:
    """List teams."""
    with common.connect() as connected:
        found = connected.admin.teams()
    rows = [
        (each.id, each.name, each.founder, f"{each.total_credit:.1f}", when(each.created)) for each in found
    ]
    common.out.table(
        found, ["id", "name", "founder", "credit", "made"], rows, empty="No teams yet.", right=("credit",)
    )
