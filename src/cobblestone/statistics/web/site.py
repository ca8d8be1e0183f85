"""An open statistics site, and common parts of all its pages."""

from __future__ import annotations

import asyncio
import contextlib
import csv
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from cobblestone.domain.people import User
from cobblestone.service.context import ProcessContext
from cobblestone.service.languages import N_
from cobblestone.service.languages import gettext as _
from cobblestone.service.pages import site as pages
from cobblestone.service.pages.site import PageError, not_found
from cobblestone.statistics.folder import SiteFolder, StatisticsSettings
from cobblestone.statistics.store.build import published
from cobblestone.statistics.store.queries import Entity, OtherFormat, PublishedFile, ShownProject

T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class StatisticsContext(ProcessContext):
    """An open site."""

    folder: SiteFolder
    settings: StatisticsSettings
    published: PublishedFile | None = None  #: what pages read; None: nothing was collected yet

    def open_newest(self) -> None:
        """Use the newest file from now on, unless another version made it.  Current readers keep the previous one open."""
        path = published(self.folder)
        if path is not None and (self.published is None or self.published.path != path):
            with contextlib.suppress(OtherFormat):
                self.published = PublishedFile(self.folder, path, step=self.settings.collect.step_seconds)

    async def read(self, question: Callable[[PublishedFile], T]) -> T | None:
        """Return the result of a query; None if there is no data yet."""
        current = self.published
        return None if current is None else await asyncio.to_thread(question, current)


#: What there are lists of.
KINDS = {
    "user": N_("Volunteers"),
    "team": N_("Teams"),
    "host": N_("Computers"),
    "country": N_("Countries"),
    "system": N_("Operating systems"),
    "processor": N_("Processors"),
    "gpu": N_("GPUs"),
    "project": N_("Projects"),
}
_KEY = re.compile(r"[a-z0-9_-]{1,80}")


async def _nobody(id_: int, key: str) -> User | None:
    return None


class StatisticsSite(pages.Site[User, "StatisticsVisit"]):
    """Renders the pages; there is no log-in."""

    max_page = 2_000_000
    own_addresses = re.compile(r"(?!/)[a-z0-9_./-]{0,200}(\?[A-Za-z0-9_=&%+.-]{0,200})?")

    def __init__(self, ctx: StatisticsContext) -> None:
        self.ctx = ctx
        super().__init__(
            ctx,
            package="cobblestone.statistics.web",
            find_account=_nobody,
            values={"site_name": ctx.settings.site.name, "kinds": KINDS, "address": self._address},
        )

    def visit(self, request: Request) -> StatisticsVisit:
        """Start a visit."""
        return StatisticsVisit(self, request)

    def _address(self, entity: Entity) -> str:
        """Return the address of an entity's page, relative to the site."""
        current = self.ctx.published
        where = f"?project={current.projects[entity.project].name}" if entity.project and current else ""
        return f"{self.base}{entity.kind}/{entity.key}{where}"


class StatisticsVisit(pages.Visit[User, StatisticsSite]):
    """One request for a page of the site."""

    def __init__(self, site: StatisticsSite, request: Request) -> None:
        super().__init__(site, request)
        self.ctx = site.ctx

    @property
    def kind(self) -> str:
        """Return the requested kind of entities.  Raises PageError if it is unknown."""
        kind = self.request.path_params["kind"]
        if kind not in KINDS:
            raise not_found(repr(kind[:20]))
        return kind

    @property
    def format(self) -> str:
        """Return the requested format: html, json or csv."""
        wish = self.fields.get("format", "html")
        if wish not in ("html", "json", "csv"):
            raise not_found(repr(wish[:20]))
        return wish

    def project(self, published: PublishedFile) -> ShownProject | None:
        """Return the project of the page; None: all of them."""
        name = self.fields.get("project", "")
        if not name:
            return None
        found = published.by_name.get(name)
        if found is None:
            raise not_found(_("project %(name)s") % {"name": repr(name[:40])})
        return found

    def entity(self, published: PublishedFile, key: str) -> Entity:
        """Return the entity of a key.  Raises PageError."""
        project = self.project(published)
        number = 0 if project is None else project.number
        found = published.find(self.kind, number, key) if _KEY.fullmatch(key) else None
        if found is None:
            raise not_found(repr(key[:40]))
        return found

    async def read(self, question: Callable[[PublishedFile], T]) -> T:
        """Return the result of a query.  Raises PageError if nothing was collected yet."""
        if self.ctx.published is None:
            raise PageError(
                503, _("Not yet"), _("No figures have come in from any project yet. Try again later.")
            )
        answer = await self.ctx.read(question)
        assert answer is not None  # noqa: S101  # questions give something once there is something to ask
        return answer

    def data(self, name: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Response:
        """Return rows as JSON or CSV."""
        headers = {"Access-Control-Allow-Origin": "*", "X-Content-Type-Options": "nosniff"}
        if self.format == "json":
            body = msgspec.json.encode([dict(zip(columns, row, strict=True)) for row in rows])
            return Response(body, media_type="application/json", headers=headers)
        text = io.StringIO()
        writer = csv.writer(text)
        writer.writerow(columns)
        writer.writerows([[_harmless(value) for value in row] for row in rows])
        headers["Content-Disposition"] = f'attachment; filename="{name}.csv"'
        return Response(text.getvalue(), media_type="text/csv", headers=headers)


def _harmless(value: object) -> object:
    """Return a value that no spreadsheet interprets as a formula."""
    return "'" + value if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t") else value
