"""``cobblestone trickle``: messages of running jobs."""

from __future__ import annotations

from typing import Annotated

import typer

from cobblestone.cli.options import JsonOption, ProjectOption, QuietOption, TokenOption, open_project, output
from cobblestone.cli.output import when

commands = typer.Typer(no_args_is_help=True, help="Messages of running jobs, in both directions.")


def register(root: typer.Typer) -> None:
    """Add the commands."""
    root.add_typer(commands, name="trickle")


@commands.command("list")
def list_trickles(
    after: Annotated[int, typer.Option(min=0, help="Only those behind this number.")] = 0,
    project: ProjectOption = None,
    token: TokenOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """List what running jobs have sent, oldest first."""
    with open_project(project, token) as connected:
        found = connected.admin.trickles(after=after)
    output(json, quiet).table(
        found,
        ("number", "result", "variety", "received", "text"),
        [(each.id, each.result, each.variety, when(each.received), each.text) for each in found],
        empty="No job has sent anything.",
        right=("number",),
    )


@commands.command("send")
def send(
    result: Annotated[str, typer.Argument(metavar="RESULT", help="Name of the result.", show_default=False)],
    text: Annotated[str, typer.Argument(metavar="TEXT", show_default=False)],
    project: ProjectOption = None,
    token: TokenOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Send a message to a running job: its program gets it by receive_trickles()."""
    with open_project(project, token) as connected:
        made = connected.admin.send_trickle(result, text)
    output(json, quiet).show(
        made, lines=[f"Message {made.id} goes out when the computer calls next."], essential=[made.id]
    )
