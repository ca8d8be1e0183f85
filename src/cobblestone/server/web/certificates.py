"""Certificates: what somebody has contributed, to be printed, with a code that shows that it comes from here.

The code is a signed text that holds what the certificate says: whoever opens its address reads it in the project's own words.  It
is not a secret and opens nothing.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from typing import Any

from itsdangerous import BadSignature, URLSafeSerializer
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from cobblestone.domain.ids import UserId
from cobblestone.domain.people import User
from cobblestone.domain.statistics import SECONDS_PER_DAY
from cobblestone.server.web.site import Site, Visit
from cobblestone.service.languages import gettext as _
from cobblestone.service.pages.site import PageError, not_found
from cobblestone.store.catalog import apps
from cobblestone.store.credit.app_credit import AppCredit, Owner, credit_by_app
from cobblestone.store.engine.database import Database
from cobblestone.store.people import users

MAX_CODE = 2000
FLOP_PER_GFLOPS_DAY = 1e9 * SECONDS_PER_DAY


@dataclass(frozen=True, slots=True)
class Certificate:
    """What a certificate says."""

    user_id: int
    name: str
    app: str  #: what the app is called; empty: of all apps
    credit: float
    since: float  #: Unix seconds
    time: float  #: when it was made
    per_gflops_day: float  #: the unit of credit then

    @property
    def operations(self) -> float:
        """Floating-point operations that the credit stands for."""
        return self.credit / self.per_gflops_day * FLOP_PER_GFLOPS_DAY


class CertificatePages:
    """Certificates, and the page that checks them."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._signer = URLSafeSerializer(site.ctx.secret, salt="certificate")

    def routes(self) -> list[BaseRoute]:
        """Where they are."""
        return [
            Route("/certificate.php", self._site.own_page(self.certificate)),
            Route("/certificate_check.php", self._site.page(self.check)),
        ]

    async def certificate(self, visit: Visit, user: User) -> Response:
        """Show one's own certificate, of all apps or of one (``appid``)."""
        app_id = visit.number("appid")

        def read(db: Database) -> tuple[list[AppCredit], dict[int, str]]:
            return credit_by_app(db, Owner.USER, user.id), {app.id: app.title for app in apps.list_apps(db)}

        shares, titles = await visit.ctx.store.aread(read)
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

    async def check(self, visit: Visit) -> Response:
        """Say what a code stands for, if this project made it."""
        made = self._read(visit.fields.get("code", ""))
        if made is None:
            return visit.show("certificate_check.html", http_status=404, made=None)
        user = await visit.ctx.store.aread(lambda db: users.user_by_id(db, UserId(made.user_id)))
        if user is None or user.erased:
            raise PageError(
                410,
                _("The account was deleted"),
                _("The project made this certificate, and has forgotten for whom."),
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
