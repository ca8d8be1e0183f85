"""Pages for links in mails: a new password, a confirmed address; the same in every service with accounts.

Programs that look through mails open links too.  Opening one changes nothing, therefore; only the button on its page does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from starlette.responses import Response

from cobblestone.service.account_links import AccountLinks
from cobblestone.service.pages.fields import address_problem, password_problem, too_many
from cobblestone.service.pages.pages import BOTH, Pages, shows
from cobblestone.service.pages.site import Site, Visit
from cobblestone.service.rate_limits import TooManyAttempts

A = Any  # the account of a service, and its visits; these pages do not look into them


async def ask_for_link(visit: Visit[A, A], template: str, send: Callable[[str], Awaitable[None]]) -> Response:
    """Show a form for an e-mail address, and ``send`` a link there; it raises TooManyAttempts."""
    if visit.request.method != "POST":
        return visit.show_form(template, sent=False, typed={}, problems={})
    form = await visit.form()
    email = form.get("email_addr", "").strip().lower()
    problem = address_problem(email)
    if not problem:
        try:
            await send(email)
            return visit.show(template, sent=True, typed=form, problems={})
        except TooManyAttempts as error:
            problem = too_many(error)
    return visit.show_form(template, sent=False, typed=form, problems={"email_addr": problem})


class MailedLinkPages(Pages[Site[A, A]]):
    """Pages that send such links, and pages that they lead to."""

    def __init__(
        self, site: Site[A, A], links: AccountLinks[A], *, min_password_length: int, again: str
    ) -> None:
        """``again``: the account page that sends a link for confirming the address."""
        super().__init__(site)
        self._links = links
        self._min_password_length = min_password_length
        self._again = again

    # The family's Manager sends people to get_passwd.php.
    @shows("/password_reset.php", "/get_passwd.php", methods=BOTH)
    async def ask_for_reset(self, visit: Visit[A, A]) -> Response:
        """Send a link for a new password."""
        send = partial(self._links.ask_for_reset, address=visit.address)
        return await ask_for_link(visit, "password_reset.html", send)

    @shows("/password_new.php", methods=BOTH)
    async def reset(self, visit: Visit[A, A]) -> Response:
        """Set a new password with a link from a mail."""
        code = visit.fields.get("code", "")
        problems: dict[str, str] = {}
        if visit.request.method == "POST":
            form = await visit.form()
            code = form.get("code", "")
            if problem := password_problem(form.get("new_passwd", ""), self._min_password_length):
                problems["new_passwd"] = problem
            elif await self._links.reset_password(code, form["new_passwd"]) is not None:
                response = visit.go("login.php?done=password")
                self._site.sessions.end(response)
                return response
        good = await self._links.reset_is_good(code)
        return visit.show_form(
            "password_new.html",
            http_status=200 if good or problems else 410,
            code=code,
            good=good,
            problems=problems,
            min_password_length=self._min_password_length,
        )

    @shows("/email_confirm.php", methods=BOTH)
    async def confirm(self, visit: Visit[A, A]) -> Response:
        """Confirm an address; the link is enough, so no log-in is needed."""
        code, confirmed = visit.fields.get("code", ""), False
        if visit.request.method == "POST":
            code = (await visit.form()).get("code", "")
            confirmed = await self._links.confirm_address(code)
        good = confirmed or await self._links.confirmation_is_good(code)
        return visit.show_form(
            "email_confirm.html",
            http_status=200 if good else 410,
            code=code,
            good=good,
            confirmed=confirmed,
            again=self._again,
        )
