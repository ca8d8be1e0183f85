"""The operator's page for news, which appear on the pages, in the feed, and in clients as notices."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import Response

from cobblestone.server.operation import interventions
from cobblestone.server.web.operator import ForOperators
from cobblestone.server.web.presentation.site import ProjectVisit
from cobblestone.service.languages import gettext as _
from cobblestone.service.pages.pages import shows
from cobblestone.service.pages.site import not_found
from cobblestone.store.engine.database import Transaction
from cobblestone.store.people import users
from cobblestone.wire.text.writer import printable

MAX_TITLE = 200
MAX_TEXT = 20_000
MAX_FORM_BYTES = 12 * (MAX_TEXT + MAX_TITLE) + 1000  # a letter of four bytes takes twelve in a form
LISTED = 50


class NewsDesk(ForOperators):
    """The page where news are written, edited and withdrawn."""

    @shows("/ops_news.php", methods=["GET", "HEAD", "POST"])
    async def news(self, visit: ProjectVisit) -> Response:
        """Show the list of news with a form for a new item, or one item in a form."""
        number = visit.number("id")
        if visit.request.method == "POST":
            return await self._change(visit, number)
        return await self._show(visit, number, {}, {})

    async def _show(
        self, visit: ProjectVisit, number: int | None, typed: Mapping[str, str], problems: Mapping[str, str]
    ) -> Response:
        item = None if number is None else await visit.read(lambda db: users.find_news(db, number))
        if number is not None and item is None:
            raise not_found(_("news item of this number"))
        if item is not None and not typed:
            typed = {"title": item.title, "text": item.text}
        return visit.show(
            "ops_news.html",
            items=[] if item else await visit.read(lambda db: users.list_news(db, limit=LISTED)),
            listed=LISTED,
            item=item,
            typed=typed,
            problems=problems,
        )

    async def _change(self, visit: ProjectVisit, number: int | None) -> Response:
        form = await visit.form(max_bytes=MAX_FORM_BYTES, long_fields={"text"})
        ctx, actor = visit.ctx, visit.actor
        title = " ".join(printable(form.get("title", "")).split())
        text = printable(form.get("text", "")).strip()
        withdrawn = form.get("action") == "withdraw" and number is not None
        problems = {} if withdrawn else _problems(title, text)
        if problems:
            return await self._show(visit, number, {"title": title, "text": text}, problems)

        def change(tx: Transaction) -> None:
            if number is None:
                interventions.publish_news(tx, ctx, title, text, actor)
            elif withdrawn:
                interventions.withdraw_news(tx, ctx, number, actor)
            else:
                interventions.edit_news(tx, ctx, number, title, text, actor)

        await ctx.store.awrite(change)
        return visit.go("ops_news.php")


def _problems(title: str, text: str) -> dict[str, str]:
    """Return the errors of a news item, by field."""
    found: dict[str, str] = {}
    for name, value, most in (("title", title, MAX_TITLE), ("text", text, MAX_TEXT)):
        if not value:
            found[name] = _("This is empty.")
        elif len(value) > most:
            found[name] = _("At most %(most)d characters are allowed; you entered %(length)d.") % {
                "most": most,
                "length": len(value),
            }
    return found
