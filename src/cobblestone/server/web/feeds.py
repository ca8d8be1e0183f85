"""Feeds: news that clients show as notices."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from cobblestone.server.core.context import ServerContext
from cobblestone.service.pages.markdown import markdown
from cobblestone.store.people import users
from cobblestone.wire.rss import RssChannel, RssItem, write_rss


class Feeds:
    """The project's RSS feed."""

    def __init__(self, ctx: ServerContext) -> None:
        self._ctx = ctx

    async def news(self, request: Request) -> Response:
        """``rss_main.php``."""
        ctx = self._ctx
        items = await ctx.store.aread(users.list_news)
        channel = RssChannel(
            title=ctx.settings.project.name,
            link=ctx.master_url,
            description=f"News of {ctx.settings.project.name}",
            items=tuple(
                RssItem(
                    title=item.title,
                    guid=ctx.url(f"news.php?id={item.id}"),
                    link=ctx.url(f"news.php?id={item.id}"),
                    published=item.time,
                    description=markdown(item.text, base=ctx.master_url),
                )
                for item in items
            ),
        )
        return Response(write_rss(channel, built=ctx.clock()), media_type="application/rss+xml")
