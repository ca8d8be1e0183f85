"""``cobblestone news``: what clients show as notices."""

from __future__ import annotations

from typing import Annotated

import typer

from cobblestone.cli.options import JsonOption, ProjectOption, QuietOption, TokenOption, open_project, output

commands = typer.Typer(no_args_is_help=True, help="News for volunteers.")


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
    project: ProjectOption = None,
    token: TokenOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Publish a piece of news: it reaches clients as a notice."""
    with open_project(project, token) as connected:
        made = connected.admin.add_news(title, text)
    output(json, quiet).show(made, lines=[f"News {made.id} is published."], essential=[made.id])
