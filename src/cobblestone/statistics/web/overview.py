"""The home page with all projects, rankings, search, and the collection status."""

from __future__ import annotations

from operator import attrgetter
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response

from cobblestone.service.languages import gettext as _
from cobblestone.service.pages.pages import Pages, shows
from cobblestone.service.pages.site import not_found
from cobblestone.statistics.store.queries import PAGE_SIZE, Entity, PublishedFile
from cobblestone.statistics.web.curves import curves, sparkline
from cobblestone.statistics.web.site import StatisticsSite, StatisticsVisit

_PLACE, COUNTED = ("rank_total", "rank_recent", "project"), ("users", "hosts", "teams", "refused")
COLUMNS = (*_PLACE, "key", "name", "country", "total_credit", "recent_credit", "n")
_counts = attrgetter(*COUNTED)
_OWN_VALUES = attrgetter("key", "name", "country", "total", "recent", "n")
MAX_SEARCH = 100


class RankingPages(Pages[StatisticsSite]):
    """Pages of rankings."""

    @shows("/ranking/{kind}")
    async def ranking(self, visit: StatisticsVisit) -> Response:
        """Show one page of a ranking, or entities found by name."""
        kind, page, wish = visit.kind, visit.page_number(), visit.fields.get("q", "").strip()[:MAX_SEARCH]
        order = visit.fields.get("by", "recent")
        if order not in ("recent", "total"):
            raise not_found(_("order %(name)s") % {"name": repr(order[:20])})

        def read(published: PublishedFile) -> tuple[list[Entity], bool, str, int]:
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


def as_row(visit: StatisticsVisit, entity: Entity) -> tuple[object, ...]:
    """Return an entity as values of `COLUMNS`."""
    current = visit.ctx.published
    project = current.projects[entity.project].name if entity.project and current else ""
    return entity.rank_total, entity.rank_recent, project, *_OWN_VALUES(entity)


class OverviewPages(Pages[StatisticsSite]):
    """Pages about the whole site."""

    @shows("/")
    async def home(self, visit: StatisticsVisit) -> Response:
        """Show projects with their computing power and its history."""
        if visit.ctx.published is None:
            return visit.show("home.html", ready=False)

        def read(published: PublishedFile) -> dict[str, Any]:
            until, step = published.until, published.step
            ranked = published.all_of("project")
            histories = published.project_histories
            by_key = {entity.key: published.by_name[entity.key] for entity in ranked}
            return {
                "time": published.time,
                "rows": [
                    (
                        entity,
                        project,
                        published.size("host", project.number).n,
                        published.size("team", project.number).n,
                        sparkline(histories.get(entity.key, ()), until=until),
                    )
                    for entity in ranked
                    for project in [by_key[entity.key]]
                ],
                "flops": sum(by_key[entity.key].flops(entity.recent) for entity in ranked),
                "sizes": {kind: published.size(kind) for kind in ("user", "host", "team", "country")},
                "plot": curves(
                    {by_key[e.key].title: histories.get(e.key, ()) for e in ranked}, until=until, step=step
                ),
            }

        found = await visit.read(read)
        if visit.format != "html":
            columns = ("name", "title", "total_credit", "recent_credit", "flops", "users", "hosts", "teams")
            rows = [
                (e.key, p.title, e.total, e.recent, p.flops(e.recent), e.n, n_hosts, n_teams)
                for e, p, n_hosts, n_teams, _line in found["rows"]
            ]
            return visit.data("projects", columns, rows)
        return visit.show("home.html", ready=True, **found)

    @shows("/collection")
    async def collection(self, visit: StatisticsVisit) -> Response:
        """Show the collection status of each project: for the operator, and for visitors who wonder about old figures."""
        current = visit.ctx.published
        joined = {} if current is None else current.by_name
        states = [
            (source, visit.ctx.folder.project(source.name).read_state(), joined.get(source.name))
            for source in visit.ctx.settings.project
        ]
        if visit.format != "html":
            columns = ("name", "problem", "tried", "collected", "exported", *COUNTED)
            rows = [
                (
                    source.name,
                    state.problem,
                    state.tried,
                    state.collected,
                    state.exported,
                    *_counts(state.counts),
                )
                for source, state, _project in states
            ]
            return visit.data("collection", columns, rows)
        return visit.show("collection.html", states=states)
