"""Pages that belong together, as the methods of a class: each says at which addresses it is shown."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from cobblestone.service.pages.sessions import MAX_AGE_SECONDS
from cobblestone.service.pages.site import Site, Visit, VisitOfRows
from cobblestone.store.people.users import end_session

Handler = Callable[..., Awaitable[Response]]
H = TypeVar("H", bound=Handler)
S = TypeVar("S", bound=Site[Any, Any])  # Any: the site fixes its accounts and visits

GET, POST, BOTH = ("GET",), ("POST",), ("GET", "POST")


class _Place(NamedTuple):
    path: str
    methods: Sequence[str]
    own: bool


def shows(*paths: str, methods: Sequence[str] = GET, own: bool = False) -> Callable[[H], H]:
    """Say at which addresses a method of `Pages` is shown.  ``own``: only to users who are logged in."""

    def mark(handler: H) -> H:
        vars(handler)["places"] = [_Place(path, methods, own) for path in paths]
        return handler

    return mark


class Pages(Generic[S]):
    """Pages of a site."""

    def __init__(self, site: S) -> None:
        self._site = site

    def routes(self) -> list[BaseRoute]:
        """Return the routes to all methods with `shows`, in their order."""
        return [
            Route(place.path, self.endpoint(getattr(self, name), own=place.own), methods=list(place.methods))
            for name, method in vars(type(self)).items()
            for place in getattr(method, "places", ())
        ]

    def endpoint(self, handler: Handler, *, own: bool) -> Callable[[Request], Awaitable[Response]]:
        """Return what answers a request with a page."""
        return self._site.own_page(handler) if own else self._site.page(handler)


class LanguagePages(Pages[S]):
    """The choice of a language."""

    @shows("/language.php")
    async def language(self, visit: Visit[Any, Any]) -> Response:
        """Set the language of the pages, and return to the previous page."""
        page = self._site.own_address(visit.fields.get("next", ""))
        return self._site.in_language(visit, visit.fields.get("to", ""), page)


class LogOutPages(Pages[S]):
    """The end of a session."""

    @shows("/logout.php", methods=POST)
    async def log_out(self, visit: VisitOfRows[Any, Any]) -> Response:
        """End the session, also for copies of its cookie."""
        await visit.form()
        key, end = visit.session.key, visit.ctx.clock() + MAX_AGE_SECONDS
        await visit.write(lambda tx: end_session(tx, key, expire_time=end))
        response = visit.go("")
        self._site.sessions.end(response)
        return response
