"""News of an account manager: for clients and readers of feeds."""

from __future__ import annotations

from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from cobblestone.account_manager.context import FEED
from cobblestone.account_manager.web.site import ManagerSite, Visit
from cobblestone.service.pages.feeds import feed
from cobblestone.service.pages.markdown import markdown
from cobblestone.store.people import users
from cobblestone.wire.rss import RssItem


class NewsFeed:
    """The feed, whose items lead to the first page."""

    def __init__(self, site: ManagerSite) -> None:
        self._site = site

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [Route(f"/{FEED}", self._site.page(self.news))]

    async def news(self, visit: Visit) -> Response:
        """Answer with the newest news."""
        ctx = visit.ctx
        name, items = ctx.settings.manager.name, await ctx.store.aread(users.list_news)
        return feed(
            ctx,
            name,
            f"News of {name}",
            [
                RssItem(
                    title=item.title,
                    guid=ctx.url(f"#news-{item.id}"),
                    link=ctx.url(f"#news-{item.id}"),
                    published=item.time,
                    description=markdown(item.text, base=ctx.master_url),
                )
                for item in items
            ],
        )
