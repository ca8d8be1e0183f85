"""``cobblestone trickle``: messages of running jobs."""

from __future__ import annotations

from typing import Annotated

import typer

from cobblestone.cli.options import Commands, Common
from cobblestone.cli.output import when

commands = Commands(no_args_is_help=True, help="Messages of running jobs, in both directions.")


def register(root: typer.Typer) -> None:
    """Add the commands."""
    root.add_typer(commands, name="trickle")


@commands.command("list")
def list_trickles(
    after: Annotated[int, typer.Option(min=0, help="Only those behind this number.")] = 0,
    *,
    common: Common,
) -> None:
    """List what running jobs have sent, oldest first."""
    with common.connect() as connected:
        found = connected.admin.trickles(after=after)
    common.out.table(
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
    common: Common,
) -> None:
    """Send a message to a running job: its program gets it by receive_trickles()."""
    with common.connect() as connected:
        made = connected.admin.send_trickle(result, text)
    common.out.show(
        made, lines=[f"Message {made.id} goes out when the computer calls next."], essential=[made.id]
    )
