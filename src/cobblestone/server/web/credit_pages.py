"""Credit over time: the history since the first day, and the figures behind the drawings as files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from cobblestone.domain.hosts import Host
from cobblestone.domain.ids import AppId, HostId, TeamId, UserId
from cobblestone.domain.people import Team, User
from cobblestone.domain.statistics import SECONDS_PER_DAY
from cobblestone.policy.credit import milestones
from cobblestone.policy.credit.history import day_of
from cobblestone.policy.credit.periods import CreditPeriod, slot_days, slots
from cobblestone.policy.credit.rac import decayed
from cobblestone.server.web.credit_history import MAX_DAYS, date_of, write_csv
from cobblestone.server.web.credit_plot import DAYS_SHOWN, Value, history_plot
from cobblestone.server.web.site import Site, Visit, private
from cobblestone.server.web.visibility import sees_computer
from cobblestone.service.languages import gettext as _
from cobblestone.service.pages.site import PageError, not_found
from cobblestone.store.credit import credit_days
from cobblestone.store.credit.app_credit import Owner
from cobblestone.store.credit.credit_history import CreditOwner
from cobblestone.store.engine.database import Database
from cobblestone.store.people import hosts, users
from cobblestone.store.work import app_days

_NAMES: dict[str, Callable[[], str]] = {
    "user": lambda: _("volunteer %(id)d"),
    "host": lambda: _("computer %(id)d"),
    "team": lambda: _("team %(id)d"),
}
PAGES = {
    "user": "show_user.php?userid=",
    "host": "show_host_detail.php?hostid=",
    "team": "team_display.php?teamid=",
}
"""The page of an owner, up to its number."""


class CreditPages:
    """Credit over time for people, programs and spreadsheets."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        page = self._site.page
        return [
            Route("/credit.csv", page(self.csv)),
            Route("/credit_history.php", page(self.history)),
            Route("/credit_history.json", page(self.history_json)),
            Route("/app_history.json", page(self.app_json)),
        ]

    async def csv(self, visit: Visit) -> Response:
        """Credit, tasks and recent average by day of a user, computer or team; ``days``: how many, today included."""
        owner, found = await credit_owner(visit)
        n_days = visit.number("days") or DAYS_SHOWN
        if n_days > MAX_DAYS:
            raise PageError(
                404,
                _("Too far back"),
                _("There are at most %(days)d days in one file.") % {"days": MAX_DAYS},
            )
        days = await self._site.histories.of(owner, created=found.create_time, n_days=n_days)
        return _file(write_csv(days), "text/csv", f"{owner.kind}-{owner.id}-credit.csv")

    async def history(self, visit: Visit) -> Response:
        """Credit since the first day, as a drawing and a table, and when milestones were reached."""
        owner, found = await credit_owner(visit)
        rows, reached = await visit.ctx.store.aread(
            lambda db: (
                credit_days.credit_periods(db, owner),
                credit_days.milestones_of(db, Owner(owner.kind), owner.id),
            )
        )
        now = visit.ctx.clock()
        step = slot_days(day_of(now) + 1 - rows[0].day) if rows else 1
        parts = slots(rows, step=step, now=now)
        return visit.show(
            "credit_history.html",
            owner=owner,
            found=found,
            page=f"{PAGES[owner.kind]}{owner.id}",
            fields=f"{owner.kind}id={owner.id}",
            plot=history_plot(
                [Value(part.day, part.granted, part.average, part.n_results) for part in parts]
            ),
            step=step,
            first=rows[0].day * SECONDS_PER_DAY if rows else None,
            total_results=rows[-1].total_results if rows else 0,
            milestones=milestones.shown(
                reached, total=found.credit.total, created=found.create_time, now=now
            ),
        )

    async def history_json(self, visit: Visit) -> Response:
        """Show the same for programs: a list of spans, of a day, a week or four weeks."""
        owner, _found = await credit_owner(visit)
        rows = await visit.ctx.store.aread(lambda db: credit_days.credit_periods(db, owner))
        now = visit.ctx.clock()
        return _json([_period(row, now=now) for row in rows], f"{owner.kind}-{owner.id}-history.json")

    async def app_json(self, visit: Visit) -> Response:
        """Show what the jobs of an app did on each day, since the first one."""
        app_id = AppId(visit.needed_number("appid"))
        days = await visit.ctx.store.aread(lambda db: app_days.app_days(db, app_id))
        if not days:
            raise not_found(_("history of app %(id)d") % {"id": app_id})
        return _json([_app_day(day) for day in days], f"app-{app_id}-history.json")


async def credit_owner(visit: Visit) -> tuple[CreditOwner, User | Host | Team]:
    """Return whose credit the query asks for.  Raises PageError for what does not exist or is hidden."""
    owner = _owner(visit)

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
    return owner, found


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


def _period(row: CreditPeriod, *, now: float) -> Mapping[str, object]:
    return {
        "day": date_of(row.day),
        "days": row.n_days,
        "credit": row.granted,
        "tasks": row.n_results,
        "total_credit": row.total,
        "recent_average": decayed(row.recent, min(row.end, now)),
    }


def _app_day(item: app_days.AppDay) -> Mapping[str, object]:
    return {
        "day": date_of(item.day),
        "jobs_done": item.n_success,
        "jobs_failed": item.n_error,
        "tasks_to_do": item.n_unsent,
        "tasks_in_progress": item.n_in_progress,
        "tasks_credited": item.n_results,
        "credit": item.granted,
        "active_computers": item.n_hosts,
    }


def _json(rows: Sequence[Mapping[str, Any]], name: str) -> Response:  # Any: what JSON has
    return _file(json.dumps(rows).encode(), "application/json", name)


def _file(content: bytes, media_type: str, name: str) -> Response:
    return Response(
        content,
        media_type=media_type,
        headers={
            "Content-Disposition": f'attachment; filename="{name}"',
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
        },
    )
