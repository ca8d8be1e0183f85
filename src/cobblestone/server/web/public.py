"""Pages for everybody: home, status, apps, people, teams, top lists, news."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from cobblestone.domain.apps import App
from cobblestone.domain.hosts import Host
from cobblestone.domain.ids import TeamId, UserId
from cobblestone.domain.people import User
from cobblestone.server.remembered import Remembered
from cobblestone.server.web.languages import NAMES
from cobblestone.server.web.languages import gettext as _
from cobblestone.server.web.site import SECURITY_HEADERS, PageError, Site, Visit, not_found, own_page
from cobblestone.server.web.status import DAEMONS, ProjectStatus
from cobblestone.server.web.visibility import is_owner, sees_computers
from cobblestone.store import apps, hosts, pages, people
from cobblestone.store.credit_history import CreditOwner
from cobblestone.store.database import Database
from cobblestone.wire.account import PublicHost, PublicUser, WebRpcError, write_user_xml, write_web_rpc_error
from cobblestone.wire.identity import external_cpid

T = TypeVar("T")

TOP_HOSTS = 200
NEWS_ON_HOME = 3


class PublicPages:
    """Pages that need no account."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._status = ProjectStatus(site.ctx)
        # There is no index on the credit of hosts, so this list is looked up seldom.
        self._top_hosts = Remembered(site.ctx, lambda db: pages.top_host_ids(db, limit=TOP_HOSTS))

    def routes(self) -> list[BaseRoute]:
        """Where they are."""
        page = self._site.page
        return [
            Route("/", page(self.home)),
            Route("/index.php", page(self.home)),
            Route("/server_status.php", page(self.server_status)),
            Route("/apps.php", page(self.apps)),
            Route("/show_user.php", page(self.user)),
            Route("/team_display.php", page(self.team)),
            Route("/top_users.php", page(self.top_users)),
            Route("/top_hosts.php", page(self.top_hosts)),
            Route("/top_teams.php", page(self.top_teams)),
            Route("/news.php", page(self.news)),
            Route("/language.php", page(self.language)),
        ]

    async def home(self, visit: Visit) -> Response:
        """What this project is, how it is doing, how to join; clients find the scheduler here."""
        counts = await self._status.counts()
        found_apps, news = await visit.ctx.store.aread(
            lambda db: (_apps_in_use(db), people.list_news(db, limit=NEWS_ON_HOME))
        )
        by_app = {app.app_id: app for app in counts.apps}
        return visit.show(
            "index.html",
            counts=counts,
            gflops=self._status.gflops(counts),
            apps=[(app, by_app.get(app.id)) for app in found_apps],
            news=news,
        )

    async def server_status(self, visit: Visit) -> Response:
        """The state of the server, for people, for status sites, and as the part that pages refresh."""
        if visit.fields.get("xml"):
            return Response(
                await self._status.xml(),
                media_type="text/xml",
                headers={"Access-Control-Allow-Origin": "*", "X-Content-Type-Options": "nosniff"},
            )
        counts = await self._status.counts()
        values: dict[str, Any] = {"counts": counts, "gflops": self._status.gflops(counts)}
        if visit.fields.get("part") == "live":
            return visit.show("part_live.html", **values)
        return visit.show(
            "server_status.html",
            daemons=[(daemon, DAEMONS[daemon.command]) for daemon in self._status.daemons()],
            backlog=self._status.backlog_seconds(counts),
            started=visit.ctx.started,
            **values,
        )

    async def apps(self, visit: Visit) -> Response:
        """Apps and their versions."""
        counts = await self._status.counts()
        found, versions = await visit.ctx.store.aread(
            lambda db: (_apps_in_use(db), pages.versions_in_use(db))
        )
        by_app = {app.app_id: app for app in counts.apps}
        return visit.show(
            "apps.html",
            apps=[
                (app, by_app.get(app.id), [item for item in versions if item.app_id == app.id])
                for app in found
            ],
        )

    async def user(self, visit: Visit) -> Response:
        """A volunteer, for people or as XML."""
        if visit.fields.get("format") == "xml":
            return await self._user_xml(visit)
        user_id = UserId(visit.needed_number("userid"))
        user = await visit.ctx.store.aread(lambda db: people.user_by_id(db, user_id))
        if user is None:
            raise not_found(_("volunteer %(id)d") % {"id": user_id})
        is_open = sees_computers(visit.viewer, user)

        def read(db: Database) -> dict[str, Any]:
            return {
                "team": None if user.team_id is None else people.team_by_id(db, user.team_id),
                "n_hosts": len(hosts.hosts_of_user(db, user.id)) if is_open else 0,
            }

        found = await visit.ctx.store.aread(read)
        return visit.show(
            "user.html",
            user=user,
            open=is_open,
            own=is_owner(visit.viewer, user),
            cpid=external_cpid(user.cross_project_id, user.email_addr),
            plot=await self._site.credit_plot(CreditOwner("user", user.id), created=user.create_time),
            **found,
        )

    async def _user_xml(self, visit: Visit) -> Response:
        """A volunteer in the family's form; with the account key (``auth``) also the computers."""
        key = visit.fields.get("auth", "")[:255]
        try:
            user_id = None if key else visit.number("userid")
        except PageError:
            user_id = None

        def read(db: Database) -> tuple[User | None, list[Host] | None]:
            if key:
                found = people.user_by_authenticator(db, key)
                if found is None or found[1]:  # the weak key shows nothing
                    return None, None
                return found[0], hosts.hosts_of_user(db, found[0].id)
            return (None if user_id is None else people.user_by_id(db, UserId(user_id))), None

        user, own_hosts = await visit.ctx.store.aread(read)
        if user is None:
            return _xml(write_web_rpc_error(WebRpcError.NOT_FOUND))
        public = PublicUser(
            id=user.id,
            cpid=external_cpid(user.cross_project_id, user.email_addr),
            create_time=user.create_time,
            name=user.name,
            country=user.country,
            total_credit=user.credit.total,
            expavg_credit=user.credit.recent.value,
            expavg_time=user.credit.recent.time,
            teamid=user.team_id or 0,
            url=user.url,
            venue=user.venue,
        )
        return _xml(
            write_user_xml(public, None if own_hosts is None else [_public_host(host) for host in own_hosts])
        )

    async def team(self, visit: Visit) -> Response:
        """A team and its members."""
        team_id = TeamId(visit.needed_number("teamid"))
        page = visit.page_number()

        def read(db: Database) -> dict[str, Any] | None:
            team = people.team_by_id(db, team_id)
            if team is None:
                return None
            return {
                "team": team,
                "founder": people.user_by_id(db, team.founder_id),
                "n_members": pages.count_members(db, team_id),
                **_page_of("members", pages.team_members(db, team_id, page=page)),
            }

        found = await visit.ctx.store.aread(read)
        if found is None:
            raise not_found(_("team %(id)d") % {"id": team_id})
        created = found["team"].create_time
        plot = await self._site.credit_plot(CreditOwner("team", team_id), created=created)
        return visit.show(
            "team.html",
            page=page,
            first=page * pages.PAGE_SIZE,
            query=f"teamid={team_id}",
            plot=plot,
            **found,
        )

    async def top_users(self, visit: Visit) -> Response:
        """Volunteers by recent average credit."""
        page = visit.page_number()
        found = await visit.ctx.store.aread(lambda db: pages.top_users(db, page=page))
        return visit.show(
            "top_users.html", page=page, first=page * pages.PAGE_SIZE, **_page_of("users", found)
        )

    async def top_hosts(self, visit: Visit) -> Response:
        """Computers by recent average credit."""
        page = visit.page_number()
        start = page * pages.PAGE_SIZE
        ids = (await self._top_hosts.get())[start : start + pages.PAGE_SIZE + 1]

        def read(db: Database) -> tuple[list[Host], dict[UserId, User]]:
            found = [host for host in (hosts.host_by_id(db, id_) for id_ in ids) if host is not None]
            return found, pages.users_by_id(db, [host.user_id for host in found])

        found, users = await visit.ctx.store.aread(read)
        visible = {
            host.id: users[host.user_id]
            for host in found
            if sees_computers(visit.viewer, users.get(host.user_id))
        }
        return visit.show(
            "top_hosts.html", page=page, first=start, owner_of=visible, **_page_of("hosts", found)
        )

    async def top_teams(self, visit: Visit) -> Response:
        """Teams by recent average credit."""
        page = visit.page_number()
        found = await visit.ctx.store.aread(lambda db: pages.top_teams(db, page=page))
        return visit.show(
            "top_teams.html", page=page, first=page * pages.PAGE_SIZE, **_page_of("teams", found)
        )

    async def news(self, visit: Visit) -> Response:
        """All news, or one piece of it."""
        news_id = visit.number("id")
        if news_id is None:
            items = await visit.ctx.store.aread(lambda db: people.list_news(db, limit=50))
            return visit.show("news.html", items=items, one=False)
        item = await visit.ctx.store.aread(lambda db: pages.news_item(db, news_id))
        if item is None:
            raise not_found(_("news of that number"))
        return visit.show("news.html", items=[item], one=True)

    async def language(self, visit: Visit) -> Response:
        """Choose the language of the pages, and go back to where one was."""
        response = visit.go(own_page(visit.fields.get("next", ""), otherwise=""))
        wish = visit.fields.get("to", "")
        if wish in NAMES:
            self._site.remember_language(response, wish)
        return response


