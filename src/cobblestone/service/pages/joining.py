"""Pages for visitors who are not logged in: a new account, and logging in; the same in every service with accounts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

from starlette.responses import Response

from cobblestone.domain.errors import StoreError
from cobblestone.service.languages import gettext as _
from cobblestone.service.pages.fields import address_problem, name_problem, password_problem, too_many
from cobblestone.service.pages.pages import BOTH, Pages, shows
from cobblestone.service.pages.site import Site, Visit
from cobblestone.service.rate_limits import TooManyAttempts
from cobblestone.wire.project.account import WebRpcError, WebRpcFailure

A = Any  # the account of a service, and its visits; these pages do not look into them


class Admission(Protocol):
    """The settings about new accounts."""

    @property
    def creation(self) -> str:
        """Return who may create one: ``open``, ``closed`` or ``invitation``."""
        ...

    @property
    def min_password_length(self) -> int:
        """Return the length of the shortest password."""
        ...


class JoiningPages(Pages[Site[A, A]]):
    """Pages for joining and logging in."""

    def __init__(
        self,
        site: Site[A, A],
        admission: Admission,
        *,
        join: Callable[[Mapping[str, str], str], Awaitable[A]],
        log_in: Callable[[str, str, str], Awaitable[A]],
        further_problems: Callable[[Mapping[str, str]], dict[str, str]] = lambda form: {},
    ) -> None:
        """``join`` creates the account of a valid form, ``log_in`` finds one by e-mail address and password; both also get the
        visitor's network address, and raise WebRpcFailure.
        """
        super().__init__(site)
        self._admission = admission
        self._join = join
        self._log_in = log_in
        self._further_problems = further_problems

    @shows("/join.php", methods=BOTH)
    async def join(self, visit: Visit[A, A]) -> Response:
        """Show the form for a new account."""
        if visit.viewer is not None:
            return visit.go("home.php")
        if visit.request.method != "POST" or self._admission.creation == "closed":
            return visit.show_form("join.html", typed={}, problems={})
        form = await visit.form()
        problems = self._problems(form)
        if not problems:
            try:
                return self._site.let_in(visit, await self._join(form, visit.address), "home.php")
            except WebRpcFailure as failure:
                problems = _refused(failure)
        return visit.show_form("join.html", typed=form, problems=problems)

    def _problems(self, form: Mapping[str, str]) -> dict[str, str]:
        """Return what is wrong with a new account, by field."""
        shortest = self._admission.min_password_length
        found = {
            "user_name": name_problem(form.get("user_name", "").strip()),
            "email_addr": address_problem(form.get("email_addr", "")),
            "passwd": password_problem(form.get("passwd", ""), shortest),
            **self._further_problems(form),
        }
        return {field: problem for field, problem in found.items() if problem}

    @shows("/login.php", methods=BOTH)
    async def log_in(self, visit: Visit[A, A]) -> Response:
        """Show the form for people who have an account."""
        wanted = visit.fields.get("next", "")
        if visit.viewer is not None:
            return visit.go(self._site.own_address(wanted, otherwise="home.php"))
        if visit.request.method != "POST":
            done = visit.fields.get("done", "")
            return visit.show_form("login.html", typed={"next": wanted}, problem="", done=done)
        form = await visit.form()
        email, page = form.get("email_addr", "").strip(), form.get("next", "")
        try:
            account = await self._log_in(email.lower(), form.get("passwd", ""), visit.address)
            return self._site.let_in(visit, account, self._site.own_address(page, otherwise="home.php"))
        except TooManyAttempts as error:
            problem = too_many(error)
        except WebRpcFailure:
            # One sentence for both cases: the page does not tell whether an address has an account.
            problem = _(
                "There is no account with this e-mail address and password. Check both, and the Caps Lock key."
            )
        return visit.show_form("login.html", typed=form, problem=problem, done="")


def _refused(failure: WebRpcFailure) -> dict[str, str]:
    """Return the error of a refused account, assigned to the field that caused it."""
    if isinstance(failure, TooManyAttempts):
        return {"email_addr": too_many(failure)}
    if failure.error is WebRpcError.NOT_UNIQUE:
        text = _("There is already an account with this address. Log in with it, or use another address.")
        return {"email_addr": text}
    if failure.error is WebRpcError.GENERIC:
        return {"invite_code": _("The invitation code is missing or wrong. Ask the project for one.")}
    raise StoreError(str(failure))
