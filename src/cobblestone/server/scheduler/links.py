"""The addresses that every reply of the scheduler carries."""

from __future__ import annotations

from cobblestone.domain.people import User
from cobblestone.server.core.context import ServerContext
from cobblestone.server.core.notice_feed import notice_page
from cobblestone.wire.scheduler_reply import GuiUrl, RssFeed

NOTICE_INTERVAL = 86400.0


class Links:
    """The addresses that every reply carries."""

    def __init__(self, ctx: ServerContext) -> None:
        self.gui_urls = tuple(
            GuiUrl(name=name, description=name, url=ctx.url(path)) for name, path in ctx.gui_urls().items()
        )
        self._ctx = ctx
        self._news = RssFeed(url=ctx.url("rss_main.php"), poll_interval=NOTICE_INTERVAL)

    def rss_feeds(self, user: User) -> tuple[RssFeed, ...]:
        """Return where clients get the project's news and the notices of their owner."""
        own = self._ctx.url(notice_page(self._ctx.secret, user))
        return self._news, RssFeed(url=own, poll_interval=NOTICE_INTERVAL)
