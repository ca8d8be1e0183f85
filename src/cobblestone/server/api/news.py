"""News, for operators: publish, list, show, edit, withdraw."""

from __future__ import annotations

from cobblestone.api_schema import people as schema
from cobblestone.api_schema.values import PageQuery
from cobblestone.domain.people import Scope
from cobblestone.server.api.routing import Call, endpoint
from cobblestone.server.operation import interventions
from cobblestone.store.engine.database import Transaction
from cobblestone.store.people import users
from cobblestone.store.people.users import NewsItem


def _news(item: NewsItem) -> schema.News:
    return schema.News(id=item.id, title=item.title, text=item.text, time=item.time)


@endpoint("GET", "/news", scope=Scope.READ, tag="news")
async def list_news(call: Call, query: PageQuery) -> schema.NewsList:
    """List news, the newest first."""
    before = users.MAX_ID if query.before is None else query.before
    found = await call.ctx.store.aread(lambda db: users.list_news(db, limit=query.limit, before=before))
    return schema.NewsList(news=[_news(item) for item in found])


@endpoint("GET", "/news/{news_id:int}", scope=Scope.READ, tag="news", problems=(404,))
async def get_news(call: Call, news_id: int) -> schema.News:
    """Read a piece of news."""
    return _news(await call.ctx.store.aread(lambda db: users.news_item(db, news_id)))


@endpoint("POST", "/news", scope=Scope.MANAGE, tag="news", status=201, idempotent=True, quiet=True)
async def add_news(call: Call, body: schema.NewNews) -> schema.News:
    """Publish a piece of news."""

    def add(tx: Transaction) -> schema.News:
        news_id = interventions.publish_news(tx, call.ctx, body.title, body.text, call.actor)
        return _news(users.news_item(tx, news_id))

    return await call.write_once(add, schema.News)


@endpoint("PATCH", "/news/{news_id:int}", scope=Scope.MANAGE, tag="news", problems=(404,), quiet=True)
async def edit_news(call: Call, news_id: int, body: schema.NewsChanges) -> schema.News:
    """Edit a piece of news.

    Clients that have shown it do not show it again.
    """

    def edit(tx: Transaction) -> schema.News:
        old = users.news_item(tx, news_id)
        title = old.title if body.title is None else body.title
        text = old.text if body.text is None else body.text
        interventions.edit_news(tx, call.ctx, news_id, title, text, call.actor)
        return _news(users.news_item(tx, news_id))

    return await call.ctx.store.awrite(edit)


@endpoint("DELETE", "/news/{news_id:int}", scope=Scope.MANAGE, tag="news", problems=(404,), quiet=True)
async def withdraw_news(call: Call, news_id: int) -> schema.News:
    """Withdraw a piece of news.

    It leaves the pages and the feed; a client that has shown it keeps it.
    """

    def withdraw(tx: Transaction) -> schema.News:
        item = users.news_item(tx, news_id)
        interventions.withdraw_news(tx, call.ctx, news_id, call.actor)
        return _news(item)

    return await call.ctx.store.awrite(withdraw)
