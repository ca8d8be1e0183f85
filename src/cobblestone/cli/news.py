"""``cobblestone news``: what clients show as notices."""

from __future__ import annotations

from typing import Annotated

import typer

from cobblestone.cli.options import Commands, Common

commands = Commands(no_args_is_help=True, help="News for volunteers.")


def register(root: typer.Typer) -> None:
    """Add the commands."""
    root.add_typer(commands, name="news")


@commands.callback()
def _group() -> None:
    """News for volunteers."""  # a group even though it has one verb


@commands.command("add")
def add(
    title: Annotated[str, typer.Argument(metavar="TITLE", show_default=False)],
    text: Annotated[str, typer.Argument(metavar="TEXT", show_default=False)],
    common: Common,
) -> None:
    """Publish a piece of news: it reaches clients as a notice."""
    with common.connect() as connected:
        made = connected.admin.add_news(title, text)
    common.out.show(made, lines=[f"News {made.id} is published."], essential=[made.id])
