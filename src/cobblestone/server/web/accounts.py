"""Joining, logging in and out, and one's own account."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from cobblestone.domain.errors import StoreError
from cobblestone.domain.ids import UserId
from cobblestone.server.account_rpc import Accounts
from cobblestone.server.web.languages import gettext as _
from cobblestone.server.web.languages import ngettext
from cobblestone.server.web.site import Site, Visit, own_page
from cobblestone.store import hosts, pages, people
from cobblestone.store.credit_history import CreditOwner
from cobblestone.store.database import Database
from cobblestone.store.pages import TaskOwner
from cobblestone.wire.account import (
    MAX_USER_NAME,
    AccountCreation,
    WebRpcError,
    WebRpcFailure,
    legal_email_addr,
    user_name_problem,
)
from cobblestone.wire.identity import external_cpid, passwd_hash

MAX_PASSWORD = 200


class AccountPages:
    """Pages of one's own account."""

    def __init__(self, site: Site, accounts: Accounts) -> None:
        self._site = site
        self._accounts = accounts

    def routes(self) -> list[BaseRoute]:
        """Where they are."""
        page = self._site.page
        return [
            Route("/join.php", page(self.join), methods=["GET", "POST"]),
            Route("/login.php", page(self.log_in), methods=["GET", "POST"]),
            Route("/logout.php", page(self.log_out), methods=["POST"]),
            Route("/home.php", page(self.home)),
        ]

    async def join(self, visit: Visit) -> Response:
        """The form for a new account."""
        if visit.viewer is not None:
            return visit.go("home.php")
        settings = visit.ctx.settings.accounts
        if visit.request.method != "POST" or settings.creation == "closed":
            return visit.show_form("join.html", typed={}, problems={})
        form = await visit.form()
        problems = self._problems(form)
        if not problems:
            try:
                user = await self._accounts.create(
                    AccountCreation(
                        email_addr=form["email_addr"].strip().lower(),
                        passwd_hash=passwd_hash(form["passwd"], form["email_addr"].strip()),
                        user_name=form["user_name"].strip(),
                        invite_code=form.get("invite_code", "").strip(),
                        source="web",
                    )
                )
            except WebRpcFailure as failure:
                problems = _problem_of(failure)
            else:
                response = visit.go("home.php")
                self._site.sessions.start(response, user)
                return response
        return visit.show_form("join.html", http_status=422, typed=form, problems=problems)

    async def log_in(self, visit: Visit) -> Response:
        """The form for people who have an account."""
        wanted = visit.fields.get("next", "")
        if visit.viewer is not None:
            return visit.go(own_page(wanted, otherwise="home.php"))
        if visit.request.method != "POST":
            return visit.show_form("login.html", typed={"next": wanted}, problem="")
        form = await visit.form()
        email = form.get("email_addr", "").strip()
        try:
            user = await self._accounts.look_up(email.lower(), passwd_hash(form.get("passwd", ""), email))
        except WebRpcFailure:
            # One sentence for both cases: the page does not tell whether an address has an account.
            problem = _(
                "There is no account with this e-mail address and password. Check both, also the Caps Lock key."
            )
            return visit.show_form("login.html", http_status=422, typed=form, problem=problem)
        response = visit.go(own_page(form.get("next", ""), otherwise="home.php"))
        self._site.sessions.start(response, user)
        return response

    async def log_out(self, visit: Visit) -> Response:
        """End the session."""
        await visit.form()
        response = visit.go("")
        self._site.sessions.end(response)
        return response

    async def home(self, visit: Visit) -> Response:
        """One's own account: credit, keys, computers, recent tasks."""
        user = visit.viewer
        if user is None:
            return visit.user_to_log_in()
        owner = TaskOwner(user_id=UserId(user.id))

        def read(db: Database) -> dict[str, Any]:
            team = people.team_by_id(db, user.team_id) if user.team_id else None
            return {
                "team": team,
                "hosts": hosts.hosts_of_user(db, user.id, limit=pages.PAGE_SIZE + 1),
                "counts": pages.count_tasks(db, owner),
                "tasks": pages.list_tasks(db, owner, state=None, page=0)[:8],
            }

        found = await visit.ctx.store.aread(read)
        cpid = external_cpid(user.cross_project_id, user.email_addr)
        plot = await self._site.credit_plot(CreditOwner("user", user.id), created=user.create_time)
        return visit.show("home.html", user=user, plot=plot, cpid=cpid, page_size=pages.PAGE_SIZE, **found)

    def _problems(self, form: dict[str, str]) -> dict[str, str]:
        """What is wrong with a new account, by field."""
        problems: dict[str, str] = {}
        shortest = self._site.ctx.settings.accounts.min_password_length
        name = user_name_problem(form.get("user_name", "").strip())
        if name:
            problems["user_name"] = f"{name}. Choose another one (at most {MAX_USER_NAME} characters)."
        if not legal_email_addr(form.get("email_addr", "").strip().lower()):
            problems["email_addr"] = _(
                "This does not look like an e-mail address. It should be like ada@example.org."
            )
        password = form.get("passwd", "")
        if len(password) < shortest:
            problems["passwd"] = ngettext(
                "The password needs at least %(least)d character; yours has %(length)d.",
                "The password needs at least %(least)d characters; yours has %(length)d.",
                shortest,
            ) % {"least": shortest, "length": len(password)}
        elif len(password) > MAX_PASSWORD:
            problems["passwd"] = ngettext(
                "The password may have at most %(most)d character.",
                "The password may have at most %(most)d characters.",
                MAX_PASSWORD,
            ) % {"most": MAX_PASSWORD}
        return problems


def _problem_of(failure: WebRpcFailure) -> dict[str, str]:
    """A refused account, as a problem of the field that caused it."""
    match failure.error:
        case WebRpcError.NOT_UNIQUE:
            return {
                "email_addr": "There is already an account with this address. Log in with it, or use another address."
            }
        case WebRpcError.GENERIC:
            return {"invite_code": f"{failure} Ask the project for one."}
        case WebRpcError.BAD_USER_NAME:
            return {"user_name": str(failure)}
        case WebRpcError.BAD_EMAIL_ADDR:
            return {"email_addr": str(failure)}
        case _:
            raise StoreError(str(failure))
