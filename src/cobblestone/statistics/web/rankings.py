"""Lists of everything with credit, by total or recent credit, of all projects or of one; search by name."""

from __future__ import annotations

from urllib.parse import urlencode

from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from cobblestone.service.languages import gettext as _
from cobblestone.service.pages.site import not_found
from cobblestone.statistics.store.queries import PAGE_SIZE, Entity, Published
from cobblestone.statistics.web.site import Site, Visit

COLUMNS = (
    "rank_total",
    "rank_recent",
    "project",
    "key",
    "name",
    "country",
    "total_credit",
    "recent_credit",
    "n",
)
MAX_SEARCH = 100


class RankingPages:
    """Lists."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        return [Route("/ranking/{kind}", self._site.page(self.ranking))]

    async def ranking(self, visit: Visit) -> Response:
        """One page of a list, or what is found by name."""
        kind, page, wish = visit.kind, visit.page_number(), visit.fields.get("q", "").strip()[:MAX_SEARCH]
        order = visit.fields.get("by", "recent")
        if order not in ("recent", "total"):
            raise not_found(_("order %(name)s") % {"name": repr(order[:20])})

        def read(published: Published) -> tuple[list[Entity], bool, str, int]:
            project = visit.project(published)
            number = 0 if project is None else project.number
            title = "" if project is None else project.title
            n = published.size(kind, number).n
            if wish:
                return published.search(kind, number, wish), False, title, n
            first = page * PAGE_SIZE + 1
            rows = published.ranking(kind, number, by_recent=order == "recent", first=first)
            return rows, n > (page + 1) * PAGE_SIZE, title, n

        rows, more, project_title, n = await visit.read(read)
        if visit.format != "html":
            return visit.data(kind, COLUMNS, [as_row(visit, entity) for entity in rows])
        project = visit.fields.get("project", "")
        return visit.show(
            "ranking.html",
            kind=kind,
            rows=rows,
            more=more,
            page=page,
            order=order,
            wish=wish,
            n=n,
            project=project,
            project_title=project_title,
            query=urlencode({"by": order, **({"project": project} if project else {})}),
        )


def as_row(visit: Visit, entity: Entity) -> tuple[object, ...]:
    """Return an entity as values of `COLUMNS`."""
    current = visit.ctx.published
    project = current.projects[entity.project].name if entity.project and current else ""
    return (
        entity.rank_total,
        entity.rank_recent,
        project,
        entity.key,
        entity.name,
        entity.country,
        entity.total,
        entity.recent,
        entity.n,
    )
