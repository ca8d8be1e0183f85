"""What all pages share: templates, static files, headers, errors, and the visit that a page answers."""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
import re
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from importlib.resources import files as package_files
from typing import Any
from urllib.parse import urlencode, urlsplit

import jinja2
import structlog
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from cobblestone.domain.errors import CobblestoneError, StoreError
from cobblestone.domain.people import User
from cobblestone.domain.statistics import CreditStatement
from cobblestone.domain.work import Result
from cobblestone.policy.credit.rac import decayed
from cobblestone.server.core.context import ServerContext
from cobblestone.server.web import operator_wording, wording
from cobblestone.server.web.credit_history import CreditHistories
from cobblestone.server.web.credit_plot import DAYS_NEEDED, CreditPlot, credit_plot
from cobblestone.server.web.qr_code import qr_code
from cobblestone.server.web.sessions import Session, Sessions
from cobblestone.service import languages
from cobblestone.service.http.bodies import BodyTooLarge, read_body
from cobblestone.service.http.rate_limits import client_address
from cobblestone.service.languages import NAMES, chosen, current, ngettext, speaking
from cobblestone.service.languages import gettext as _
from cobblestone.store.credit.credit_history import CreditOwner
from cobblestone.store.operation.page_queries import MAX_PAGE
from cobblestone.wire.account import WebRpcFailure, parse_web_query
from cobblestone.wire.project_pages import scheduler_link_tags

log = structlog.get_logger(__name__)

MAX_FORM_BYTES = 8000
MAX_FORM_FIELDS = 60
MAX_ID = 2**53
LANGUAGE_SECONDS = 365 * 86400
_OWN_PAGE = re.compile(r"[a-z_]{1,40}\.php(\?[A-Za-z0-9_=&%+-]{0,200})?")

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
        " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Cache-Control": "no-store",
}


HTTPS_ONLY = {"Strict-Transport-Security": "max-age=31536000"}
"""Sent when the project's own address is an https one: browsers then do not try without."""


