"""Pages of a service: templates, errors, languages, QR codes, and the visit that a page answers.

Pages of a service: templates, headers, errors, languages, and the visit that a page answers.

A service derives its own site and visit from these: it adds its templates, filters and values.
"""

from __future__ import annotations

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode, urlsplit

import jinja2
import segno
import structlog
from markupsafe import Markup
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from cobblestone.domain.errors import CobblestoneError, StoreError
from cobblestone.ops.aside import read_aside
from cobblestone.service import languages
from cobblestone.service.context import ProcessContext, ServiceContext
from cobblestone.service.http.requests import BodyTooLarge, read_body
from cobblestone.service.languages import NAMES, chosen, current, ngettext, use_language
from cobblestone.service.languages import gettext as _
from cobblestone.service.pages import wording
from cobblestone.service.pages.sessions import Account, Session, Sessions
from cobblestone.service.pages.static_files import HTTPS_ONLY, SECURITY_HEADERS, StaticFiles
from cobblestone.service.pages.texts import excerpt, markdown
from cobblestone.service.rate_limits import client_address
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.wire.project.account import WebRpcFailure, parse_web_query

#: Light modules around a code, as the standard (ISO/IEC 18004) wants; the page may be dark.
QUIET_ZONE = 4


def qr_code(text: str) -> Markup:
    """Return an SVG element, dark on light regardless of the page's colours; empty if the text is too long for a QR code."""
    try:
        drawn = segno.make_qr(text, error="m")
    except segno.DataOverflowError:
        return Markup()
    svg = drawn.svg_inline(
        border=QUIET_ZONE, dark="#000", light="#fff", omitsize=True, svgclass=None, lineclass=None
    )
    return Markup(svg)  # noqa: S704  # made of figures only


log = structlog.get_logger(__name__)

MAX_FORM_BYTES = 8000
PIECE_BYTES = 1 << 18
MAX_FORM_FIELDS = 60
MAX_ID = 2**53
LANGUAGE_SECONDS = 365 * 86400

T = TypeVar("T")
A = TypeVar("A", bound=Account)
V = TypeVar("V", bound="Visit[Any, Any]")  # Any: a site fixes it
S = TypeVar("S", bound="Site[Any, Any]")


