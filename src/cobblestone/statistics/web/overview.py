"""The first page with all projects, and how collecting goes."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from cobblestone.statistics.state import ProjectState
from cobblestone.statistics.store.queries import Published
from cobblestone.statistics.web.curves import curves, sparkline
from cobblestone.statistics.web.site import Site, Visit


class OverviewPages:
    """The site as a whole."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def routes(self) -> list[BaseRoute]:
        """Return the routes."""
        page = self._site.page
        return [
            Route("/", page(self.home)),
            Route("/collection", page(self.collection)),
            Route("/language.php", page(self.language)),
        ]

    async def home(self, visit: Visit) -> Response:
        """Projects with their computing power and its history."""
        if visit.ctx.published is None:
            return visit.show("home.html", ready=False)

        def read(published: Published) -> dict[str, Any]:
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

    async def collection(self, visit: Visit) -> Response:
        """How it goes with each project of the list: for the operator, and for who wonders about old figures."""
        current = visit.ctx.published
        joined = {} if current is None else current.by_name
        states = [
            (source, visit.ctx.folder.project(source.name).read_state(), joined.get(source.name))
            for source in visit.ctx.settings.project
        ]
        if visit.format != "html":
            columns = (
                "name",
                "problem",
                "tried",
                "collected",
                "exported",
                "users",
                "hosts",
                "teams",
                "refused",
            )
            rows = [
                (source.name, state.problem, state.tried, state.collected, state.exported, *_counts(state))
                for source, state, _project in states
            ]
            return visit.data("collection", columns, rows)
        return visit.show("collection.html", states=states)

    async def language(self, visit: Visit) -> Response:
        """Choose the language of the pages, and go back to where one was."""
        wish = visit.fields.get("to", "")
        return self._site.in_language(visit, wish, self._site.own_address(visit.fields.get("next", "")))


def _counts(state: ProjectState) -> tuple[int, int, int, int]:
    counts = state.counts
    return counts.users, counts.hosts, counts.teams, counts.refused
