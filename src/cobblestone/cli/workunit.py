"""``cobblestone workunit``: single jobs, for operators."""

from __future__ import annotations

from typing import Annotated

import typer

from cobblestone.cli.options import Commands, Common

commands = Commands(no_args_is_help=True, help="Single workunits.")
WorkunitArgument = Annotated[
    int,
    typer.Argument(metavar="ID", help="Number of the workunit; see `cobblestone find`.", show_default=False),
]


def register(root: typer.Typer) -> None:
    """Add the commands."""
    root.add_typer(commands, name="workunit")


@commands.command("cancel")
def cancel(
    workunit_id: WorkunitArgument,
    common: Common,
) -> None:
    """Stop a workunit; hosts that compute it are told at their next contact."""
    with common.connect() as connected:
        done = connected.operation.cancel_workunit(workunit_id)
    common.out.show(done, lines=[f"Workunit {workunit_id} is cancelled."], essential=[workunit_id])


@commands.command("retry")
def retry(
    workunit_id: WorkunitArgument,
    common: Common,
) -> None:
    """Try a workunit again: an unfinished one may fail as often again, a failed one becomes a new batch."""
    with common.connect() as connected:
        done = connected.operation.retry_workunit(workunit_id)
    if done.new_batch is None:
        line = f"Workunit {workunit_id} goes on: it may fail as often again as it has."
    else:
        line = f"Workunit {workunit_id} is tried again as batch {done.new_batch}."
    common.out.show(done, lines=[line], essential=[done.new_batch or workunit_id])
