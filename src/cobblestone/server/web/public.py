"""Public pages: home, status, volunteers, news, language, apps, the project's own texts, forum."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from starlette.responses import Response

from cobblestone.domain.apps import App
from cobblestone.domain.errors import NotFound
from cobblestone.domain.hosts import Host
from cobblestone.domain.people import User
from cobblestone.domain.values import AppId, UserId, form_of
from cobblestone.server.core.project import TEXT_NAMES
from cobblestone.server.web.compute import apps_of_browsers
from cobblestone.server.web.presentation.plots import progress
from cobblestone.server.web.presentation.site import ProjectSite, ProjectVisit, is_owner, sees_computers
from cobblestone.server.web.presentation.standing import milestones
from cobblestone.server.web.presentation.status import DAEMONS, CachedRead, StatusPage
from cobblestone.service.languages import N_, current
from cobblestone.service.languages import gettext as _
from cobblestone.service.pages.pages import BOTH, Pages, shows
from cobblestone.service.pages.site import PageError, not_found
from cobblestone.service.pages.static_files import SECURITY_HEADERS
from cobblestone.store.catalog import apps
from cobblestone.store.credit.app_credit import Owner
from cobblestone.store.credit.history import CreditOwner
from cobblestone.store.engine.database import Database
from cobblestone.store.operation import page_queries, ranking
from cobblestone.store.operation.page_queries import Outcomes, VersionRow
from cobblestone.store.operation.ranking import Order
from cobblestone.store.people import hosts, users
from cobblestone.store.people.users import profile_of
from cobblestone.store.work import job_results
from cobblestone.store.work.job_results import AppDay
from cobblestone.wire.project import account as wire
from cobblestone.wire.project.pages import ListedVersion, write_apps

NEWS_ON_HOME = 3


class PublicPages(Pages[ProjectSite]):
    """Pages that need no account."""

    def __init__(self, site: ProjectSite, status: StatusPage) -> None:
        super().__init__(site)
        self._status = status

    @shows("/", "/index.php")
    async def home(self, visit: ProjectVisit) -> Response:
        """Show what this project is, its state, how to join; clients find the scheduler here."""
        counts = await self._status.counts()
        found_apps, for_browsers, news = await visit.read(
            lambda db: (apps.apps_in_use(db), apps_of_browsers(db), users.list_news(db, limit=NEWS_ON_HOME))
        )
        by_app = {app.app_id: app for app in counts.apps}
        return visit.show(
            "index.html",
            in_browsers=bool(for_browsers),
            counts=counts,
            gflops=self._status.gflops(counts),
            apps=[(app, by_app.get(app.id)) for app in found_apps],
            news=news,
        )

    @shows("/server_status.php", methods=BOTH)  # the family's Python client posts for the counts
    async def server_status(self, visit: ProjectVisit) -> Response:
        """Show the state of the server, for people, for status sites, and as a fragment that pages refresh."""
        counts_only = bool(visit.fields.get("counts"))
        if counts_only or visit.fields.get("xml"):
            return Response(
                await self._status.xml(counts_only=counts_only),
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

    @shows("/show_user.php")
    async def user(self, visit: ProjectVisit) -> Response:
        """Show a volunteer, for people or as XML."""
        if visit.fields.get("format") == "xml":
            return await self._user_xml(visit)
        user_id = UserId(visit.needed_number("userid"))
        user = await visit.read(lambda db: users.user_by_id(db, user_id))
        if user is None:
            raise not_found(_("volunteer %(id)d") % {"id": user_id})
        is_open = sees_computers(visit.viewer, user)

        def read(db: Database) -> dict[str, Any]:
            return {
                "team": None if user.team_id is None else users.team_by_id(db, user.team_id),
                "n_hosts": hosts.count_hosts(db, user.id) if is_open else 0,
                "profile": profile_of(db, user.id),
                "milestones": milestones(db, Owner.USER, user, now=visit.ctx.clock()),
            }

        found = await visit.read(read)
        return visit.show(
            "user.html",
            user=user,
            open=is_open,
            own=is_owner(visit.viewer, user),
            cpid=wire.external_cpid(user.cross_project_id, user.email_addr),
            standing=await self._site.standing(CreditOwner("user", user.id), created=user.create_time),
            **found,
        )

    async def _user_xml(self, visit: ProjectVisit) -> Response:
        """Show a volunteer in BOINC's format; with the account key (``auth``) also the computers."""
        key = visit.fields.get("auth", "")[:255]
        try:
            user_id = None if key else visit.number("userid")
        except PageError:
            user_id = None

        def read(db: Database) -> tuple[User | None, list[Host] | None, bool]:
            user, own_hosts = None, None
            if key:
                found = users.user_by_authenticator(db, key)
                if found is not None and not found[1]:  # the weak key shows nothing
                    user, own_hosts = found[0], hosts.hosts_of_user(db, found[0].id)
            elif user_id is not None:
                user = users.user_by_id(db, UserId(user_id))
            return user, own_hosts, user is not None and profile_of(db, user.id) is not None

        user, own_hosts, has_profile = await visit.read(read)
        if user is None:
            return xml(wire.write_web_rpc_error(wire.WebRpcError.NOT_FOUND))
        public = form_of(
            wire.PublicUser,
            user,
            cpid=wire.external_cpid(user.cross_project_id, user.email_addr),
            total_credit=user.credit.total,
            expavg_credit=user.credit.recent.value,
            expavg_time=user.credit.recent.time,
            teamid=user.team_id or 0,
            has_profile=has_profile,
        )
        shown = None if own_hosts is None else [public_host(host, own=True) for host in own_hosts]
        return xml(wire.write_user_xml(public, shown))

    @shows("/news.php")
    async def news(self, visit: ProjectVisit) -> Response:
        """Show all news, or one item."""
        news_id = visit.number("id")
        if news_id is None:
            items = await visit.read(lambda db: users.list_news(db, limit=50))
            return visit.show("news.html", items=items, one=False)
        item = await visit.read(lambda db: users.find_news(db, news_id))
        if item is None:
            raise not_found(_("news item of this number"))
        return visit.show("news.html", items=[item], one=True)


