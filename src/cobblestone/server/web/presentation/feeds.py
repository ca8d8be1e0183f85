"""Feeds: news of the project and notices of one volunteer, which clients show."""

from __future__ import annotations

import hmac

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from cobblestone.domain.people import User
from cobblestone.domain.values import UserId
from cobblestone.policy.credit.history import Reached
from cobblestone.server.core.context import ServerContext
from cobblestone.server.core.project import notice_key
from cobblestone.server.web.presentation.standing import milestone_title, milestones
from cobblestone.service.languages import chosen, use_language
from cobblestone.service.languages import gettext as _
from cobblestone.service.pages.fields import whole_number
from cobblestone.service.pages.texts import feed, markdown, news_feed
from cobblestone.store.credit.app_credit import Owner
from cobblestone.store.engine.database import Database
from cobblestone.store.people import teams, users
from cobblestone.store.people.teams import TeamMessage
from cobblestone.wire.project.pages import RssItem

#: Older notices are not in the feed: clients do not show them.
NOTICE_SECONDS = 30 * 86400.0
MAX_NOTICES = 20


class FeedPages:
    """RSS feeds."""

    def __init__(self, ctx: ServerContext) -> None:
        self._ctx = ctx

    async def news(self, request: Request) -> Response:
        """Answer ``rss_main.php`` with the project's news."""
        ctx = self._ctx
        news = await ctx.store.aread(users.list_news)
        return news_feed(ctx, ctx.settings.project.name, news, page="news.php?id=")

    async def notices(self, request: Request) -> Response:
        """Answer ``notices.php`` with milestones of one volunteer and messages of the team, for holders of the key."""
        ctx, now = self._ctx, self._ctx.clock()
        number, key = request.query_params.get("userid", ""), request.query_params.get("auth", "")
        user_id = whole_number(number)

        def read(db: Database) -> tuple[User, list[Reached], list[TeamMessage]] | None:
            user = users.user_by_id(db, UserId(user_id))
            if (
                user is None
                or user.erased
                or not hmac.compare_digest(notice_key(ctx.secret, user).encode(), key.encode())
            ):
                return None
            return user, _milestones(db, user, now=now), _messages(db, user, now=now)

        found = await ctx.store.aread(read)
        if found is None:
            return PlainTextResponse("Not Found", 404)
        user, reached, messages = found
        with use_language(chosen(user.language)):
            items = [self._milestone(user, item) for item in reached] + [
                self._message(item) for item in messages
            ]
            title = _("Notices for %(name)s") % {"name": user.name}
        items.sort(key=lambda item: item.published, reverse=True)
        return feed(ctx, ctx.settings.project.name, title, items[:MAX_NOTICES])

    def _milestone(self, user: User, reached: Reached) -> RssItem:
        page = self._ctx.url(f"credit_history.php?userid={user.id}")
        return RssItem(
            title=_("You reached: %(milestone)s") % {"milestone": milestone_title(reached)},
            guid=f"{page}#{reached.credit}-{reached.years}",
            link=page,
            published=reached.time,
            description=_("Thank you! Your history shows all milestones."),
        )

    def _message(self, message: TeamMessage) -> RssItem:
        page = self._ctx.url(f"team_messages.php?teamid={message.team_id}")
        return RssItem(
            title=message.title,
            guid=f"{page}#{message.id}",
            link=page,
            published=message.time,
            description=markdown(message.text, base=self._ctx.master_url),
        )


def newest_message(db: Database, user: User, *, now: float) -> TeamMessage | None:
    """Return the newest message of a volunteer's team, if it is recent and wanted."""
    return next(iter(_messages(db, user, now=now)), None)


def _messages(db: Database, user: User, *, now: float) -> list[TeamMessage]:
    if user.team_id is None or not teams.wants_messages(db, user.id):
        return []
    return teams.messages_of(db, user.team_id, since=now - NOTICE_SECONDS)


def _milestones(db: Database, user: User, *, now: float) -> list[Reached]:
    return [item for item in milestones(db, Owner.USER, user, now=now) if item.time >= now - NOTICE_SECONDS]