class PageError(CobblestoneError):
    """A page cannot be shown."""

    def __init__(self, status: int, title: str, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.title = title


def not_found(what: str) -> PageError:
    """Return the error page for something that does not exist."""
    return PageError(
        404,
        _("Not found"),
        _("There is no %(what)s here. The address may be mistyped or no longer valid.") % {"what": what},
    )


class Site(ABC, Generic[A, V]):
    """Renders the pages of one service."""

    max_page = 400  #: lists end there; what is further back is found by search, not by leafing
    own_addresses = re.compile(r"[a-z_]{1,40}\.php(\?[A-Za-z0-9_=&%+-]{0,200})?")  #: of pages to continue to

    def __init__(
        self,
        ctx: ProcessContext,
        *,
        package: str,
        find_account: Callable[[int, str], Awaitable[A | None]],
        values: Mapping[str, Any],  # Any: Jinja's globals and filters have no exact types
        filters: Mapping[str, Any] | None = None,
    ) -> None:
        """Create the site.

        ``package``: its folder ``templates`` is looked into first.  ``find_account``: see `Sessions`.  ``filters`` and ``values``
        are there in all templates.
        """
        self.sessions = Sessions(ctx, find_account)
        self.base = urlsplit(ctx.master_url).path or "/"
        self.headers = {**SECURITY_HEADERS, **(HTTPS_ONLY if self.sessions.secure else {})}
        self.language_cookie = self.sessions.name + "_language"
        self.clock = ctx.clock
        self._static = StaticFiles(self.base)
        environment: Any = jinja2.Environment(
            loader=jinja2.ChoiceLoader(
                [jinja2.PackageLoader(package), jinja2.PackageLoader("cobblestone.service.pages")]
            ),
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
            qr_code=qr_code,
            markdown=markdown,
            excerpt=excerpt,
            tidy=wording.tidy_numbers,
            translate_reason=languages.translate_reason,
            translate_stored=languages.translate_stored,
            ago=self._ago,
            moment=_moment,
            day=_day,
        )
        environment.filters.update(filters or {})
        environment.globals.update(
            base=self.base,
            static=self._static.address,
            languages=NAMES,
            language=current,
            team_types=wording.TEAM_TYPES,
        )
        environment.globals.update(values)
        self._environment: jinja2.Environment = environment

    @abstractmethod
    def visit(self, request: Request) -> V:
        """Start a visit, with an empty session and no fields yet."""

    def own_address(self, page: str, *, otherwise: str = "") -> str:
        """Return a page of this site to continue to; for anything else ``otherwise``, which is the home page."""
        return page if self.own_addresses.fullmatch(page) else otherwise

    def let_in(self, visit: V, user: A, page: str) -> Response:
        """Continue to a page with a session."""
        response = visit.go(page)
        self.sessions.start(response, user)
        return response

    def static_address(self, name: str) -> str:
        """Return the address of a static file."""
        return self._static.address(name)

    def static_route(self) -> Route:
        """Return the route of the style sheet, script and pictures."""
        return Route("/static/{name}", self._static_file)

    def html(self, template: str, *, http_status: int = 200, **values: Any) -> Response:  # what it shows
        """Return a rendered page with the headers that every page has."""
        text = self._environment.get_template(template).render(**values)
        headers = {**self.headers, "Content-Language": current().code}
        return HTMLResponse(text, http_status, headers=headers)

    def page(self, handler: Callable[[V], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        """Return an endpoint that answers with a page, even after an error."""

        async def endpoint(request: Request) -> Response:
            visit = self.visit(request)
            with use_language(self._language(request)):
                return await answer(visit)

        async def answer(visit: V) -> Response:
            request = visit.request
            try:
                visit.fields = parse_web_query(request.url.query)
                visit.session = await self.sessions.of(request)
                if visit.viewer is not None and self.language_cookie not in request.cookies:
                    with use_language(chosen(visit.viewer.language, current().code)):
                        return await handler(visit)
                return await handler(visit)
            except PageError as error:
                return visit.show("error.html", http_status=error.status, title=error.title, text=str(error))
            except WebRpcFailure as error:
                return visit.show("error.html", http_status=400, title=_("Invalid request"), text=str(error))
            except BodyTooLarge:
                text = _("The text or file is larger than this page takes. Go back, and send a smaller one.")
                return visit.show("error.html", http_status=413, title=_("Too large"), text=text)
            except StoreError as error:
                log.error("page_failed", path=request.url.path, error=str(error))
                text = _("The project cannot answer at the moment. Try again in a minute.")
                return visit.show("error.html", http_status=503, title=_("Not now"), text=text)
            except Exception:  # the last resort: a page, and a line in the log
                log.exception("page_failed", path=request.url.path)
                text = _("There was an error in the project's server. It was logged. Try again later.")
                return visit.show("error.html", http_status=500, title=_("Something went wrong"), text=text)

        return endpoint

    def remember_language(self, response: Response, code: str) -> None:
        """Make the browser ask for a language from now on."""
        response.set_cookie(
            self.language_cookie,
            code,
            max_age=LANGUAGE_SECONDS,
            path=self.base,
            secure=self.sessions.secure,
            httponly=True,
            samesite="lax",
        )

    def in_language(self, visit: V, code: str, page: str) -> Response:
        """Redirect to a page, in a language from now on if it is supported."""
        response = visit.go(page)
        if code in NAMES:
            self.remember_language(response, code)
        return response

    def _language(self, request: Request) -> str:
        return chosen(
            request.cookies.get(self.language_cookie, ""), accepted=request.headers.get("accept-language", "")
        )

    def own_page(
        self, handler: Callable[[V, A], Awaitable[Response]]
    ) -> Callable[[Request], Awaitable[Response]]:
        """Return an endpoint for logged-in users; others are sent to the log-in page first."""

        async def for_user(visit: V) -> Response:
            if visit.viewer is None:
                return visit.user_to_log_in()
            return await handler(visit, visit.viewer)

        return self.page(for_user)

    async def _static_file(self, request: Request) -> Response:
        return self._static.answer(request)

    async def http_error(self, request: Request, error: Exception) -> Response:
        """Answer for an unknown path or method: a page for people, a line for programs."""
        if not isinstance(error, HTTPException):
            raise error
        if "text/html" not in request.headers.get("accept", ""):
            return PlainTextResponse(error.detail, error.status_code, headers=error.headers)

        async def refuse(visit: V) -> Response:
            if error.status_code == 404:
                raise not_found(_("page"))
            title, text = _("Not possible this way"), _("This address is not for opening in a browser.")
            raise PageError(error.status_code, title, text)

        response = await self.page(refuse)(request)
        response.headers.update(error.headers or {})
        return response

    def _ago(self, time: float | None) -> Markup:
        if time is None:
            return Markup("{}").format(_("never"))
        return _time(time, wording.ago(time, self.clock()))


def _time(time: float, text: str) -> Markup:
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        wording.iso(time), wording.moment(time), text
    )


def _moment(time: float) -> Markup:
    return _time(time, wording.moment(time))


def _day(time: float) -> Markup:
    return _time(time, wording.day(time))


class Visit(Generic[A, S]):
    """One request for a page."""

    def __init__(self, site: S, request: Request) -> None:
        self.site = site
        self.request = request
        self.session: Session[A] = Session(nonce="")
        self.fields: dict[str, str] = {}  #: of the query

    @property
    def viewer(self) -> A | None:
        """Return the logged-in account."""
        return self.session.user

    @property
    def address(self) -> str:
        """Return the visitor's address, for rate limits."""
        return client_address(self.request.scope)

    @property
    def here(self) -> str:
        """Return the address of this page below the project's own."""
        page = self.request.url.path.removeprefix(self.site.base)
        return f"{page}?{self.request.url.query}" if self.request.url.query else page

    @property
    def done(self) -> str:
        """Return what was just done, as the address says."""
        return self.fields.get("done", "")

    def show(self, template: str, *, http_status: int = 200, **values: Any) -> Response:  # what it shows
        """Return a page for this visitor; one that names a problem of a form has the status 422."""
        values.setdefault("done", self.done)
        refused = http_status == 200 and (values.get("problem") or values.get("problems"))
        return self.site.html(
            template,
            http_status=422 if refused else http_status,
            viewer=self.viewer,
            form_token=self.site.sessions.form_token(self.session),
            path=self.request.url.path,
            here=self.here,
            now=self.site.clock(),
            **values,
        )

    def show_form(self, template: str, **values: Any) -> Response:  # as above
        """Return a page with a form for a visitor who may not have a session yet."""
        response = self.show(template, **values)
        self.site.sessions.keep(response, self.session)
        return response

    def go(self, page: str) -> Response:
        """Redirect to another page."""
        return RedirectResponse(self.site.base + page, 303, headers=self.site.headers)

    def go_on(self, page: str, **fields: str) -> Response:
        """Redirect to another page with fields in its address."""
        return self.go(f"{page}?{urlencode(fields)}")

    def user_to_log_in(self) -> Response:
        """Redirect to the log-in form, and from there back here."""
        return self.go_on("login.php", next=self.here)

    def number(self, name: str) -> int | None:
        """Return an id from the query; None if it is missing.  Raises PageError if it is invalid."""
        text = self.fields.get(name, "").strip()
        if not text:
            return None
        if not (text.isascii() and text.isdecimal()) or len(text) > 16 or not 0 < int(text) <= MAX_ID:
            raise not_found(f"{name} {text[:40]!r}")
        return int(text)

    def needed_number(self, name: str) -> int:
        """Return an id from the query.  Raises PageError if it is missing."""
        number = self.number(name)
        if number is None:
            text = _("The address of this page must have a number: ?%(name)s=1") % {"name": name}
            raise PageError(404, _("Not complete"), text)
        return number

    def page_number(self) -> int:
        """Return the requested page of a list, from 0.  Raises PageError beyond the last possible one."""
        number = self.number("page") if self.fields.get("page") not in (None, "0") else 0
        if (number or 0) > self.site.max_page:
            text = _("The list ends at page %(page)d.") % {"page": self.site.max_page}
            raise PageError(404, _("Too far back"), text)
        return number or 0

    async def form(
        self,
        *,
        max_fields: int = MAX_FORM_FIELDS,
        max_bytes: int = MAX_FORM_BYTES,
        long_fields: Collection[str] = (),
    ) -> dict[str, str]:
        """Return the fields of a posted form, after verifying that the form is ours; ``long_fields`` may have several lines."""
        body = await read_body(self.request, max_bytes)

        def read(sent: bytes) -> dict[str, str]:
            text = sent.decode("utf-8", "replace")
            return parse_web_query(text, max_fields=max_fields, max_length=max_bytes, long_fields=long_fields)

        fields = await read_aside(read, body)
        self.check_token(fields)
        return fields

    async def form_with_file(self, name: str, *, max_file_bytes: int) -> tuple[dict[str, str], bytes]:
        """Return the fields of a posted form and the file in one of them (empty: none), as `form` does.

        A form that is not in parts holds no file.
        """
        if not self.request.headers.get("content-type", "").startswith("multipart/"):
            return await self.form(), b""
        async with self.form_with_files(max_bytes=max_file_bytes + MAX_FORM_BYTES, max_files=1) as (
            fields,
            files,
        ):
            return fields, await files[name][0].read() if name in files else b""

    @asynccontextmanager
    async def form_with_files(
        self, *, max_bytes: int, max_files: int, max_field_bytes: int = MAX_FORM_BYTES
    ) -> AsyncGenerator[tuple[dict[str, str], dict[str, list[UploadFile]]], None]:
        """Give the fields of a posted form and its files, by field, after verifying that the form is ours.

        The whole body has at most ``max_bytes``.  Large files lie on disk while the block runs.
        """
        try:
            parser = MultiPartParser(
                self.request.headers,
                _bounded(self.request.stream(), max_bytes),
                max_files=max_files,
                max_fields=MAX_FORM_FIELDS,
                max_part_size=max_field_bytes,
            )
            form = await parser.parse()
        except (MultiPartException, KeyError, ValueError) as error:
            raise PageError(400, _("Invalid request"), _("The form arrived incomplete.")) from error
        try:
            files: dict[str, list[UploadFile]] = {}
            for name, sent in form.multi_items():
                if isinstance(sent, UploadFile) and sent.filename:
                    files.setdefault(name, []).append(sent)
            fields = {name: value for name, value in form.items() if isinstance(value, str)}
            self.check_token(fields)
            yield fields, files
        finally:
            await form.close()

    def check_token(self, fields: Mapping[str, str]) -> None:
        """Check that a form comes from a page that we showed to this visitor.  Raises PageError."""
        if not self.site.sessions.token_is_right(self.session, fields.get("form_token", "")):
            text = _(
                "The form was not sent from a page that this project showed you, or cookies are disabled. "
                "Nothing was changed. Allow cookies, go back, reload the page, and send the form again."
            )
            raise PageError(403, _("The form has expired"), text)


async def _bounded(chunks: AsyncIterator[bytes], max_bytes: int) -> AsyncGenerator[bytes, None]:
    """Yield the pieces of a body.  Raises BodyTooLarge when they become more than allowed."""
    size = 0
    async for chunk in chunks:
        size += len(chunk)
        if size > max_bytes:
            raise BodyTooLarge
        for place in range(0, len(chunk), PIECE_BYTES):
            yield chunk[place : place + PIECE_BYTES]
            await asyncio.sleep(0)  # others are answered meanwhile


class VisitOfRows(Visit[A, S], ABC):
    """One request for a page of a service with a database of rows."""

    @property
    @abstractmethod
    def ctx(self) -> ServiceContext:
        """Return the service."""

    async def read(self, operation: Callable[[Database], T]) -> T:
        """Read from the database."""
        return await self.ctx.store.aread(operation)

    async def write(self, operation: Callable[[Transaction], T]) -> T:
        """Write to the database."""
        return await self.ctx.store.awrite(operation)
