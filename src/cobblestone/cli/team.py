"""``cobblestone team``: groups of users."""

from __future__ import annotations

from typing import Annotated

import typer

from cobblestone.cli.options import JsonOption, ProjectOption, QuietOption, TokenOption, open_project, output
from cobblestone.cli.output import when

commands = typer.Typer(no_args_is_help=True, help="Teams of users.")
UserIdArgument = Annotated[int, typer.Argument(metavar="USERID", help="See `user list`.", show_default=False)]


def register(root: typer.Typer) -> None:
    """Add the commands."""
    root.add_typer(commands, name="team")


@commands.command("create")
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the team.", show_default=False)],
    founder: UserIdArgument,
    project: ProjectOption = None,
    token: TokenOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make a team; its founder joins it."""
    with open_project(project, token) as connected:
        made = connected.admin.create_team(name, founder)
    output(json, quiet).show(made, lines=[f"Team {made.id}: {made.name}."], essential=[made.id])


@commands.command("join")
def join(
    team: Annotated[str, typer.Argument(metavar="TEAM", help="Name or number.", show_default=False)],
    user: UserIdArgument,
    project: ProjectOption = None,
    token: TokenOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Put a user into a team."""
    with open_project(project, token) as connected:
        joined = connected.admin.join_team(team, user)
    output(json, quiet).show(joined, lines=[f"User {user} is in {joined.name} now."], essential=[joined.id])


@commands.command("list")
def list_teams(
    project: ProjectOption = None,
    token: TokenOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """List teams."""
    with open_project(project, token) as connected:
        found = connected.admin.teams()
    rows = [
        (each.id, each.name, each.founder, f"{each.total_credit:.1f}", when(each.created)) for each in found
    ]
    output(json, quiet).table(
        found, ["id", "name", "founder", "credit", "made"], rows, empty="No teams yet.", right=("credit",)
    )
