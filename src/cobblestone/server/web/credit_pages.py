"""Credit over time, and top lists of volunteers, computers and teams."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from cobblestone.domain.apps import App
from cobblestone.domain.hosts import Host
from cobblestone.domain.people import Team, User
from cobblestone.domain.values import DAY, AppId, HostId, TeamId, UserId
from cobblestone.policy.credit.history import CreditPeriod, day_of, slot_days, slots
from cobblestone.policy.credit.rac import decayed
from cobblestone.server.web.presentation.plots import DAYS_SHOWN, Value, history_plot
from cobblestone.server.web.presentation.site import ProjectSite, ProjectVisit, private, sees_computer
from cobblestone.server.web.presentation.standing import (
    MAX_DAYS,
    date_of,
    days_until_today,
    milestones,
    write_csv,
)
from cobblestone.service.languages import gettext as _
from cobblestone.service.pages.pages import Pages, shows
from cobblestone.service.pages.site import PageError, not_found
from cobblestone.store.catalog import apps
from cobblestone.store.credit import history as credit_days
from cobblestone.store.credit.app_credit import Owner
from cobblestone.store.credit.history import CreditOwner
from cobblestone.store.engine.database import Database
from cobblestone.store.operation import page_queries, ranking
from cobblestone.store.operation.ranking import Order, RankPlace, badges_of
from cobblestone.store.people import hosts, teams, users
from cobblestone.store.work import job_results

_NAMES: dict[str, Callable[[], str]] = {
    "user": lambda: _("volunteer %(id)d"),
    "host": lambda: _("computer %(id)d"),
    "team": lambda: _("team %(id)d"),
}
#: The page of an owner, up to its number.
PAGES = {
    "user": "show_user.php?userid=",
    "host": "show_host_detail.php?hostid=",
    "team": "team_display.php?teamid=",
}


class CreditPages(Pages[ProjectSite]):
    """Credit over time for people, programs and spreadsheets."""

    @shows("/credit.csv")
    async def csv(self, visit: ProjectVisit) -> Response:
        """Return credit, tasks and recent average by day of a user, computer or team; ``days``: how many, with today."""
        owner, found = await credit_owner(visit)
        n_days = visit.number("days") or DAYS_SHOWN
        if n_days > MAX_DAYS:
            raise PageError(
                404, _("Too far back"), _("A file covers at most %(days)d days.") % {"days": MAX_DAYS}
            )
        days = await days_until_today(visit.ctx, owner, created=found.create_time, n_days=n_days)
        return _file(write_csv(days), "text/csv", f"{owner.kind}-{owner.id}-credit.csv")

    @shows("/credit_history.php")
    async def history(self, visit: ProjectVisit) -> Response:
        """Show credit since the first day, as a chart and a table, and when milestones were reached."""
        owner, found = await credit_owner(visit)
        now = visit.ctx.clock()
        rows, reached = await visit.read(
            lambda db: (
                credit_days.credit_periods(db, owner),
                milestones(db, Owner(owner.kind), found, now=now),
            )
        )
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
            first=rows[0].day * DAY if rows else None,
            total_results=rows[-1].total_results if rows else 0,
            milestones=reached,
        )

    @shows("/credit_history.json")
    async def history_json(self, visit: ProjectVisit) -> Response:
        """Return the same for programs: a list of spans of a day, a week or four weeks."""
        owner, _found = await credit_owner(visit)
        rows = await visit.read(lambda db: credit_days.credit_periods(db, owner))
        now = visit.ctx.clock()
        return _json([_period(row, now=now) for row in rows], f"{owner.kind}-{owner.id}-history.json")

    @shows("/app_history.json")
    async def app_json(self, visit: ProjectVisit) -> Response:
        """Return what the jobs of an app did on each day, since the first one."""
        app_id = AppId(visit.needed_number("appid"))
        days = await visit.read(lambda db: job_results.app_days(db, app_id))
        if not days:
            raise not_found(_("history of app %(id)d") % {"id": app_id})
        return _json([_app_day(day) for day in days], f"app-{app_id}-history.json")


async def credit_owner(visit: ProjectVisit) -> tuple[CreditOwner, User | Host | Team]:
    """Return the owner of the credit in the query.  Raises PageError if it does not exist or is hidden."""
    owner = _owner(visit)

    def read(db: Database) -> tuple[User | Host | Team | None, User | None]:
        if owner.kind == "user":
            return users.user_by_id(db, UserId(owner.id)), None
        if owner.kind == "team":
            return users.team_by_id(db, TeamId(owner.id)), None
        host = hosts.host_by_id(db, HostId(owner.id))
        return host, None if host is None else users.user_by_id(db, host.user_id)

    found, host_owner = await visit.read(read)
    if found is None:
        raise not_found(_NAMES[owner.kind]() % {"id": owner.id})
    if isinstance(found, Host) and not sees_computer(visit.viewer, host_owner, found):
        raise private()
    return owner, found


def _owner(visit: ProjectVisit) -> CreditOwner:
    """Return the owner named in the query; raises PageError unless it names exactly one."""
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
                404, _("Not complete"), _("The address must have one of ?userid=1, ?hostid=1 and ?teamid=1.")
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


def _app_day(item: job_results.AppDay) -> Mapping[str, object]:
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


@dataclass(frozen=True, slots=True)
class Wish:
    """The requested part of a list."""

    order: Order
    app_id: int | None
    page: int

    @property
    def query(self) -> str:
        """Return the address's fields without the page."""
        return f"by={self.order}" + (f"&appid={self.app_id}" if self.app_id else "")


