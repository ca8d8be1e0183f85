"""Pages for people.

Rendered on the server, readable without scripts.  ``site`` holds what all pages share; the other modules hold the pages of
one theme each; who may see what is in ``visibility``.
"""

from __future__ import annotations

from starlette.routing import BaseRoute, Route

from cobblestone.server.accounts.security import AccountSecurity
from cobblestone.server.accounts.service import Accounts
from cobblestone.server.core.context import ServerContext
from cobblestone.server.web.account_finish import AccountFinishPages
from cobblestone.server.web.account_settings import AccountSettingsPages
from cobblestone.server.web.accounts import AccountPages
from cobblestone.server.web.app_pages import AppPages
from cobblestone.server.web.badge_pictures import BadgePictures
from cobblestone.server.web.certificates import CertificatePages
from cobblestone.server.web.compute import ComputePages
from cobblestone.server.web.computers import ComputerPages
from cobblestone.server.web.credit_pages import CreditPages
from cobblestone.server.web.forum import ForumPages
from cobblestone.server.web.found_pages import FoundPages
from cobblestone.server.web.mail_links import MailLinkPages
from cobblestone.server.web.operator import OperatorPages
from cobblestone.server.web.operator_news import NewsDesk
from cobblestone.server.web.preferences import PreferencePages
from cobblestone.server.web.profiles import ProfilePages
from cobblestone.server.web.project_texts import ProjectTextPages
from cobblestone.server.web.public import PublicPages
from cobblestone.server.web.rankings import RankingPages
from cobblestone.server.web.site import Site
from cobblestone.server.web.status import ProjectStatus
from cobblestone.server.web.team_message_pages import TeamMessagePages
from cobblestone.server.web.teams import TeamPages
from cobblestone.server.web.work import WorkPages
from cobblestone.service.pages.mailed_links import MailedLinkPages


def web_routes(ctx: ServerContext, accounts: Accounts) -> list[BaseRoute]:
    """Routes of the pages."""
    site, status = Site(ctx), ProjectStatus(ctx)
    security = AccountSecurity(ctx, accounts)
    return [
        *PublicPages(site, status).routes(),
        *ProjectTextPages(site).routes(),
        *AppPages(site, status).routes(),
        *AccountPages(site, accounts, security).routes(),
        *AccountFinishPages(site).routes(),
        *MailLinkPages(site, security).routes(),
        *MailedLinkPages(
            site,
            security,
            min_password_length=site.ctx.settings.accounts.min_password_length,
            again="security.php",
        ).routes(),
        *AccountSettingsPages(site, security).routes(),
        *PreferencePages(site).routes(),
        *ComputePages(site).routes(),
        *ComputerPages(site).routes(),
        *TeamPages(site).routes(),
        *TeamMessagePages(site).routes(),
        *CertificatePages(site).routes(),
        *ForumPages(site).routes(),
        *RankingPages(site).routes(),
        *WorkPages(site).routes(),
        *FoundPages(site).routes(),
        *ProfilePages(site).routes(),
        *CreditPages(site).routes(),
        *BadgePictures(ctx).routes(),
        *OperatorPages(site, security).routes(),
        *NewsDesk(site).routes(),
        site.static_route(),
        Route("/favicon.ico", site.favicon),
        Route("/robots.txt", site.robots),
    ]
