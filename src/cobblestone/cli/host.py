"""``cobblestone host``: volunteers' computers, for operators."""

from __future__ import annotations

from typing import Annotated

import typer

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
    reason: Annotated[
        str, typer.Option(help="Why, and what would change it: the volunteer reads it.", show_default=False)
    ],
    common: Common,
) -> None:
    """Give a computer no more work. What it has it may finish."""
    with common.connect() as connected:
        done = connected.operation.block("host", host_id, reason)
    common.out.show(done, lines=[f"Host {host_id} {done.text}."], essential=[host_id])


@commands.command("unblock")
def unblock(
    host_id: HostArgument,
    common: Common,
) -> None:
    """Give a computer work again."""
    with common.connect() as connected:
        done = connected.operation.unblock("host", host_id)
    common.out.show(done, lines=[f"Host {host_id} {done.text}."], essential=[host_id])
