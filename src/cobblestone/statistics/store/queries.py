"""Queries of the pages: each reads a few small parts of sorted tables."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby, starmap, takewhile
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any

import duckdb

from cobblestone.domain.errors import CobblestoneError
from cobblestone.statistics.folder import SiteFolder
from cobblestone.statistics.store import build, history
from cobblestone.statistics.store.engine import parquet

PAGE_SIZE = 50
MOST_CHILDREN = 50
MOST_MEMBERS = 200
MOST_BADGES = 500


@dataclass(frozen=True, slots=True)
class Entity:
    """Something with credit: see `store.build`."""

    kind: str
    project: int  #: its number; 0: of all projects
    key: str
    name: str
    country: str
    total: float
    recent: float  #: at the time of the file, per day
    n: int  #: accounts, computers or members that it stands for; cores of a computer
    parent: str | None  #: key of a computer's owner or an account's team
    detail: str
    created: float | None  #: Unix seconds
    whole: str | None  #: key of what it belongs to over all projects
    since: float  #: the day from which it counts there, since 1970; 0: always
    rank_total: int
    rank_recent: int


@dataclass(frozen=True, slots=True)
class ShownProject:
    """A displayed project."""

    number: int
    name: str
    title: str
    url: str
    joins: str
    credit_per_gflops_day: float
    exported: float
    joined: int  #: accounts whose cross-project id was believed
    not_joined: int  #: accounts whose cross-project id was not

    def flops(self, recent: float) -> float:
        """Return the speed that corresponds to a recent average credit."""
        return recent / self.credit_per_gflops_day * 1e9


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a list of one kind."""

    n: int
    total: float
    recent: float


@dataclass(frozen=True, slots=True)
class AwardedBadge:
    """A badge that a project gave to a user or team."""

    project: int
    title: str
    image: str  #: address at the project's own server, or empty
    since: float  #: Unix seconds


@dataclass(frozen=True, slots=True)
class DayFigures:
    """The figures of an entity at the end of a day on which it changed."""

    day: float  #: since 1970; with a fraction where the site keeps shorter steps
    total: float
    recent: float
    #: of the total, what was done before it counted; None: it counted before this day
    brought: float | None = None


def added_up(
    histories: Iterable[Sequence[DayFigures]], *, begin_with_credit: bool = True
) -> list[DayFigures]:
    """Return the sum of several histories, oldest day first: each counts with its last value.

    What a history has on its first day was done before: the site did not know it.  So it counts from the beginning, or work of
    years would be that day's; with ``begin_with_credit`` False it counts from that day.  What is brought along counts from the
    day on which it is, and is no work of that day either.
    """
    known = [days for days in histories if days]
    changes = sorted(
        ((each.day, place, each) for place, days in enumerate(known) for each in days), key=itemgetter(0)
    )
    last: dict[int, DayFigures] = {}
    if begin_with_credit:
        last = {
            place: DayFigures(days[0].day, days[0].total, 0.0)
            for place, days in enumerate(known)
            if days[0].brought is None
        }
    found: list[DayFigures] = []
    for day, of_day in groupby(changes, key=itemgetter(0)):
        new = {place: each for _day, place, each in of_day}
        last.update(new)
        totals, recents = (sum(map(attrgetter(name), last.values())) for name in ("total", "recent"))
        brought = [each.brought for each in new.values() if each.brought is not None]
        found.append(DayFigures(day, totals, recents, sum(brought) if brought else None))
    return found


def counted(days: Sequence[DayFigures], since: float) -> list[DayFigures]:
    """Return the part of a history from a day on; what was done before is brought along."""
    place = bisect_left(days, since, key=attrgetter("day"))
    if not since or not days:
        return list(days)
    before = days[max(place, 1) - 1]
    first = days[place] if days[place:] and days[place].day == since else replace(before, day=since)
    return [replace(first, brought=before.total), *(each for each in days[place:] if each.day > since)]


def _until(days: Iterable[DayFigures], day: float) -> list[DayFigures]:
    """Return the history of an account until it was merged into another one: zero from that day on."""
    return [*takewhile(lambda each: each.day < day, days), DayFigures(day, 0.0, 0.0)]


class OtherFormat(CobblestoneError):
    """A file for pages was made by another version; a new one is made at the start of the site."""


