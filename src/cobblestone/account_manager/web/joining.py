"""The home page, creating accounts, logging in, and the news feed."""

from __future__ import annotations

from starlette.responses import Response

from cobblestone.account_manager.core.context import FEED
from cobblestone.account_manager.core.members import Members
from cobblestone.account_manager.store import ledger, projects
from cobblestone.account_manager.web.site import ManagerSite, ManagerVisit
from cobblestone.service.http.rate_limits import TooManyAttempts
from cobblestone.service.languages import gettext as _
from cobblestone.service.pages.fields import address_problem, name_problem, password_problem, too_many
from cobblestone.service.pages.pages import BOTH, Pages, shows
from cobblestone.service.pages.texts import feed, markdown
from cobblestone.store.people import users
from cobblestone.wire.project.account import WebRpcError, WebRpcFailure
from cobblestone.wire.project.pages import RssItem

SHOWN_NEWS = 5


class JoiningPages(Pages[ManagerSite]):
    """Pages for visitors who are not logged in."""

    def __init__(self, site: ManagerSite, members: Members) -> None:
        super().__init__(site)
        self._members = members

    @shows("/")
    async def index(self, visit: ManagerVisit) -> Response:
        """Show what this is, and which projects it knows."""
        counted, news, keywords = await visit.read(
            lambda db: (
                ledger.sum_of(db, "all"),
                users.list_news(db, limit=SHOWN_NEWS),
                projects.keywords(db),
            )
        )
        known = [each for each in visit.ctx.projects.projects if not each.stopped]
        return visit.show("index.html", projects=known, counted=counted, news=news, keywords=keywords)

    @shows("/join.php", methods=BOTH)
    async def join(self, visit: ManagerVisit) -> Response:
        """Show the form for a new account."""
        if visit.viewer is not None:
            return visit.go("home.php")
        settings = visit.ctx.settings.accounts
        if visit.request.method != "POST" or settings.creation == "closed":
            return visit.show_form("join.html", typed={}, problems={})
        form = await visit.form()
        email, name = form.get("email_addr", "").strip().lower(), form.get("user_name", "").strip()
        found = {
            "user_name": name_problem(name),
            "email_addr": address_problem(email),
            "passwd": password_problem(form.get("passwd", ""), settings.min_password_length),
        }
        problems = {field: problem for field, problem in found.items() if problem}
        if not problems:
            try:
                account = await self._members.join(
                    email=email,
                    name=name,
                    password=form["passwd"],
                    invitation=form.get("invite_code", "").strip(),
                    address=visit.address,
                )
            except WebRpcFailure as failure:
                problems = _problem_of(failure)
            else:
                response = visit.go("home.php")
                self._site.sessions.start(response, account)
                return response
        return visit.show_form("join.html", http_status=422, typed=form, problems=problems)

    @shows("/login.php", methods=BOTH)
    async def log_in(self, visit: ManagerVisit) -> Response:
        """Show the form for people who have an account."""
        wanted = self._site.own_address(visit.fields.get("next", ""), otherwise="home.php")
        if visit.viewer is not None:
            return visit.go(wanted)
        if visit.request.method != "POST":
            return visit.show_form(
                "login.html", typed={"next": wanted}, problem="", done=visit.fields.get("done", "")
            )
        form = await visit.form()
        try:
            account = await self._members.log_in(
                form.get("email_addr", "").strip().lower(), form.get("passwd", ""), address=visit.address
            )
        except TooManyAttempts as error:
            problem = too_many(error)
        except WebRpcFailure:
            problem = _(
                "There is no account with this e-mail address and password. Check both, and the Caps "
                "Lock key."
            )
        else:
            response = visit.go(self._site.own_address(form.get("next", ""), otherwise="home.php"))
            self._site.sessions.start(response, account)
            return response
        return visit.show_form("login.html", http_status=422, typed=form, problem=problem, done="")


def _problem_of(failure: WebRpcFailure) -> dict[str, str]:
    """Return the error of a refused account, assigned to the field that caused it."""
    if isinstance(failure, TooManyAttempts):
        return {"email_addr": too_many(failure)}
    if failure.error is WebRpcError.NOT_UNIQUE:
        text = _("There is already an account with this address. Log in with it, or use another address.")
        return {"email_addr": text}
    return {"invite_code": _("The invitation code is missing or wrong. Ask the project for one.")}


class NewsFeed(Pages[ManagerSite]):
    """The feed, whose items link to the home page."""

    @shows(f"/{FEED}")
    async def news(self, visit: ManagerVisit) -> Response:
        """Answer with the newest news."""
        ctx = visit.ctx
        name, items = ctx.settings.manager.name, await ctx.store.aread(users.list_news)
        return feed(
            ctx,
            name,
            f"News of {name}",
            [
                RssItem(
                    title=item.title,
                    guid=ctx.url(f"#news-{item.id}"),
                    link=ctx.url(f"#news-{item.id}"),
                    published=item.time,
                    description=markdown(item.text, base=ctx.master_url),
                )
                for item in items
            ],
        )
