"""What every part of the statistics site shares."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from cobblestone.service.context import ProcessContext
from cobblestone.statistics.settings import StatisticsSettings
from cobblestone.statistics.state import SiteFolder
from cobblestone.statistics.store.build import published
from cobblestone.statistics.store.queries import OtherFormat, Published

T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class StatisticsContext(ProcessContext):
    """An open site."""

    folder: SiteFolder
    settings: StatisticsSettings
    published: Published | None = None  #: what pages read; None: nothing was collected yet

    def open_newest(self) -> None:
        """Read the newest file from now on, unless another version made it.  Who still reads the one before keeps it open."""
        path = published(self.folder)
        if path is not None and (self.published is None or self.published.path != path):
            with contextlib.suppress(OtherFormat):
                self.published = Published(self.folder, path, step=self.settings.collect.step_seconds)

    async def read(self, question: Callable[[Published], T]) -> T | None:
        """Return what a question gives; None if there is nothing to ask yet."""
        current = self.published
        return None if current is None else await asyncio.to_thread(question, current)