class PageError(CobblestoneError):
    """A page cannot be shown."""

    def __init__(self, status: int, title: str, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.title = title


def not_found(what: str) -> PageError:
    """The error page for something that does not exist."""
    return PageError(
        404,
        _("Not found"),
        _("There is no %(what)s here. The address may be mistyped, or its time may be over.")
        % {"what": what},
    )


def private() -> PageError:
    """The error page for what an owner does not show."""
    return PageError(
        403,
        _("Private"),
        _("This volunteer does not show computers and tasks to others. If it is you, log in first."),
    )


def own_page(page: str, *, otherwise: str) -> str:
    """A page of this project to go on to; anything else leads to ``otherwise``."""
    return page if _OWN_PAGE.fullmatch(page) else otherwise


class Site:
    """Renders pages of one project."""

    def __init__(self, ctx: ServerContext) -> None:
        self.ctx = ctx
        self.sessions = Sessions(ctx)
        self.histories = CreditHistories(ctx)
        self.base = urlsplit(ctx.master_url).path or "/"
        self.headers = {**SECURITY_HEADERS, **(HTTPS_ONLY if self.sessions.secure else {})}
        self.language_cookie = self.sessions.name + "_language"
        self._static = StaticFiles(self.base)
        # Any: Jinja's filters and globals have no exact types.
        environment: Any = jinja2.Environment(
            loader=jinja2.PackageLoader("cobblestone.server.web"),
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
            undefined=jinja2.StrictUndefined,
            extensions=["jinja2.ext.i18n"],
        )
        environment.policies["ext.i18n.trimmed"] = True
        environment.install_gettext_callables(languages.gettext, ngettext, newstyle=True)
        environment.filters.update(
            count=wording.count,
            credit=wording.credit,
            duration=wording.duration,
            nbytes=wording.nbytes,
            flops=wording.flops,
            percent=wording.percent,
            version=wording.version_number,
            client_version=wording.client_version,
            exit_status=wording.exit_status,
            word=operator_wording.word,
            qr_code=qr_code,
            tidy=wording.tidy_numbers,
            said=languages.said,
            said_again=languages.said_again,
            rac=self._rac,
            ago=self._ago,
            moment=_moment,
            day=_day,
        )
        environment.globals.update(
            base=self.base,
            project=ctx.settings.project,
            scheduler_tags=Markup(scheduler_link_tags(ctx.url("cgi-bin/cgi"))),  # noqa: S704  # escaped by its writer
            accounts=ctx.settings.accounts,
            static=self._static.address,
            task_status=self._task_status,
            workunit_status=wording.workunit_status,
            changes=operator_wording.changes,
            languages=NAMES,
            language=current,
        )
        self._environment: jinja2.Environment = environment

    async def credit_plot(self, owner: CreditOwner, *, created: float) -> CreditPlot | None:
        """The drawing of an owner's credit; None when there is nothing to show."""
        now = self.ctx.clock()
        days = await self.histories.of(owner, created=created, n_days=DAYS_NEEDED)
        return credit_plot(days, now=now)

    def html(
        self, template: str, *, http_status: int = 200, **values: Any
    ) -> Response:  # whatever a template shows
        """A rendered page with the headers that every page has."""
        text = self._environment.get_template(template).render(**values)
        headers = {**self.headers, "Content-Language": current().code}
        return HTMLResponse(text, http_status, headers=headers)

    def page(
        self, handler: Callable[[Visit], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """An endpoint that answers with a page, also when something goes wrong."""

        async def endpoint(request: Request) -> Response:
            visit = Visit(self, request, Session(nonce=""), {})
            with speaking(self._language(request)):
                return await answer(visit)

        async def answer(visit: Visit) -> Response:
            request = visit.request
            try:
                visit.fields = parse_web_query(request.url.query)
                visit.session = await self.sessions.of(request)
                if visit.viewer is not None and self.language_cookie not in request.cookies:
                    with speaking(chosen(visit.viewer.language, current().code)):
                        return await handler(visit)
                return await handler(visit)
            except PageError as error:
                return visit.show("error.html", http_status=error.status, title=error.title, text=str(error))
            except (WebRpcFailure, BodyTooLarge) as error:
                return visit.show(
                    "error.html", http_status=400, title=_("That cannot be read"), text=str(error)
                )
            except StoreError as error:
                log.error("page_failed", path=request.url.path, error=str(error))
                text = _("The project cannot answer at the moment. Try again in a minute.")
                return visit.show("error.html", http_status=503, title=_("Not now"), text=text)
            except Exception:  # the last resort: a page, and a line in the log
                log.exception("page_failed", path=request.url.path)
                text = _("The project's server made a mistake. It is in its log; try again later.")
                return visit.show("error.html", http_status=500, title=_("Something went wrong"), text=text)

        return endpoint

    def remember_language(self, response: Response, code: str) -> None:
        """Have the browser ask for a language from now on."""
        response.set_cookie(
            self.language_cookie,
            code,
            max_age=LANGUAGE_SECONDS,
            path=self.base,
            secure=self.sessions.secure,
            httponly=True,
            samesite="lax",
        )

    def _language(self, request: Request) -> str:
        return chosen(
            request.cookies.get(self.language_cookie, ""), accepted=request.headers.get("accept-language", "")
        )

    def own_page(
        self, handler: Callable[[Visit, User], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """An endpoint for people who are logged in; others are sent to log in first."""

        async def for_user(visit: Visit) -> Response:
            if visit.viewer is None:
                return visit.user_to_log_in()
            return await handler(visit, visit.viewer)

        return self.page(for_user)

    async def static_file(self, request: Request) -> Response:
        """A file of the pages."""
        return self._static.answer(request)

    async def nothing_here(self, request: Request) -> Response:
        """The answer to an address that nothing has: a page for people, a line for programs."""
        if "text/html" not in request.headers.get("accept", ""):
            return PlainTextResponse("Not Found", 404)

        async def missing(visit: Visit) -> Response:
            raise not_found(_("page"))

        return await self.page(missing)(request)

    def _task_status(self, result: Result) -> wording.Status:
        return wording.task_status(result, now=self.ctx.clock())

    def _rac(self, statement: CreditStatement) -> float:
        return decayed(statement.recent, self.ctx.clock())

    def _ago(self, time: float | None) -> Markup:
        if time is None:
            return Markup("{}").format(_("never"))
        return _time(time, wording.ago(time, self.ctx.clock()))


def _time(time: float, text: str) -> Markup:
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        wording.iso(time), wording.moment(time), text
    )


def _moment(time: float) -> Markup:
    return _time(time, wording.moment(time))


def _day(time: float) -> Markup:
    return _time(time, wording.day(time))


@dataclass(slots=True)
class Visit:
    """One request for a page: who asks for what."""

    site: Site
    request: Request
    session: Session
    fields: dict[str, str]  #: of the query

    @property
    def ctx(self) -> ServerContext:
        """The project."""
        return self.site.ctx

    @property
    def viewer(self) -> User | None:
        """Who is logged in."""
        return self.session.user

    @property
    def address(self) -> str:
        """The visitor's address, for rate limits."""
        return client_address(self.request.scope)

    @property
    def here(self) -> str:
        """The address of this page below the project's own."""
        page = self.request.url.path.removeprefix(self.site.base)
        return f"{page}?{self.request.url.query}" if self.request.url.query else page

    def show(
        self, template: str, *, http_status: int = 200, **values: Any
    ) -> Response:  # whatever a template shows
        """A page for this visitor."""
        values.setdefault("done", "")
        return self.site.html(
            template,
            http_status=http_status,
            viewer=self.viewer,
            form_token=self.site.sessions.form_token(self.session),
            path=self.request.url.path,
            here=self.here,
            now=self.ctx.clock(),
            **values,
        )

    def show_form(self, template: str, *, http_status: int = 200, **values: Any) -> Response:  # as above
        """A page with a form for a visitor who may not have a session yet."""
        response = self.show(template, http_status=http_status, **values)
        self.site.sessions.keep(response, self.session)
        return response

    def go(self, page: str) -> Response:
        """Send the visitor to another page."""
        return RedirectResponse(self.site.base + page, 303, headers=self.site.headers)

    def go_on(self, page: str, **fields: str) -> Response:
        """Send the visitor to another page with fields in its address."""
        return self.go(f"{page}?{urlencode(fields)}")

    def user_to_log_in(self) -> Response:
        """Send the visitor to the log-in form, and from there back here."""
        return self.go_on("login.php", next=self.here)

    def number(self, name: str) -> int | None:
        """An id from the query; None if it is not given.  Raises PageError for what cannot be one."""
        text = self.fields.get(name, "").strip()
        if not text:
            return None
        if not (text.isascii() and text.isdecimal()) or len(text) > 16 or not 0 < int(text) <= MAX_ID:
            raise not_found(f"{name} {text[:40]!r}")
        return int(text)

    def needed_number(self, name: str) -> int:
        """An id from the query.  Raises PageError if it is missing."""
        number = self.number(name)
        if number is None:
            raise PageError(
                404,
                _("Something is missing"),
                _("The address of this page needs a number: ?%(name)s=1") % {"name": name},
            )
        return number

    def page_number(self) -> int:
        """Which page of a list, from 0.  Raises PageError beyond the last one that there can be."""
        number = self.number("page") if self.fields.get("page") not in (None, "0") else 0
        if (number or 0) > MAX_PAGE:
            raise PageError(404, _("Too far back"), _("Lists end at page %(page)d.") % {"page": MAX_PAGE})
        return number or 0

    async def form(
        self,
        *,
        max_fields: int = MAX_FORM_FIELDS,
        max_bytes: int = MAX_FORM_BYTES,
        long_fields: Collection[str] = (),
    ) -> dict[str, str]:
        """The fields of a posted form, once it is sure that the form is ours; ``long_fields`` may hold several lines."""
        body = await read_body(self.request, max_bytes)
        fields = parse_web_query(
            body.decode("utf-8", "replace"),
            max_fields=max_fields,
            max_length=max_bytes,
            long_fields=long_fields,
        )
        if not self.site.sessions.token_is_right(self.session, fields.get("form_token", "")):
            raise PageError(
                403,
                _("The form is too old"),
                _(
                    "It was not sent from a page that this project showed to you, or cookies are off."
                    " Nothing was changed: allow cookies, go back, reload the page, and send it again."
                ),
            )
        return fields


class StaticFiles:
    """The style sheet, script and pictures of the pages: few and small, so they stay in memory."""

    def __init__(self, base: str) -> None:
        self._base = base
        self._files: dict[str, tuple[bytes, bytes, str, str]] = {}
        for entry in package_files("cobblestone.server.web").joinpath("static").iterdir():
            data = entry.read_bytes()
            kind = mimetypes.guess_type(entry.name)[0] or "text/plain"
            digest = hashlib.sha256(data).hexdigest()[:12]
            self._files[entry.name] = (data, gzip.compress(data, mtime=0), kind, digest)

    def address(self, name: str) -> str:
        """Where a file is; changes with its content, so that browsers may keep it."""
        return f"{self._base}static/{name}?v={self._files[name][3]}"

    def answer(self, request: Request) -> Response:
        """The file that a request asks for."""
        found = self._files.get(request.path_params["name"])
        if found is None:
            return PlainTextResponse("Not Found", 404)
        data, packed, kind, digest = found
        current = request.query_params.get("v") == digest
        headers = {
            "X-Content-Type-Options": "nosniff",
            "Content-Security-Policy": SECURITY_HEADERS["Content-Security-Policy"],
            "Cache-Control": "public, max-age=31536000, immutable" if current else "no-cache",
            "Vary": "Accept-Encoding",
        }
        if "gzip" in request.headers.get("accept-encoding", ""):
            return Response(packed, media_type=kind, headers={**headers, "Content-Encoding": "gzip"})
        return Response(data, media_type=kind, headers=headers)