def _apps_in_use(db: Database) -> list[App]:
    return [app for app in apps.list_apps(db) if not app.deprecated]


def _page_of(name: str, rows: Sequence[T]) -> dict[str, Any]:
    """The rows of a page, and whether there are more."""
    return {name: rows[: pages.PAGE_SIZE], "more": len(rows) > pages.PAGE_SIZE}


def _public_host(host: Host) -> PublicHost:
    description = host.description
    return PublicHost(
        id=host.id,
        create_time=host.create_time,
        rpc_seqno=host.rpc_seqno,
        host_cpid=host.host_cpid,
        total_credit=host.credit.total,
        expavg_credit=host.credit.recent.value,
        expavg_time=host.credit.recent.time,
        domain_name=description.domain_name,
        p_ncpus=description.p_ncpus,
        p_vendor=description.p_vendor,
        p_model=description.p_model,
        p_fpops=description.p_fpops,
        p_iops=description.p_iops,
        os_name=description.os_name,
        os_version=description.os_version,
        venue=host.venue,
    )


def _xml(body: bytes) -> Response:
    headers = {
        "X-Content-Type-Options": SECURITY_HEADERS["X-Content-Type-Options"],
        "Cache-Control": "no-store",
    }
    return Response(body, media_type="text/xml", headers=headers)
