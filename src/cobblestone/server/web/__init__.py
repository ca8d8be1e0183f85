"""Pages for people.

Rendered on the server, readable without scripts.  ``site`` holds what all pages share; the other modules hold the pages of
one theme each; who may see what is in ``visibility``.
"""

from __future__ import annotations

from starlette.routing import BaseRoute, Route

from cobblestone.server.account_rpc import Accounts
from cobblestone.server.context import ServerContext
from cobblestone.server.web.accounts import AccountPages
from cobblestone.server.web.credit_pages import CreditPages
from cobblestone.server.web.operator import OperatorPages
from cobblestone.server.web.public import PublicPages
from cobblestone.server.web.site import Site
from cobblestone.server.web.work import WorkPages


def web_routes(ctx: ServerContext, accounts: Accounts) -> list[BaseRoute]:
    """Routes of the pages.  They come last: the last one answers whatever nothing else has."""
    site = Site(ctx)
    return [
        *PublicPages(site).routes(),
        *AccountPages(site, accounts).routes(),
        *WorkPages(site).routes(),
        *CreditPages(site).routes(),
        *OperatorPages(site).routes(),
        Route("/static/{name}", site.static_file),
        Route("/{path:path}", site.nothing_here),
    ]
