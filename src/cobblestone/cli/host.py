"""``cobblestone host``: volunteers' computers, for operators."""

from __future__ import annotations

from typing import Annotated

import typer

from cobblestone.cli.options import JsonOption, ProjectOption, QuietOption, TokenOption, open_project, output

commands = typer.Typer(no_args_is_help=True, help="Computers of volunteers.")
HostArgument = Annotated[
    int, typer.Argument(metavar="ID", help="Number of the host; see `cobblestone find`.", show_default=False)
]


def register(root: typer.Typer) -> None:
    """Add the commands."""
    root.add_typer(commands, name="host")


@commands.command("block")
def block(
    host_id: HostArgument,
    reason: Annotated[
        str, typer.Option(help="Why, and what would change it: the volunteer reads it.", show_default=False)
    ],
    project: ProjectOption = None,
    token: TokenOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Give a computer no more work. What it has it may finish."""
    with open_project(project, token) as connected:
        done = connected.operation.block("host", host_id, reason)
    output(json, quiet).show(done, lines=[f"Host {host_id} {done.text}."], essential=[host_id])


@commands.command("unblock")
def unblock(
    host_id: HostArgument,
    project: ProjectOption = None,
    token: TokenOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Give a computer work again."""
    with open_project(project, token) as connected:
        done = connected.operation.unblock("host", host_id)
    output(json, quiet).show(done, lines=[f"Host {host_id} {done.text}."], essential=[host_id])
