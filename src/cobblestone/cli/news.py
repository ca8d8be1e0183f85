"""``cobblestone news``: what clients show as notices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from cobblestone.cli.options import Commands, Common, Page
from cobblestone.cli.output import when

if TYPE_CHECKING:
    from cobblestone.api_schema.people import News

commands = Commands(no_args_is_help=True, help="News for volunteers.")
NewsArgument = Annotated[
    int, typer.Argument(metavar="ID", min=1, help="Number of the news; see `news list`.", show_default=False)
]


def register(root: typer.Typer) -> None:
    """Add the commands."""
    root.add_typer(commands, name="news")


@commands.command("add")
def add(
    title: Annotated[str, typer.Argument(metavar="TITLE", show_default=False)],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="In Markdown.", show_default=False)],
    common: Common,
) -> None:
    """Publish a piece of news: it reaches clients as a notice."""
    with common.connect() as connected:
        made = connected.admin.add_news(title, text)
    common.out.show(made, lines=[f"News {made.id} is published."], essential=[made.id])


@commands.command("list")
def list_news(
    page: Page,
    common: Common,
) -> None:
    """List news, the newest first."""
    with common.connect() as connected:
        found = connected.admin.news(limit=page.limit, before=page.before)
    rows = [(each.id, when(each.time), each.title) for each in found]
    common.out.table(found, ["id", "published", "title"], rows, empty="No news yet.", right=("id",))


@commands.command("show")
def show(
    news_id: NewsArgument,
    common: Common,
) -> None:
    """Show a piece of news with its text."""
    with common.connect() as connected:
        found = connected.admin.news_item(news_id)
    common.out.show(found, lines=_lines(found), essential=[found.text])


def _lines(found: News) -> list[str]:
    return [f"News {found.id}, {when(found.time)}: {found.title}", "", *found.text.splitlines()]


@commands.command("edit")
def edit(
    news_id: NewsArgument,
    title: Annotated[str | None, typer.Option(help="New title.", show_default=False)] = None,
    text: Annotated[str | None, typer.Option(help="New text, in Markdown.", show_default=False)] = None,
    *,
    common: Common,
) -> None:
    """Change a piece of news; clients that have shown it do not show it again."""
    if title is None and text is None:
        raise typer.BadParameter("give what shall change: --title or --text")
    with common.connect() as connected:
        found = connected.admin.edit_news(news_id, title=title, text=text)
    common.out.show(found, lines=_lines(found), essential=[found.id])


@commands.command("withdraw")
def withdraw(
    news_id: NewsArgument,
    common: Common,
) -> None:
    """Take a piece of news off the pages and the feed; a client that has shown it keeps it."""
    with common.connect() as connected:
        found = connected.admin.withdraw_news(news_id)
    common.out.show(found, lines=[f"News {found.id} ({found.title}) is withdrawn."], essential=[found.id])
