"""The state of the whole project, counted at most every few seconds for all who ask."""

from __future__ import annotations

from dataclasses import dataclass

from cobblestone.domain.statistics import SECONDS_PER_DAY
from cobblestone.server.core.context import ServerContext
from cobblestone.service.cached_read import CachedRead
from cobblestone.store.engine.database import Database
from cobblestone.store.operation.figures import EndingRow, Endings, ProjectFigures, endings, project_figures


@dataclass(frozen=True, slots=True)
class ProjectState:
    """Counts, and how the results of a day ended."""

    figures: ProjectFigures
    rows: list[EndingRow]  #: by host and app version
    endings: Endings  #: all together


class StateReader(CachedRead[ProjectState]):
    """Reads the state."""

    def __init__(self, ctx: ServerContext) -> None:
        def read(db: Database) -> ProjectState:
            now = ctx.clock()
            rows = endings(db, since=now - SECONDS_PER_DAY)
            return ProjectState(
                project_figures(db, now=now), rows, sum((row.endings for row in rows), Endings())
            )

        super().__init__(ctx, read)