class ProjectRankings(Pages[ProjectSite]):
    """Top lists."""

    @shows("/top_users.php", "/top_hosts.php", "/top_teams.php")
    async def top(self, visit: ProjectVisit) -> Response:
        """Show volunteers, computers (of those hidden by their owners the credit only) or teams."""
        name = visit.request.url.path.rpartition("/top_")[2].removesuffix("s.php")
        owner, wish = Owner(name), _wish(visit)

        def read(db: Database) -> dict[str, Any]:
            found_apps = apps.apps_in_use(db)
            if wish.app_id is not None and wish.app_id not in {app.id for app in found_apps}:
                raise not_found(_("app %(id)d") % {"id": wish.app_id})
            ranked = ranking.top(db, owner, wish.order, page=wish.page, app_id=wish.app_id)
            ids = [item.id for item in ranked[: page_queries.PAGE_SIZE]]
            return {
                "apps": found_apps,
                "rows": ranked[: page_queries.PAGE_SIZE],
                "more": len(ranked) > page_queries.PAGE_SIZE,
                "badges": badges_of(db, owner, ids),
                **_owners(db, owner, ids, visit.viewer),
            }

        found = await visit.read(read)
        chosen: App | None = next((app for app in found["apps"] if app.id == wish.app_id), None)
        return visit.show(
            f"top_{owner}s.html",
            page=wish.page,
            first=wish.page * page_queries.PAGE_SIZE,
            query=wish.query,
            order=wish.order,
            app=chosen,
            **found,
        )

    @shows("/rank.php")
    async def place(self, visit: ProjectVisit) -> Response:
        """Show the rank of a volunteer, computer or team, and its neighbours."""
        owner, found = await credit_owner(visit)
        kind, viewer = Owner(owner.kind), visit.viewer

        def read(db: Database) -> list[tuple[Order, RankPlace | None, dict[int, str]]]:
            places = [
                (order, ranking.place(db, kind, order, owner.id, visit.ctx.costly.get)) for order in Order
            ]
            return [
                (order, place, _names(db, kind, [row.id for _, row in place.rows] if place else [], viewer))
                for order, place in places
            ]

        return visit.show(
            "rank.html",
            owner=owner,
            found=found,
            page=PAGES[owner.kind],
            places=await visit.read(read),
            list_page=f"top_{owner.kind}s.php",
        )


def _owners(db: Database, kind: Owner, ids: list[int], viewer: User | None) -> dict[str, Any]:
    """Return the owners of credit by their numbers; of computers also who owns those that the visitor may see."""
    if kind is Owner.USER:
        return {"users": page_queries.users_by_id(db, ids)}
    if kind is Owner.TEAM:
        return {"teams": {row.team.id: row for row in teams.rows_of(db, ids)}}
    found = db.readable(lambda id_: (id_, hosts.host_by_id(db, HostId(id_))), ids)
    present = {number: host for number, host in found if host is not None}
    users = page_queries.users_by_id(db, [host.user_id for host in present.values()])
    owner_of = {
        host.id: users[host.user_id]
        for host in present.values()
        if sees_computer(viewer, users.get(host.user_id), host)
    }
    return {"hosts": present, "owner_of": owner_of}


def _names(db: Database, kind: Owner, ids: list[int], viewer: User | None) -> dict[int, str]:
    """Return the names that the visitor may see."""
    found = _owners(db, kind, ids, viewer)
    if kind is Owner.USER:
        return {id_: user.name for id_, user in found["users"].items()}
    if kind is Owner.TEAM:
        return {id_: row.team.name for id_, row in found["teams"].items()}
    return {host_id: _("Computer %(id)s") % {"id": host_id} for host_id in found["owner_of"]}


def _wish(visit: ProjectVisit) -> Wish:
    word = visit.fields.get("by", "") or Order.RECENT
    try:
        order = Order(word)
    except ValueError:
        raise not_found(_("order %(name)s") % {"name": repr(word[:20])}) from None
    return Wish(order, visit.number("appid"), visit.page_number())
