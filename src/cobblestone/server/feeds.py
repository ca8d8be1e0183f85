"""Feeds: news that clients show as notices."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from cobblestone.server.context import ServerContext
from cobblestone.store import people
from cobblestone.wire.rss import RssItem, write_rss


class Feeds:
    """The project's RSS feed."""

    def __init__(self, ctx: ServerContext) -> None:
        self._ctx = ctx

    async def news(self, request: Request) -> Response:
        """``rss_main.php``."""
        ctx = self._ctx
        items = await ctx.store.aread(people.list_news)
        body = write_rss(
            title=ctx.settings.project.name,
            link=ctx.master_url,
            description=f"News of {ctx.settings.project.name}",
            items=[
                RssItem(
                    title=item.title,
                    guid=ctx.url(f"news.php?id={item.id}"),
                    link=ctx.url(f"news.php?id={item.id}"),
                    time=item.time,
                    description=item.text,
                )
                for item in items
            ],
        )
        return Response(body, media_type="application/rss+xml")
