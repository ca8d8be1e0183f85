"""The page that the family's Manager opens when it has created an account and attached to it: name, then preferences.

The account's key stands in the address, since the browser has no session yet.  An address stays in the browser's history, so the
key opens this page on the account's first day only, and logs in only where the form is sent.
"""

from __future__ import annotations

from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from cobblestone.domain.people import ConsentKind, User
from cobblestone.server.web.site import Site, Visit
from cobblestone.service.http.rate_limits import TooManyAttempts, limit_key, refuse_after
from cobblestone.service.languages import gettext as _
from cobblestone.service.pages.fields import name_problem, too_many
from cobblestone.service.pages.site import PageError
from cobblestone.store.engine.database import Transaction
from cobblestone.store.people import account_changes, consents, users

NEW_SECONDS = 86400.0
MAX_COUNTRY = 200


class AccountFinishPages:
    """What an account from a client still lacks."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [Route("/account_finish.php", self._site.page(self.finish), methods=["GET", "POST"])]

    async def finish(self, visit: Visit) -> Response:
        """Ask for name and country; then log in, and go on to the preferences."""
        posted = visit.request.method == "POST"
        form = await visit.form() if posted else {}
        key = form.get("auth", "") if posted else visit.fields.get("auth", "")
        user = await self._owner(visit, key)
        if user is None:
            return visit.go_on("login.php", next="account.php")
        problems: dict[str, str] = {}
        if posted:
            name, country = form.get("user_name", "").strip(), form.get("country", "").strip()
            problem = name_problem(name)
            if problem:
                problems["user_name"] = problem
            if len(country) > MAX_COUNTRY:
                problems["country"] = _("This is too long.")
            if not problems:
                await self._store(visit, user, form)
                return self._site.let_in(visit, user, "prefs_computing.php")
        return visit.show_form(
            "account_finish.html",
            http_status=422 if problems else 200,
            user=user,
            key=key,
            typed=form,
            problems=problems,
        )

    async def _owner(self, visit: Visit, key: str) -> User | None:
        """Return the account of a key that may be finished; None: there is none, or it is not new any more."""
        limits, address, now = visit.ctx.limits, limit_key(visit.address), visit.ctx.clock()
        try:
            refuse_after(limits.lookups.wait(address, now=now))
        except TooManyAttempts as error:
            raise PageError(429, _("Not now"), too_many(error)) from None
        limits.lookups.take(address, now=now)
        found = await visit.ctx.store.aread(lambda db: users.user_by_authenticator(db, key))
        if found is None:
            return None
        user, weak = found
        fresh = now - user.create_time < NEW_SECONDS
        return user if fresh and not weak and not user.erased and not user.second_factor else None

    async def _store(self, visit: Visit, user: User, form: dict[str, str]) -> None:
        now, settings = visit.ctx.clock(), visit.ctx.settings.accounts

        def change(tx: Transaction) -> None:
            account_changes.set_profile(
                tx,
                user.id,
                name=form["user_name"].strip(),
                country=form.get("country", "").strip(),
                url=user.url,
                language=user.language,
                show_hosts="show_hosts" in form if settings.computers == "asked" else user.show_hosts,
                send_email=user.send_email,
            )
            agreed = "statistics" in form
            consents.record(tx, user.id, ConsentKind.STATISTICS, agreed, source="account_finish.php", now=now)

        await visit.ctx.store.awrite(change)
