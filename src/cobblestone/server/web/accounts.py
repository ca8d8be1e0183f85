"""Creating accounts, logging in and out, links from mails, an institute's log-in, and the user's own account page.

The page that the family's Manager opens when it has created an account and attached to it: name, then preferences.

The account's key stands in the address, since the browser has no session yet.  An address stays in the browser's history, so the
key opens this page on the account's first day only, and logs in only where the form is sent.

Links that were sent by mail: one that logs in; others are in `service.pages.mailed_links`.

Programs that look through mails open links too.  Opening one changes nothing, therefore; only the button on its page does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from starlette.responses import RedirectResponse, Response

from cobblestone.domain.errors import Conflict
from cobblestone.domain.people import ConsentKind, User
from cobblestone.domain.values import UserId
from cobblestone.server.accounts.service import Accounts, ConsentChoices
from cobblestone.server.core.project import notice_page
from cobblestone.server.operation.institute import BEGUN_SECONDS, InstituteLogIn, LogInRefused
from cobblestone.server.web.account_settings import SecurityPages, profile_problems
from cobblestone.server.web.presentation.feeds import newest_message
from cobblestone.server.web.presentation.site import ProjectSite, ProjectVisit
from cobblestone.service.languages import gettext as _
from cobblestone.service.pages.fields import too_many
from cobblestone.service.pages.joining import JoiningPages
from cobblestone.service.pages.mailed_links import ask_for_link
from cobblestone.service.pages.pages import BOTH, Pages, shows
from cobblestone.service.pages.site import PageError
from cobblestone.service.rate_limits import TooManyAttempts, limit_key, refuse_after
from cobblestone.store.credit.history import CreditOwner
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.operation import page_queries
from cobblestone.store.operation.page_queries import TaskOwner
from cobblestone.store.people import account_changes, consents, hosts, users
from cobblestone.store.work import submitters
from cobblestone.wire.project import account as wire


class AccountPages(SecurityPages):
    """Pages for the second factor, a new address, and the user's own account."""

    @shows("/login_code.php", methods=BOTH)
    async def log_in_code(self, visit: ProjectVisit) -> Response:
        """Show the form for the second factor."""
        user, wanted = visit.session.pending, visit.fields.get("next", "")
        if user is None:
            return visit.go("login.php" if visit.viewer is None else "home.php")
        if visit.request.method != "POST":
            return visit.show("login_code.html", wanted=wanted, problem="")
        form = await visit.form()
        try:
            right = await self._security.second_factor_is_right(
                user, form.get("code", ""), address=visit.address
            )
            problem = _("This code is wrong or was already used. Wait for the next one.")
        except TooManyAttempts as error:
            right, problem = False, too_many(error)
        if not right:
            return visit.show("login_code.html", wanted=form.get("next", ""), problem=problem)
        page = self._site.own_address(form.get("next", ""), otherwise="home.php")
        response = visit.go(page if user.erase_time is None else "delete_account.php")
        self._site.sessions.start(response, user)
        return response

    # -- new addresses --------------------------------------------------------------------------------

    @shows("/email_new.php", methods=BOTH, own=True)
    async def new_address(self, visit: ProjectVisit, user: User) -> Response:
        """Confirm a new e-mail address with the link that was sent to it."""
        code = visit.fields.get("code", "")
        if visit.request.method != "POST":
            return visit.show("email_new.html", code=code)
        form = await visit.form()
        try:
            changed = await self._security.use_new_address(user, form.get("code", ""))
        except Conflict:
            changed = None
        if changed is None:
            raise PageError(
                410,
                _("The link has expired"),
                _("It was already used, has expired, or is for another account."),
            )
        response = visit.go("security.php?done=email")
        self._site.sessions.start(response, changed)
        return response

    # -- one's own page -------------------------------------------------------------------------------

    @shows("/home.php", own=True)
    async def home(self, visit: ProjectVisit, user: User) -> Response:
        """Show the user's own account: credit, keys, computers, recent tasks."""
        owner = TaskOwner(user_id=UserId(user.id))

        def read(db: Database) -> dict[str, Any]:
            team = users.team_by_id(db, user.team_id) if user.team_id else None
            return {
                "team": team,
                "message": newest_message(db, user, now=visit.ctx.clock()),
                "hosts": hosts.hosts_of_user(db, user.id, limit=page_queries.PAGE_SIZE + 1),
                "counts": page_queries.count_tasks(db, owner),
                "tasks": page_queries.list_tasks(db, owner)[:8],
                "asked": consents.latest(db, user.id, ConsentKind.STATISTICS) is not None,
                "submits": submitters.submitter_of(db, user.id) is not None,
            }

        found = await visit.read(read)
        cpid = wire.external_cpid(user.cross_project_id, user.email_addr)
        standing = await self._site.standing(CreditOwner("user", user.id), created=user.create_time)
        return visit.show(
            "home.html",
            user=user,
            standing=standing,
            notices=notice_page(visit.ctx.secret, user),
            cpid=cpid,
            proves=visit.ctx.folder.ownership_private.exists(),
            page_size=page_queries.PAGE_SIZE,
            **found,
        )


