"""Links that were sent by mail: one that logs in; others are in `service.pages.mailed_links`.

Programs that look through mails open links too.  Opening one changes nothing, therefore; only the button on its page does.
"""

from __future__ import annotations

from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from cobblestone.server.accounts.security import AccountSecurity
from cobblestone.server.web.site import Site, Visit
from cobblestone.service.http.rate_limits import TooManyAttempts
from cobblestone.service.pages.fields import address_problem, too_many


class MailLinkPages:
    """Where such links are asked for, and where they lead."""

    def __init__(self, site: Site, security: AccountSecurity) -> None:
        self._site = site
        self._security = security

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        page, both = self._site.page, ["GET", "POST"]
        return [
            Route("/login_mail.php", page(self.ask), methods=both),
            Route("/login_link.php", page(self.log_in), methods=both),
        ]

    async def ask(self, visit: Visit) -> Response:
        """Have a link sent that logs in."""
        if visit.request.method != "POST":
            return visit.show_form("login_mail.html", sent=False, typed={}, problems={})
        form = await visit.form()
        email = form.get("email_addr", "").strip().lower()
        problem = address_problem(email)
        if not problem:
            try:
                await self._security.ask_for_log_in_link(email, address=visit.address)
                return visit.show("login_mail.html", sent=True, typed=form, problems={})
            except TooManyAttempts as error:
                problem = too_many(error)
        return visit.show_form(
            "login_mail.html", http_status=422, sent=False, typed=form, problems={"email_addr": problem}
        )

    async def log_in(self, visit: Visit) -> Response:
        """Log in with a link; with a second factor that comes next."""
        code = visit.fields.get("code", "")
        if visit.request.method == "POST":
            code = (await visit.form()).get("code", "")
            user = await self._security.use_log_in_link(code)
            if user is not None:
                return self._site.let_in(visit, user, "home.php")
        owner = await self._security.log_in_link_owner(code)
        return visit.show_form("login_link.html", http_status=200 if owner else 410, code=code, owner=owner)
