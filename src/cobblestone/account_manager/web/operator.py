"""Pages for the operator: the state of projects, what was counted, and where to look."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from starlette.responses import Response

from cobblestone.account_manager.core import operation
from cobblestone.account_manager.core.operation import MAX_TEXT
from cobblestone.account_manager.model import ManagerAccount
from cobblestone.account_manager.store import granted, ledger
from cobblestone.account_manager.web.site import ManagerSite, ManagerVisit, day_bars
from cobblestone.domain.errors import CobblestoneError
from cobblestone.policy.credit.history import day_of
from cobblestone.service.languages import gettext as _
from cobblestone.service.pages.fields import parse_number
from cobblestone.service.pages.pages import BOTH, Pages, shows
from cobblestone.service.pages.site import PageError, not_found
from cobblestone.service.supervision import daemon_notes
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.people import users

SHOWN_ENTRIES = 20
MAX_TITLE = 200


class OperatorPages(Pages[ManagerSite]):
    """Pages for operators."""

    @shows("/ops.php", methods=BOTH, own=True)
    async def operation(self, visit: ManagerVisit, account: ManagerAccount) -> Response:
        """Show everything important; forms change projects and delete entries of the ledger."""
        if not account.is_operator:
            raise not_found(_("page"))
        if visit.request.method == "POST":
            await self._change(visit)
            await visit.read(visit.ctx.projects.load)
            return visit.go("ops.php")
        today = day_of(visit.ctx.clock())
        asks = visit.ctx.settings.accounting.policy != "estimate"

        def read(db: Database) -> dict[str, Any]:
            return {
                "counted": ledger.sum_of(db, "all"),
                "by_project": {
                    each.id: ledger.sum_of(db, "project", each.id) for each in visit.ctx.projects.projects
                },
                "entries": ledger.largest_entries(db, since_day=today - 6, limit=SHOWN_ENTRIES),
                "bars": day_bars(ledger.days_of(db, "all", 0, since_day=today - 29), today=today),
                "accounting": granted.all_project_accounting(db) if asks else {},
                "news": users.list_news(db, limit=SHOWN_ENTRIES),
                "people": int(db.value("SELECT COUNT(*) FROM account")),
            }

        found = await visit.read(read)
        projects = visit.ctx.projects
        return visit.show_form(
            "ops.html",
            projects=projects.projects,
            dryness={each.id: projects.dryness(each.id) for each in projects.projects},
            daemons={each.name: (each.state, each.last_error) for each in daemon_notes(visit.ctx)},
            **found,
        )

    async def _change(self, visit: ManagerVisit) -> None:
        form = await visit.form(max_bytes=4 * MAX_TEXT, long_fields={"text"})
        ctx, now, what = visit.ctx, visit.ctx.clock(), form.get("what")
        write: Callable[[Transaction], object]
        try:
            number = 0 if what in ("add", "news") else int(form.get("id", "0"))
            if what == "add":
                url = form.get("url", "")
                signature = operation.sign_address(ctx.folder, url)
                write = partial(operation.add_project, url=url, signature=signature, now=now)
            elif what == "news":
                title, text = form.get("title", "").strip(), form.get("text", "").strip()
                if not title or not text or len(title) > MAX_TITLE or len(text) > MAX_TEXT:
                    raise ValueError(_("News need a title and a text."))
                write = partial(users.add_news, title=title, text=text, now=now)
            elif what == "withdraw":
                write = partial(users.withdraw_news, news_id=number)
            elif what == "entry":
                write = partial(ledger.delete_entries, ids=[number])
            else:
                share, stopped = parse_number(form.get("share", "")), "stopped" in form
                write = partial(
                    operation.change_project, project_id=number, share=share, stopped=stopped, now=now
                )
            await ctx.store.awrite(write)
        except (CobblestoneError, ValueError) as error:
            raise PageError(422, _("Not possible"), str(error)) from error
