"""Pages of an account manager for people.

It knows the core and the store, and the pages of every service; not the RPC of clients.
"""

from __future__ import annotations

from starlette.routing import BaseRoute

from cobblestone.account_manager.core.members import Members
from cobblestone.account_manager.web.choices import ChoicePages, ComputerPages
from cobblestone.account_manager.web.joining import HomePage, NewsFeed, joining_pages
from cobblestone.account_manager.web.operator import OperatorPages
from cobblestone.account_manager.web.site import ManagerSite
from cobblestone.service.pages.mailed_links import MailedLinkPages
from cobblestone.service.pages.pages import LanguagePages, LogOutPages


def web_routes(site: ManagerSite, members: Members) -> list[BaseRoute]:
    """Return the routes of the pages."""
    return [
        *HomePage(site).routes(),
        *joining_pages(site, members).routes(),
        *LanguagePages(site).routes(),
        *LogOutPages(site).routes(),
        *ChoicePages(site, members).routes(),
        *MailedLinkPages(
            site,
            members,
            min_password_length=site.ctx.settings.accounts.min_password_length,
            again="account.php",
        ).routes(),
        *ComputerPages(site).routes(),
        *OperatorPages(site).routes(),
        *NewsFeed(site).routes(),
        site.static_route(),
    ]
