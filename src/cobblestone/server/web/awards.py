"""Printable certificates, and pictures of badges.

Certificates: what a volunteer has contributed, to be printed, with a code that shows that it comes from here.

The code is a signed text that holds what the certificate says: its page shows it in the project's own words.  It
is not a secret and opens nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any

from itsdangerous import BadSignature, URLSafeSerializer
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from cobblestone.domain.people import User
from cobblestone.domain.values import DAY, UserId, form_of
from cobblestone.policy.credit.history import Badge, BadgeKind, BadgeRules
from cobblestone.server.core.context import ServerContext
from cobblestone.server.web.presentation.site import ProjectSite, ProjectVisit
from cobblestone.service.languages import gettext as _
from cobblestone.service.pages.pages import Pages, shows
from cobblestone.service.pages.site import PageError, not_found
from cobblestone.service.pages.static_files import SECURITY_HEADERS
from cobblestone.store.catalog import apps
from cobblestone.store.credit.app_credit import AppCredit, Owner, credit_by_app
from cobblestone.store.engine.database import Database
from cobblestone.store.people import users

MAX_CODE = 2000
FLOP_PER_GFLOPS_DAY = 1e9 * DAY


@dataclass(frozen=True, slots=True)
class Certificate:
    """The content of a certificate."""

    user_id: int
    name: str
    app: str  #: what the app is called; empty: of all apps
    credit: float
    since: float  #: Unix seconds
    time: float  #: when it was made
    per_gflops_day: float  #: the unit of credit then

    @property
    def operations(self) -> float:
        """Return the floating-point operations that the credit corresponds to."""
        return self.credit / self.per_gflops_day * FLOP_PER_GFLOPS_DAY


class CertificatePages(Pages[ProjectSite]):
    """Certificates, and the page that checks them."""

    def __init__(self, site: ProjectSite) -> None:
        super().__init__(site)
        self._signer = URLSafeSerializer(site.ctx.secret, salt="certificate")

    @shows("/certificate.php", own=True)
    async def certificate(self, visit: ProjectVisit, user: User) -> Response:
        """Show the user's own certificate, for all apps or for one (``appid``)."""
        app_id = visit.number("appid")

        def read(db: Database) -> tuple[list[AppCredit], dict[int, str]]:
            return credit_by_app(db, Owner.USER, user.id), {app.id: app.title for app in apps.list_apps(db)}

        shares, titles = await visit.read(read)
        share = next((item for item in shares if item.app_id == app_id), None)
        if app_id is not None and share is None:
            raise not_found(_("credit of yours from app %(id)d") % {"id": app_id})
        now = visit.ctx.clock()
        made = Certificate(
            user_id=user.id,
            name=user.name,
            app="" if share is None else titles.get(share.app_id, ""),
            credit=user.credit.total if share is None else share.credit.total,
            since=user.create_time,
            time=now,
            per_gflops_day=visit.ctx.settings.credit.per_gflops_day,
        )
        code = self._signer.dumps(astuple(made))
        return visit.show(
            "certificate.html",
            made=made,
            address=visit.ctx.url(f"certificate_check.php?code={code}"),
            shares=[(item, titles.get(item.app_id, "")) for item in shares],
            app_id=app_id,
        )

    @shows("/certificate_check.php")
    async def check(self, visit: ProjectVisit) -> Response:
        """Show the content of a code, if this project issued it."""
        made = self._read(visit.fields.get("code", ""))
        if made is None:
            return visit.show("certificate_check.html", http_status=404, made=None)
        user = await visit.read(lambda db: users.user_by_id(db, UserId(made.user_id)))
        if user is None or user.erased:
            raise PageError(
                410,
                _("The account was deleted"),
                _("The project issued this certificate, but it no longer knows for whom."),
            )
        return visit.show("certificate_check.html", made=made)

    def _read(self, code: str) -> Certificate | None:
        if not 0 < len(code) <= MAX_CODE:
            return None
        try:
            values: Any = self._signer.loads(code)  # what we signed ourselves
        except BadSignature:
            return None
        return Certificate(*values)


_METALS = (  # stone, edge
    ("#a0714a", "#6f4a2c"),  # copper
    ("#8b8f96", "#5d6168"),  # silver
    ("#c69a1e", "#8a6a0b"),  # gold
    ("#0f8a7e", "#07534b"),  # malachite
    ("#4463b5", "#2a4180"),  # sapphire
    ("#a63d52", "#6f2032"),  # ruby
)
_SIGNS = {
    BadgeKind.TOTAL: '<rect x="20" y="24" width="11" height="7" rx="3"/><rect x="33" y="24" width="11" height="7" rx="3"/>'
    '<rect x="26.5" y="15" width="11" height="7" rx="3"/>',
    BadgeKind.RECENT: '<path d="M18 26h7l3-9 6 13 4-8 2 4h6" fill="none" stroke="#fff" stroke-width="3"'
    ' stroke-linejoin="round" stroke-linecap="round"/>',
    BadgeKind.RANK: '<path d="M32 12l3.4 7 7.6 1-5.6 5.3 1.4 7.7-6.8-3.7-6.8 3.7 1.4-7.7-5.6-5.3 7.6-1z"/>',
}
_UNITS = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


class BadgePictures:
    """Serves pictures of the project's badges."""

    def __init__(self, ctx: ServerContext) -> None:
        rules = form_of(BadgeRules, ctx.settings.badges)
        self._pictures = {badge.name: picture(badge, rules.badges) for badge in rules.badges}

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [Route("/badge/{name}.svg", self._answer)]

    async def _answer(self, request: Request) -> Response:
        found = self._pictures.get(request.path_params["name"])
        if found is None:
            return PlainTextResponse("Not Found", 404)
        headers = {**SECURITY_HEADERS, "Cache-Control": "public, max-age=86400"}
        return Response(found, media_type="image/svg+xml", headers=headers)


def picture(badge: Badge, given: Sequence[Badge]) -> str:
    """Draw a badge; its colour shows its rank among those of its kind, from lowest to highest."""
    levels = [item.level for item in given if item.kind is badge.kind]
    place = levels.index(badge.level) * (len(_METALS) - 1) / max(1, len(levels) - 1)
    stone, edge = _METALS[round(place) if len(levels) > 3 else levels.index(badge.level)]
    text = f"{badge.level:g} %" if badge.kind is BadgeKind.RANK else _short(badge.level)
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 64 64">'
        '<path d="M32 4l22 10c3 1.5 4 3 4 6v24c0 3-1 4.5-4 6L32 60 10 50c-3-1.5-4-3-4-6V20c0-3 1-4.5 4-6z"'
        f' fill="{stone}" stroke="{edge}" stroke-width="3" stroke-linejoin="round"/>'
        f'<g fill="#fff">{_SIGNS[badge.kind]}'
        '<text x="32" y="47" text-anchor="middle" font-family="system-ui, sans-serif" font-size="13"'
        f' font-weight="700">{text}</text></g></svg>'
    )


def _short(amount: float) -> str:
    for limit, unit in _UNITS:
        if amount >= limit:
            return f"{amount / limit:.3g} {unit}"
    return f"{amount:.3g}"
