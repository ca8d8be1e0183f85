"""The figures behind the drawings of credit, as a file."""

from __future__ import annotations

from collections.abc import Callable

from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from cobblestone.domain.hosts import Host
from cobblestone.domain.ids import HostId, TeamId, UserId
from cobblestone.domain.people import Team, User
from cobblestone.server.web.credit_history import MAX_DAYS, write_csv
from cobblestone.server.web.credit_plot import DAYS_SHOWN
from cobblestone.server.web.site import Site, Visit, private
from cobblestone.server.web.visibility import sees_computer
from cobblestone.service.languages import gettext as _
from cobblestone.service.pages.site import PageError, not_found
from cobblestone.store.credit.credit_history import CreditOwner
from cobblestone.store.engine.database import Database
from cobblestone.store.people import hosts, users

_NAMES: dict[str, Callable[[], str]] = {
    "user": lambda: _("volunteer %(id)d"),
    "host": lambda: _("computer %(id)d"),
    "team": lambda: _("team %(id)d"),
}


class CreditPages:
    """Credit over time for programs and spreadsheets."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def routes(self) -> list[BaseRoute]:
        """Where they are."""
        return [Route("/credit.csv", self._site.page(self.csv))]

    async def csv(self, visit: Visit) -> Response:
        """Credit, tasks and recent average by day of a user, computer or team; ``days``: how many, today included."""
        owner = _owner(visit)
        n_days = visit.number("days") or DAYS_SHOWN
        if n_days > MAX_DAYS:
            raise PageError(
                404,
                _("Too far back"),
                _("There are at most %(days)d days in one file.") % {"days": MAX_DAYS},
            )

        def read(db: Database) -> tuple[User | Host | Team | None, User | None]:
            if owner.kind == "user":
                return users.user_by_id(db, UserId(owner.id)), None
            if owner.kind == "team":
                return users.team_by_id(db, TeamId(owner.id)), None
            host = hosts.host_by_id(db, HostId(owner.id))
            return host, None if host is None else users.user_by_id(db, host.user_id)

        found, host_owner = await visit.ctx.store.aread(read)
        if found is None:
            raise not_found(_NAMES[owner.kind]() % {"id": owner.id})
        if isinstance(found, Host) and not sees_computer(visit.viewer, host_owner, found):
            raise private()
        days = await self._site.histories.of(owner, created=found.create_time, n_days=n_days)
        return Response(
            write_csv(days),
            media_type="text/csv",
            headers={
                "Content-Disposition": f'attachment; filename="{owner.kind}-{owner.id}-credit.csv"',
                "Cache-Control": "no-store",
                "X-Content-Type-Options": "nosniff",
            },
        )


def _owner(visit: Visit) -> CreditOwner:
    """Whose credit the query asks for; raises PageError unless it names exactly one."""
    user_id, host_id, team_id = (visit.number(name) for name in ("userid", "hostid", "teamid"))
    match user_id, host_id, team_id:
        case int(), None, None:
            return CreditOwner("user", user_id)
        case None, int(), None:
            return CreditOwner("host", host_id)
        case None, None, int():
            return CreditOwner("team", team_id)
        case _:
            raise PageError(
                404,
                _("Something is missing"),
                _("The address needs one of ?userid=1, ?hostid=1 and ?teamid=1."),
            )
