"""Pages for people: one module per topic.

Rendered on the server, readable without scripts. What all pages share is in ``presentation``.
"""

from __future__ import annotations

from starlette.routing import BaseRoute, Route

from cobblestone.server.accounts.security import AccountSecurity
from cobblestone.server.accounts.service import Accounts
from cobblestone.server.core.context import ServerContext
from cobblestone.server.operation.institute import InstituteLogIn
from cobblestone.server.web.account_settings import AccountSettingsPages
from cobblestone.server.web.accounts import (
    AccountFinishPages,
    AccountPages,
    InstitutePages,
    MailLinkPages,
    joining_pages,
)
from cobblestone.server.web.awards import BadgePictures, CertificatePages
from cobblestone.server.web.compute import ComputePages
from cobblestone.server.web.computers import HostPages
from cobblestone.server.web.credit_pages import CreditPages, ProjectRankings
from cobblestone.server.web.operator import ProjectOperatorPages
from cobblestone.server.web.operator_news import NewsDesk
from cobblestone.server.web.preferences import PreferencePages
from cobblestone.server.web.presentation.site import ProjectSite
from cobblestone.server.web.presentation.status import StatusPage
from cobblestone.server.web.profiles import ProfilePages
from cobblestone.server.web.public import AppPages, ForumPages, ProjectTextPages, PublicPages
from cobblestone.server.web.submitting.batches import MyWorkPages
from cobblestone.server.web.submitting.new_batch import NewBatchPages
from cobblestone.server.web.teams import TeamMessagePages, TeamPages
from cobblestone.server.web.work import FoundPages, WorkPages
from cobblestone.service.pages.mailed_links import MailedLinkPages
from cobblestone.service.pages.pages import LanguagePages, LogOutPages


def web_routes(ctx: ServerContext, accounts: Accounts) -> list[BaseRoute]:
    """Return the routes of the pages."""
    site, status = ProjectSite(ctx), StatusPage(ctx)
    security = AccountSecurity(ctx, accounts)
    return [
        *PublicPages(site, status).routes(),
        *LanguagePages(site).routes(),
        *LogOutPages(site).routes(),
        *ProjectTextPages(site).routes(),
        *AppPages(site, status).routes(),
        *joining_pages(site, accounts).routes(),
        *AccountPages(site, security).routes(),
        *AccountFinishPages(site).routes(),
        *MailLinkPages(site, security).routes(),
        *(InstitutePages(site, InstituteLogIn(ctx)).routes() if ctx.settings.oidc.issuer else ()),
        *MailedLinkPages(
            site,
            security,
            min_password_length=site.ctx.settings.accounts.min_password_length,
            again="security.php",
        ).routes(),
        *AccountSettingsPages(site, security).routes(),
        *PreferencePages(site).routes(),
        *ComputePages(site).routes(),
        *HostPages(site).routes(),
        *TeamPages(site).routes(),
        *TeamMessagePages(site).routes(),
        *CertificatePages(site).routes(),
        *ForumPages(site).routes(),
        *ProjectRankings(site).routes(),
        *WorkPages(site).routes(),
        *FoundPages(site).routes(),
        *ProfilePages(site).routes(),
        *MyWorkPages(site).routes(),
        *NewBatchPages(site).routes(),
        *CreditPages(site).routes(),
        *BadgePictures(ctx).routes(),
        *ProjectOperatorPages(site, security).routes(),
        *NewsDesk(site).routes(),
        site.static_route(),
        Route("/favicon.ico", site.favicon),
        Route("/robots.txt", site.robots),
    ]
