"""``cobblestone simulate`` in the program's list of commands."""

from __future__ import annotations

import typer

from cobblestone.cli.simulating import SUMMARY, main


def register(app: typer.Typer) -> None:
    """Add the command; its arguments go to its own parser as they are."""
    everything = {"allow_extra_args": True, "ignore_unknown_options": True}
    app.command("simulate", help=SUMMARY, context_settings=everything, add_help_option=False)(
        simulate_command
    )


def simulate_command(context: typer.Context) -> None:
    """Hand the arguments over."""
    raise typer.Exit(main(context.args))