class PublishedFile:
    """The newest file for pages, with the histories beside it.  Safe to use from several threads."""

    def __init__(self, folder: SiteFolder, path: Path, *, step: float = history.DAY_SECONDS) -> None:
        """Open the file.  Raises OtherFormat, duckdb.Error."""
        self.path = path
        self._folder = folder
        self._db = duckdb.connect(path, read_only=True, config={"threads": 2, "memory_limit": "500MB"})
        self._db.execute("SET parquet_metadata_cache = true")
        ((format_, self.time),) = self._db.execute("SELECT format, time FROM site").fetchall()
        if format_ != build.FORMAT:
            self.close()
            raise OtherFormat(f"{path.name} has format {format_}, this program writes {build.FORMAT}")
        self.step = step / history.DAY_SECONDS  #: days from one figure of history to the next
        self.until = history.day_of(self.time, step)  #: the last day, since 1970
        self.projects: dict[int, ShownProject] = {
            row[0]: ShownProject(*row)
            for row in self._db.execute(
                "SELECT project, name, title, url, joins, credit_per_gflops_day, exported, coalesce(joined, 0),"
                " coalesce(not_joined, 0) FROM project LEFT JOIN joining USING (project) ORDER BY project"
            ).fetchall()
        }
        self.by_name = {project.name: project for project in self.projects.values()}
        self._sizes = {
            (kind, project): Size(n, total, recent)
            for kind, project, n, total, recent in self._db.execute(
                "SELECT kind, project, n, total, recent FROM size"
            ).fetchall()
        }

        self._merged: dict[tuple[int, int], list[tuple[int, float, float]]] = {}
        """By project and heir: id, day on which it was merged, day since which it was the same person's."""
        for project, id_, heir, day, claimed in self._rows("FROM merged"):
            self._merged.setdefault((project, heir), []).append((id_, day, claimed))
        self.project_histories = self._read_project_histories()  #: by name

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    @contextmanager
    def _cursor(self) -> Generator[duckdb.DuckDBPyConnection]:
        cursor = self._db.cursor()
        try:
            yield cursor
        finally:
            cursor.close()

    def _rows(self, query: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with self._cursor() as cursor:
            return cursor.execute(query, values).fetchall()

    def size(self, kind: str, project: int = 0) -> Size:
        """Return the number of entities of a kind."""
        return self._sizes.get((kind, project), Size(0, 0.0, 0.0))

    def _entities(
        self, condition: str, values: Sequence[object], *, query: str = "FROM entity"
    ) -> list[Entity]:
        return [Entity(*row) for row in self._rows(f"{query} WHERE {condition}", values)]

    def _at(self, kind: str, project: int, ranks: Sequence[int]) -> list[Entity]:
        """Return the entities at some ranks by total credit, in the order of ``ranks``."""
        if not ranks:
            return []
        marks = ", ".join(str(int(rank)) for rank in ranks)
        found = self._entities(
            f"kind = ? AND project = ? AND rank_total BETWEEN ? AND ? AND rank_total IN ({marks})",
            [kind, project, min(ranks), max(ranks)],
        )
        return sorted(found, key=lambda each: ranks.index(each.rank_total))

    def ranking(
        self, kind: str, project: int, *, by_recent: bool, first: int, n: int = PAGE_SIZE
    ) -> list[Entity]:
        """Return a part of a list, from rank ``first`` (1 is the best)."""
        if not by_recent:
            return self._entities(
                "kind = ? AND project = ? AND rank_total BETWEEN ? AND ? ORDER BY rank_total",
                [kind, project, first, first + n - 1],
            )
        ranks = self._rows(
            "SELECT rank_total FROM by_recent"
            " WHERE kind = ? AND project = ? AND rank_recent BETWEEN ? AND ? ORDER BY rank_recent",
            [kind, project, first, first + n - 1],
        )
        return self._at(kind, project, [rank for (rank,) in ranks])

    def all_of(self, kind: str) -> list[Entity]:
        """Return all of a kind over all projects, most recent credit first: for kinds with few entities."""
        return self._entities("kind = ? AND project = 0 ORDER BY rank_recent", [kind])

    def search(self, kind: str, project: int, begin: str, *, n: int = PAGE_SIZE) -> list[Entity]:
        """Return entities whose names start like this, the largest among the first matches first."""
        folded = " ".join(begin.lower().split())
        ranks = self._rows(
            "SELECT rank_total FROM by_name WHERE kind = ? AND project = ? AND folded >= ? AND folded < ? LIMIT ?",
            [kind, project, folded, folded + "\U0010ffff", n],
        )
        return self._at(kind, project, sorted(rank for (rank,) in ranks))

    def find(self, kind: str, project: int, key: str) -> Entity | None:
        """Return one entity."""
        ranks = self._rows(
            "SELECT rank_total FROM by_key WHERE kind = ? AND project = ? AND key = ?", [kind, project, key]
        )
        found = self._at(kind, project, [rank for (rank,) in ranks])
        return found[0] if found else None

    def members(self, entity: Entity) -> list[Entity]:
        """Return an entity's accounts at projects, largest first; one of a project, or added up, has itself."""
        if entity.project or entity.kind in build.AGGREGATED:
            return [entity]
        condition = "kind = ? AND whole = ? ORDER BY total DESC LIMIT ?"
        return self._entities(condition, [entity.kind, entity.key, MOST_MEMBERS], query="FROM by_whole")

    def children(self, kind: str, entity: Entity, *, n: int = MOST_CHILDREN) -> list[Entity]:
        """Return the computers of a user, or the users of a team, largest first.

        Of a team over all projects: persons, with what they did for it, ranked within it.
        """
        if entity.kind == "team" and not entity.project:
            persons = (
                "SELECT 'user', 0, key, name, country, total, recent, n, NULL, '', created, NULL, 0, rank_total, rank_recent"
                " FROM member"
            )
            return self._entities("whole = ? ORDER BY rank_total LIMIT ?", [entity.key, n], query=persons)
        condition = "kind = ? AND project = ? AND parent = ? ORDER BY rank_total LIMIT ?"
        return self._entities(condition, [kind, entity.project, entity.key, n], query="FROM by_parent")

    def badges(self, entity: Entity) -> list[AwardedBadge]:
        """Return the badges of a user or team, at its project or all, in the order of projects, oldest first."""
        columns = "SELECT project, title, image, since FROM badge WHERE kind = ? AND whole = ?"
        order = f"ORDER BY project, since, title LIMIT {MOST_BADGES}"
        if not entity.project:
            rows = self._rows(f"{columns} {order}", [entity.kind, entity.key])
        else:
            values = [entity.kind, entity.whole, entity.project, entity.key]
            rows = self._rows(f"{columns} AND project = ? AND key = ? {order}", values)
        return [AwardedBadge(*row) for row in rows]

    def neighbours(self, entity: Entity, *, n: int = 3) -> list[Entity]:
        """Return the neighbours of an entity by total credit, with itself."""
        first = max(1, entity.rank_total - n)
        return self.ranking(
            entity.kind, entity.project, by_recent=False, first=first, n=entity.rank_total + n - first + 1
        )

    # -- history ---------------------------------------------------------------------------------------------

    def history(self, entity: Entity, *, as_member: bool = False) -> list[DayFigures]:
        """Return the days on which an entity of one project, or an aggregated one, changed, oldest first.

        What was merged into an account counts with it, until that day.  ``as_member``: only what counts to what it belongs to
        over all projects.
        """
        if entity.kind not in build.AGGREGATED:
            folder = self._folder.project(self.projects[entity.project].name).history(entity.kind)
            since = entity.since if as_member else 0.0

            def days(id_: int, claimed: float = 0.0) -> list[DayFigures]:
                found = list(starmap(DayFigures, history.days_of(folder, id_)))
                return counted(found, max(since, claimed if as_member else 0.0))

            own = days(int(entity.key))
            merged = self._merged.get((entity.project, int(entity.key)), ()) if entity.kind == "user" else ()
            histories = [own, *(_until(days(id_, claimed), day) for id_, day, claimed in merged)]
            return added_up(histories, begin_with_credit=False) if merged else own
        if not (paths := history.files(self._folder.history)):
            return []
        if entity.kind == "project":
            names = [""]
        elif entity.project:
            names = [self.projects[entity.project].name]
        else:
            names = [project.name for project in self.projects.values()]
        rows = self._rows(
            f"SELECT project, day, total, recent FROM {parquet(paths)} WHERE kind = ? AND key = ? AND project = ANY(?)"
            " ORDER BY project, day",
            [entity.kind, entity.key, names],
        )
        return added_up([DayFigures(*row[1:]) for row in of] for _, of in groupby(rows, key=itemgetter(0)))

    def _read_project_histories(self) -> dict[str, list[DayFigures]]:
        found: dict[str, list[DayFigures]] = {}
        if paths := history.files(self._folder.history):
            query = f"SELECT key, day, total, recent FROM {parquet(paths)} WHERE kind = 'project' ORDER BY key, day"
            for key, *figures in self._rows(query):
                found.setdefault(key, []).append(DayFigures(*figures))
        return found
