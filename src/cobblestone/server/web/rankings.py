"""Top lists of volunteers, computers and teams, by recent or total credit, of all apps or of one; one's own place there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from cobblestone.domain.apps import App
from cobblestone.domain.hosts import Host
from cobblestone.domain.ids import HostId
from cobblestone.domain.people import User
from cobblestone.server.web.credit_pages import PAGES, credit_owner
from cobblestone.server.web.site import Site, Visit
from cobblestone.server.web.visibility import sees_computer
from cobblestone.service.languages import gettext as _
from cobblestone.service.pages.site import not_found
from cobblestone.store.catalog import apps
from cobblestone.store.credit.app_credit import Owner
from cobblestone.store.credit.badges import badges_of
from cobblestone.store.engine.database import Database
from cobblestone.store.operation import page_queries, ranking
from cobblestone.store.operation.ranking import Order, Place, Ranked
from cobblestone.store.people import hosts, teams


@dataclass(frozen=True, slots=True)
class Wish:
    """Which part of which list somebody wants to see."""

    order: Order
    app_id: int | None
    page: int

    @property
    def query(self) -> str:
        """The address's fields without the page."""
        return f"by={self.order}" + (f"&appid={self.app_id}" if self.app_id else "")


class RankingPages:
    """Top lists."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        page = self._site.page
        return [
            Route("/top_users.php", page(self.users)),
            Route("/top_hosts.php", page(self.hosts)),
            Route("/top_teams.php", page(self.teams)),
            Route("/rank.php", page(self.place)),
        ]

    async def users(self, visit: Visit) -> Response:
        """Volunteers."""

        def details(db: Database, ranked: list[Ranked]) -> dict[str, Any]:
            return {"users": page_queries.users_by_id(db, [item.id for item in ranked])}

        return await self._list(visit, "top_users.html", Owner.USER, details)

    async def hosts(self, visit: Visit) -> Response:
        """Show computers; of those that their owners hide only the credit appears."""

        def details(db: Database, ranked: list[Ranked]) -> dict[str, Any]:
            present, owner_of = _hosts(db, ranked, visit.viewer)
            return {"hosts": present, "owner_of": owner_of}

        return await self._list(visit, "top_hosts.html", Owner.HOST, details)

    async def teams(self, visit: Visit) -> Response:
        """Teams."""

        def details(db: Database, ranked: list[Ranked]) -> dict[str, Any]:
            return {"teams": {row.team.id: row for row in teams.rows_of(db, [item.id for item in ranked])}}

        return await self._list(visit, "top_teams.html", Owner.TEAM, details)

    async def place(self, visit: Visit) -> Response:
        """Where a volunteer, computer or team stands, and who stands beside."""
        owner, found = await credit_owner(visit)
        kind = Owner(owner.kind)

        def read(db: Database) -> list[tuple[Order, Place | None, dict[int, str]]]:
            places = [(order, ranking.place(db, kind, order, owner.id)) for order in Order]
            return [
                (
                    order,
                    place,
                    _names(db, kind, [row for _rank, row in place.rows] if place else [], visit.viewer),
                )
                for order, place in places
            ]

        return visit.show(
            "rank.html",
            owner=owner,
            found=found,
            page=PAGES[owner.kind],
            places=await visit.ctx.store.aread(read),
            list_page=f"top_{owner.kind}s.php",
        )

    async def _list(
        self,
        visit: Visit,
        template: str,
        owner: Owner,
        details: Callable[[Database, list[Ranked]], dict[str, Any]],
    ) -> Response:
        wish = _wish(visit)

        def read(db: Database) -> dict[str, Any]:
            found_apps = apps.apps_in_use(db)
            if wish.app_id is not None and wish.app_id not in {app.id for app in found_apps}:
                raise not_found(_("app %(id)d") % {"id": wish.app_id})
            ranked = ranking.top(db, owner, wish.order, page=wish.page, app_id=wish.app_id)
            shown = ranked[: page_queries.PAGE_SIZE]
            return {
                "apps": found_apps,
                "rows": shown,
                "more": len(ranked) > page_queries.PAGE_SIZE,
                "badges": badges_of(db, owner, [item.id for item in shown]),
                **details(db, shown),
            }

        found = await visit.ctx.store.aread(read)
        chosen: App | None = next((app for app in found["apps"] if app.id == wish.app_id), None)
        return visit.show(
            template,
            page=wish.page,
            first=wish.page * page_queries.PAGE_SIZE,
            query=wish.query,
            order=wish.order,
            app=chosen,
            **found,
        )


def _hosts(
    db: Database, ranked: Iterable[Ranked], viewer: User | None
) -> tuple[dict[int, Host], dict[HostId, User]]:
    """Return computers, and the owners of those that the visitor may see."""
    found = {item.id: hosts.host_by_id(db, HostId(item.id)) for item in ranked}
    present = {number: host for number, host in found.items() if host is not None}
    users = page_queries.users_by_id(db, [host.user_id for host in present.values()])
    owner_of = {
        host.id: users[host.user_id]
        for host in present.values()
        if sees_computer(viewer, users.get(host.user_id), host)
    }
    return present, owner_of


def _names(db: Database, kind: Owner, ranked: list[Ranked], viewer: User | None) -> dict[int, str]:
    """Return what those are called that the visitor may see."""
    if kind is Owner.USER:
        return {
            id_: user.name for id_, user in page_queries.users_by_id(db, [item.id for item in ranked]).items()
        }
    if kind is Owner.TEAM:
        return {row.team.id: row.team.name for row in teams.rows_of(db, [item.id for item in ranked])}
    _present, owner_of = _hosts(db, ranked, viewer)
    return {host_id: _("Computer %(id)s") % {"id": host_id} for host_id in owner_of}


def _wish(visit: Visit) -> Wish:
    word = visit.fields.get("by", "") or Order.RECENT
    try:
        order = Order(word)
    except ValueError:
        raise not_found(_("order %(name)s") % {"name": repr(word[:20])}) from None
    return Wish(order, visit.number("appid"), visit.page_number())