def public_host(host: Host, *, own: bool) -> wire.PublicHost:
    """Return a computer for answers in BOINC's format; its name on the network and venue are for its owner."""
    description = host.description
    return form_of(
        wire.PublicHost,
        host,
        description,
        total_credit=host.credit.total,
        expavg_credit=host.credit.recent.value,
        expavg_time=host.credit.recent.time,
        domain_name=description.domain_name if own else "",
        venue=host.venue if own else "",
    )


def xml(body: bytes) -> Response:
    """Return an answer in BOINC's format."""
    headers = {
        "X-Content-Type-Options": SECURITY_HEADERS["X-Content-Type-Options"],
        "Cache-Control": "no-store",
    }
    return Response(body, media_type="text/xml", headers=headers)


def _listed(versions: Iterable[VersionRow], app_id: AppId) -> Iterable[ListedVersion]:
    return (form_of(ListedVersion, each) for each in versions if each.app_id == app_id)


BEST = 5
MAX_REMEMBERED = 100


class AppPages(Pages[ProjectSite]):
    """Apps and their versions."""

    def __init__(self, site: ProjectSite, status: StatusPage) -> None:
        super().__init__(site)
        self._status = status
        self._outcomes: OrderedDict[AppId, CachedRead[dict[int, Outcomes]]] = OrderedDict()

    @shows("/apps.php")
    async def apps(self, visit: ProjectVisit) -> Response:
        """Show all apps and their versions."""
        counts = await self._status.counts()

        def read(db: Database) -> tuple[list[App], list[VersionRow], dict[AppId, list[AppDay]]]:
            found = apps.apps_in_use(db)
            return (
                found,
                page_queries.versions_in_use(db),
                {app.id: job_results.app_days(db, app.id) for app in found},
            )

        found, versions, days = await visit.read(read)
        now = visit.ctx.clock()
        if visit.fields.get("xml"):
            return xml(write_apps((app, _listed(versions, app.id)) for app in found))
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

    @shows("/app.php")
    async def app(self, visit: ProjectVisit) -> Response:
        """Show one app: its versions with the outcomes of recent tasks, its rules, the most active volunteers."""
        app_id = AppId(visit.needed_number("appid"))

        def read(db: Database) -> dict[str, Any]:
            app = apps.app_by_id(db, app_id)
            best = ranking.top(db, Owner.USER, Order.TOTAL, page=0, app_id=app_id)[:BEST]
            return {
                "app": app,
                "versions": [item for item in page_queries.versions_in_use(db) if item.app_id == app_id],
                "best": best,
                "days": job_results.app_days(db, app_id),
                "users": page_queries.users_by_id(db, [item.id for item in best]),
            }

        try:
            found = await visit.read(read)
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


TEXT_TITLES: Mapping[str, str] = {
    "about": N_("About the project"),
    "science": N_("The science"),
    "terms": N_("Terms of use"),
}


class ProjectTextPages(Pages[ProjectSite]):
    """A page for each of the project's texts."""

    @shows(*(f"/{name}.php" for name in TEXT_NAMES))
    async def show(self, visit: ProjectVisit) -> Response:
        """Show one of the texts."""
        name = visit.request.url.path.rpartition("/")[2].removesuffix(".php")
        text = visit.ctx.texts.text(name, current().code)
        if text is None:
            raise not_found(_(TEXT_TITLES[name]))
        return visit.show("project_text.html", title=_(TEXT_TITLES[name]), text=text)


class ForumPages(Pages[ProjectSite]):
    """The page that embeds a forum of another server."""

    @shows("/forum.php")
    async def forum(self, visit: ProjectVisit) -> Response:
        """Show the forum in a frame: only this page may contain one, and only of that server."""
        project = visit.ctx.settings.project
        if not (project.forum_url and project.forum_embedded):
            raise not_found(_("forum"))
        response = visit.show("forum.html")
        place = urlsplit(project.forum_url)
        policy = SECURITY_HEADERS["Content-Security-Policy"]
        response.headers["Content-Security-Policy"] = f"{policy}; frame-src {place.scheme}://{place.netloc}"
        return response
