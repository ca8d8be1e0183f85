"""``cobblestone host``: volunteers' computers, for operators."""

from __future__ import annotations

from typing import Annotated

import typer

from cobblestone.cli.blocking import ReasonOption, set_blocked
from cobblestone.cli.options import Commands, Common

commands = Commands(no_args_is_help=True, help="Computers of volunteers.")
HostArgument = Annotated[
    int, typer.Argument(metavar="ID", help="Number of the host; see `cobblestone find`.", show_default=False)
]


def register(root: typer.Typer) -> None:
    """Add the commands."""
    root.add_typer(commands, name="host")


@commands.command("block")
def block(
    host_id: HostArgument,
    reason: ReasonOption,
    common: Common,
) -> None:
    """Give a computer no more work. What it has it may finish."""
    set_blocked(common, "host", host_id, reason)


@commands.command("unblock")
def unblock(
    host_id: HostArgument,
    common: Common,
) -> None:
    """Give a computer work again."""
    set_blocked(common, "host", host_id, None)
