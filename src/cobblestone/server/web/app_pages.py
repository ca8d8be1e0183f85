"""Pages of apps: what is computed, by which versions, with what success."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from cobblestone.domain.apps import App
from cobblestone.domain.errors import NotFound
from cobblestone.domain.ids import AppId
from cobblestone.server.web.app_progress import progress
from cobblestone.server.web.site import Site, Visit
from cobblestone.server.web.status import CachedRead, ProjectStatus
from cobblestone.service.languages import gettext as _
from cobblestone.service.pages.site import not_found
from cobblestone.store.catalog import apps
from cobblestone.store.credit.app_credit import Owner
from cobblestone.store.engine.database import Database
from cobblestone.store.operation import page_queries, ranking
from cobblestone.store.operation.page_queries import Outcomes, VersionRow
from cobblestone.store.operation.ranking import Order
from cobblestone.store.work import app_days
from cobblestone.store.work.app_days import AppDay

BEST = 5
MAX_REMEMBERED = 100


class AppPages:
    """Apps and their versions."""

    def __init__(self, site: Site, status: ProjectStatus) -> None:
        self._site = site
        self._status = status
        self._outcomes: OrderedDict[AppId, CachedRead[dict[int, Outcomes]]] = OrderedDict()

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [
            Route("/apps.php", self._site.page(self.apps)),
            Route("/app.php", self._site.page(self.app)),
        ]

    async def apps(self, visit: Visit) -> Response:
        """All apps and their versions."""
        counts = await self._status.counts()

        def read(db: Database) -> tuple[list[App], list[VersionRow], dict[AppId, list[AppDay]]]:
            found = apps.apps_in_use(db)
            return (
                found,
                page_queries.versions_in_use(db),
                {app.id: app_days.app_days(db, app.id) for app in found},
            )

        found, versions, days = await visit.ctx.store.aread(read)
        now = visit.ctx.clock()
        by_app = {app.app_id: app for app in counts.apps}
        return visit.show(
            "apps.html",
            apps=[
                (
                    app,
                    by_app.get(app.id),
                    [item for item in versions if item.app_id == app.id],
                    progress(days[app.id], now=now),
                )
                for app in found
            ],
        )

    async def app(self, visit: Visit) -> Response:
        """One app: its versions with how recent tasks ended, its rules, who computed most."""
        app_id = AppId(visit.needed_number("appid"))

        def read(db: Database) -> dict[str, Any]:
            app = apps.app_by_id(db, app_id)
            best = ranking.top(db, Owner.USER, Order.TOTAL, page=0, app_id=app_id)[:BEST]
            return {
                "app": app,
                "versions": [item for item in page_queries.versions_in_use(db) if item.app_id == app_id],
                "best": best,
                "days": app_days.app_days(db, app_id),
                "users": page_queries.users_by_id(db, [item.id for item in best]),
            }

        try:
            found = await visit.ctx.store.aread(read)
        except NotFound:
            raise not_found(_("app %(id)d") % {"id": app_id}) from None
        counts = await self._status.counts()
        return visit.show(
            "app.html",
            figures=next((item for item in counts.apps if item.app_id == app_id), None),
            outcomes=await self._outcomes_of(app_id),
            newest=page_queries.NEWEST_TASKS,
            progress=progress(found.pop("days"), now=visit.ctx.clock()),
            **found,
        )

    async def _outcomes_of(self, app_id: AppId) -> dict[int, Outcomes]:
        remembered = self._outcomes.get(app_id)
        if remembered is None:
            remembered = CachedRead(self._site.ctx, lambda db: page_queries.outcomes_by_version(db, app_id))
            self._outcomes[app_id] = remembered
            if len(self._outcomes) > MAX_REMEMBERED:
                self._outcomes.popitem(last=False)
        return await remembered.get()
