"""One's own computers: where they are sent, why, and what is kept back."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from cobblestone.account_manager.model import ManagedHost, ManagerAccount
from cobblestone.account_manager.store import hosts, ledger
from cobblestone.account_manager.web.choices import venue_names
from cobblestone.account_manager.web.site import ManagerSite, Visit
from cobblestone.policy.account_manager.amounts import total
from cobblestone.service.languages import gettext as _
from cobblestone.service.pages.site import not_found
from cobblestone.store.engine.database import Database
from cobblestone.wire.volunteer_preferences import VENUES


class ComputerPages:
    """Pages of computers, for their owner only."""

    def __init__(self, site: ManagerSite) -> None:
        self._site = site

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [Route("/computer.php", self._site.own_page(self.computer), methods=["GET", "POST"])]

    async def computer(self, visit: Visit, account: ManagerAccount) -> Response:
        """One computer; a form says where it stands, or leaves it out of lists."""
        host_id = visit.needed_number("id")
        host = await visit.ctx.store.aread(lambda db: hosts.host_by_id(db, host_id))
        if host is None or host.account_id != account.id:
            raise not_found(_("computer"))
        if visit.request.method == "POST":
            return await self._change(visit, host)

        def read(db: Database) -> dict[str, Any]:
            reports = hosts.host_projects(db, host.id)
            return {
                "reports": reports,
                "held": total(each.record.held for each in reports.values()),
                "disputed": total(each.record.disputed for each in reports.values()),
                "counted": ledger.by_host(db, account.id).get(host.id),
            }

        found = await visit.ctx.store.aread(read)
        names = {project.id: project for project in visit.ctx.projects.projects}
        return visit.show_form("computer.html", host=host, projects=names, venues=venue_names(), **found)

    async def _change(self, visit: Visit, host: ManagedHost) -> Response:
        form = await visit.form()
        venue = form.get("venue", "")
        if form.get("what") == "hide":
            await visit.ctx.store.awrite(lambda tx: hosts.set_hidden(tx, host.id, host.account_id))
            return visit.go("home.php")
        if venue in ("", *VENUES):
            await visit.ctx.store.awrite(lambda tx: hosts.set_venue(tx, host.id, host.account_id, venue))
        return visit.go(f"computer.php?id={host.id}")
