"""What all pages of an account manager share."""

from __future__ import annotations

import re

from starlette.requests import Request

from cobblestone.account_manager.context import ManagerContext
from cobblestone.account_manager.model import ManagerAccount
from cobblestone.account_manager.store import accounts
from cobblestone.service.pages import site as pages

_OWN_PAGE = re.compile(r"[a-z_]{1,40}\.php(\?[A-Za-z0-9_=&%+-]{0,200})?")
SECONDS_PER_HOUR = 3600.0


def own_page(page: str, *, otherwise: str) -> str:
    """Return a page of this account manager to go on to; anything else leads to ``otherwise``."""
    return page if _OWN_PAGE.fullmatch(page) else otherwise


class ManagerSite(pages.Site[ManagerAccount, "Visit"]):
    """Renders the pages of one account manager."""

    def __init__(self, ctx: ManagerContext) -> None:
        self.ctx = ctx
        super().__init__(
            ctx,
            package="cobblestone.account_manager.web",
            find_account=lambda id_, key: ctx.store.aread(
                lambda db: accounts.account_of_session(db, id_, key)
            ),
            filters={},
            values={
                "site_name": ctx.settings.manager.name,
                "manager": ctx.settings.manager,
                "accounts": ctx.settings.accounts,
            },
        )

    def visit(self, request: Request) -> Visit:
        """Begin a visit."""
        return Visit(self, request)


class Visit(pages.Visit[ManagerAccount]):
    """One request for a page of an account manager."""

    def __init__(self, site: ManagerSite, request: Request) -> None:
        super().__init__(site, request)
        self.site = site

    @property
    def ctx(self) -> ManagerContext:
        """The account manager."""
        return self.site.ctx