def joining_pages(site: ProjectSite, accounts: Accounts) -> JoiningPages:
    """Return the pages for joining and logging in."""

    def join(form: Mapping[str, str], address: str) -> Awaitable[User]:
        return accounts.create(
            wire.AccountCreation(
                email_addr=form["email_addr"].strip().lower(),
                passwd_hash=wire.passwd_hash(form["passwd"], form["email_addr"].strip()),
                user_name=form["user_name"].strip(),
                invite_code=form.get("invite_code", "").strip(),
                consent_flag=form.get("consent") == "1" or None,
                source="join.php",
            ),
            choices=ConsentChoices(show_computers="show_hosts" in form, statistics="statistics" in form),
            address=address,
        )

    def log_in(email: str, password: str, address: str) -> Awaitable[User]:
        return accounts.look_up(email, wire.passwd_hash(password, email), address=address)

    def consent_problem(form: Mapping[str, str]) -> dict[str, str]:
        if "terms" in site.ctx.texts.present() and form.get("consent") != "1":
            return {"consent": _("You must agree to the terms to create an account.")}
        return {}

    return JoiningPages(
        site, site.ctx.settings.accounts, join=join, log_in=log_in, further_problems=consent_problem
    )


NEW_SECONDS = 86400.0


class AccountFinishPages(Pages[ProjectSite]):
    """Pages that complete an account made by a client."""

    @shows("/account_finish.php", methods=BOTH)
    async def finish(self, visit: ProjectVisit) -> Response:
        """Ask for name and country; then log in, and continue with the preferences."""
        posted = visit.request.method == "POST"
        form = await visit.form() if posted else {}
        key = form.get("auth", "") if posted else visit.fields.get("auth", "")
        user = await self._owner(visit, key)
        if user is None:
            return visit.go_on("login.php", next="account.php")
        problems: dict[str, str] = {}
        if posted:
            problems = profile_problems(form)
            if not problems:
                await self._store(visit, user, form)
                return self._site.let_in(visit, user, "prefs_computing.php")
        return visit.show_form("account_finish.html", user=user, key=key, typed=form, problems=problems)

    async def _owner(self, visit: ProjectVisit, key: str) -> User | None:
        """Return the account of a key that may be completed; None if there is none, or it is no longer new."""
        limits, address, now = visit.ctx.limits, limit_key(visit.address), visit.ctx.clock()
        try:
            refuse_after(limits.lookups.attempt(address, now=now))
        except TooManyAttempts as error:
            raise PageError(429, _("Not now"), too_many(error)) from None
        found = await visit.read(lambda db: users.user_by_authenticator(db, key))
        if found is None:
            return None
        user, weak = found
        fresh = now - user.create_time < NEW_SECONDS
        return user if fresh and not weak and not user.erased and not user.second_factor else None

    async def _store(self, visit: ProjectVisit, user: User, form: dict[str, str]) -> None:
        now, settings = visit.ctx.clock(), visit.ctx.settings.accounts
        changed = replace(
            user,
            name=form["user_name"].strip(),
            country=form.get("country", "").strip(),
            show_hosts="show_hosts" in form if settings.computers == "asked" else user.show_hosts,
        )

        def change(tx: Transaction) -> None:
            account_changes.set_profile(tx, changed)
            agreed = "statistics" in form
            consents.record(tx, user.id, ConsentKind.STATISTICS, agreed, source="account_finish.php", now=now)

        await visit.write(change)


class MailLinkPages(SecurityPages):
    """Pages that send such links, and pages that they lead to."""

    @shows("/login_mail.php", methods=BOTH)
    async def ask(self, visit: ProjectVisit) -> Response:
        """Send a log-in link."""
        send = partial(self._security.ask_for_log_in_link, address=visit.address)
        return await ask_for_link(visit, "login_mail.html", send)

    @shows("/login_link.php", methods=BOTH)
    async def log_in(self, visit: ProjectVisit) -> Response:
        """Log in with a link; a second factor is asked for next."""
        code = visit.fields.get("code", "")
        if visit.request.method == "POST":
            code = (await visit.form()).get("code", "")
            user = await self._security.use_log_in_link(code)
            if user is not None:
                return self._site.let_in(visit, user, "home.php")
        owner = await self._security.log_in_link_owner(code)
        return visit.show_form("login_link.html", http_status=200 if owner else 410, code=code, owner=owner)


class InstitutePages(Pages[ProjectSite]):
    """Log-in with the account of an institute: there, and back."""

    def __init__(self, site: ProjectSite, institute: InstituteLogIn) -> None:
        super().__init__(site)
        self._institute = institute
        self._back = site.ctx.url("login_oidc.php")
        self._cookie = f"{site.sessions.name}_oidc"

    @shows("/login_oidc.php")
    async def log_in(self, visit: ProjectVisit) -> Response:
        """Lead to the institute; log in with its answer."""
        answer, name = visit.request.query_params, visit.ctx.settings.oidc.name
        page = self._site.own_address(answer.get("next", ""), otherwise="home.php")
        if visit.viewer is not None:
            return visit.go(page)
        kept = visit.request.cookies.get(self._cookie, "")
        try:
            if not {"state", "code", "error"} & answer.keys():
                address, kept = await self._institute.begin(self._back, page)
                response: Response = RedirectResponse(address, 303, headers=self._site.headers)
                self._keep(response, kept, BEGUN_SECONDS)
                return response
            user, page = await self._institute.finish(
                self._back, kept, answer, f"web {visit.address}".strip()
            )
        except LogInRefused as error:
            problem = _(str(error)) % {"name": name}
            response = visit.show_form(
                "login.html", http_status=403, typed={"next": ""}, problem=problem, done=""
            )
        else:
            response = self._site.let_in(visit, user, page)
        self._keep(response, "", 0)
        return response

    def _keep(self, response: Response, kept: str, seconds: int) -> None:
        secure = self._site.sessions.secure
        response.set_cookie(
            self._cookie, kept, max_age=seconds, path="/", secure=secure, httponly=True, samesite="lax"
        )
