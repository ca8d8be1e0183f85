"""The home page, creating accounts, logging in, and the news feed."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping

from starlette.responses import Response

from cobblestone.account_manager.core.context import FEED
from cobblestone.account_manager.core.members import Members
from cobblestone.account_manager.model import ManagerAccount
from cobblestone.account_manager.store import ledger, projects
from cobblestone.account_manager.web.site import ManagerSite, ManagerVisit
from cobblestone.service.pages.joining import JoiningPages
from cobblestone.service.pages.pages import Pages, shows
from cobblestone.service.pages.texts import news_feed
from cobblestone.store.people import users

SHOWN_NEWS = 5


class HomePage(Pages[ManagerSite]):
    """The page that visitors see first."""

    @shows("/")
    async def index(self, visit: ManagerVisit) -> Response:
        """Show what this is, and which projects it knows."""
        counted, news, keywords = await visit.read(
            lambda db: (
                ledger.sum_of(db, "all"),
                users.list_news(db, limit=SHOWN_NEWS),
                projects.keywords(db),
            )
        )
        known = [each for each in visit.ctx.projects.projects if not each.stopped]
        return visit.show("index.html", projects=known, counted=counted, news=news, keywords=keywords)


def joining_pages(site: ManagerSite, members: Members) -> JoiningPages:
    """Return the pages for joining and logging in."""

    def join(form: Mapping[str, str], address: str) -> Awaitable[ManagerAccount]:
        return members.join(
            email=form["email_addr"].strip().lower(),
            name=form["user_name"].strip(),
            password=form["passwd"],
            invitation=form.get("invite_code", "").strip(),
            address=address,
        )

    return JoiningPages(site, site.ctx.settings.accounts, join=join, log_in=members.log_in)


class NewsFeed(Pages[ManagerSite]):
    """The feed, whose items link to the home page."""

    @shows(f"/{FEED}")
    async def news(self, visit: ManagerVisit) -> Response:
        """Answer with the newest news."""
        ctx = visit.ctx
        news = await ctx.store.aread(users.list_news)
        return news_feed(ctx, ctx.settings.manager.name, news, page="#news-")
