"""Collects the exports of a list of projects, again and again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

import httpx
import structlog

from cobblestone.domain.errors import ConfigError, RemoteProtocolError
from cobblestone.ops.clock import Clock, system_clock
from cobblestone.policy.credit.cross_project import (
    MAX_AGE,
    MIN_PROJECTS,
    CollectedScales,
    Publication,
    publish,
)
from cobblestone.scales.fetch import TIMEOUT_SECONDS, FetchFailed, checked_url, fetch, new_client
from cobblestone.scales.source import Source
from cobblestone.scales.state import read_state, write_state
from cobblestone.wire.scales import parse_project_scales

log = structlog.get_logger(__name__)

MAX_SOURCES = 2_000
MAX_LIST_BYTES = 1_000_000
AT_ONCE = 16
"""Exports that are read at the same time."""


def read_sources(places: Iterable[str]) -> list[str]:
    """Addresses of exports, each once, from addresses and from files with one address to a line (``#``: comment).

    Raises ConfigError: a file cannot be read, an address is none, or there are none or too many.
    """
    found: dict[str, None] = {}
    for place in places:
        for text in [place] if "://" in place else _lines(Path(place)):
            found[checked_url(text)] = None
    if not found:
        raise ConfigError(
            "There are no projects to collect from: give addresses, or files with one to a line."
        )
    if len(found) > MAX_SOURCES:
        raise ConfigError(f"{len(found)} projects are too many: at most {MAX_SOURCES}.")
    return list(found)


def _lines(path: Path) -> list[str]:
    try:
        with path.open("rb") as handle:
            text = handle.read(MAX_LIST_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path} cannot be read: {error}. Give addresses, or a file with one to a line."
        ) from error
    cut = (line.partition("#")[0].strip() for line in text.splitlines())
    return [line for line in cut if line]


class Collector:
    """Knows what the projects of a list said last, and what follows from it."""

    def __init__(
        self,
        urls: Iterable[str],
        *,
        clock: Clock = system_clock,
        min_projects: int = MIN_PROJECTS,
        timeout_seconds: float = TIMEOUT_SECONDS,
        state: Path | None = None,
    ) -> None:
        """``state``: a file that keeps what projects said; raises ConfigError when it holds something else."""
        self.sources = [Source(url) for url in urls]
        self._clock = clock
        self._min_projects = min_projects
        self._timeout = timeout_seconds
        self._state = state
        self._publication = Publication()
        if state is not None and read_state(state, self.sources):
            self._publication = self._publish()

    async def collect(self) -> None:
        """Ask every project once.  Whatever a project answers, or does not, the others are not held up by it."""
        slots = asyncio.Semaphore(AT_ONCE)
        async with new_client(self._timeout) as client, asyncio.TaskGroup() as group:
            for source in self.sources:
                group.create_task(self._ask(client, source, slots))
        await asyncio.to_thread(self._keep)
        self._publication = await asyncio.to_thread(self._publish)
        n_failed = sum(bool(source.problem) for source in self.sources)
        log.info("scales_collected", projects=len(self.sources), failed=n_failed)

    async def _ask(self, client: httpx.AsyncClient, source: Source, slots: asyncio.Semaphore) -> None:
        async with slots:
            source.tried = self._clock()
            try:
                body = await fetch(client, source.url, timeout_seconds=self._timeout)
                parsed = await asyncio.to_thread(parse_project_scales, body)
            except (FetchFailed, RemoteProtocolError) as error:
                source.problem = str(error)
                log.warning("scales_source_failed", url=source.url, problem=source.problem)
                return
            except Exception:  # the last resort: a mistake of ours with one answer must not end the round
                source.problem = "its answer cannot be read by a mistake of this service; see its log"
                log.exception("scales_source_failed", url=source.url)
                return
            source.problem = ""
            source.n_refused = parsed.n_refused
            source.last = CollectedScales(scales=parsed.scales, time=self._clock())

    def in_use(self, source: Source) -> bool:
        """Whether a project's last export still counts."""
        return source.last is not None and self._clock() - source.last.time <= MAX_AGE

    def publication(self) -> Publication:
        """Return what followed from the last round: computed once, for asking is cheap and projects may say much."""
        return self._publication

    def _keep(self) -> None:
        """Write down what is known, before it is published: so a restart never publishes anything older."""
        if self._state is None:
            return
        try:
            write_state(self._state, self.sources)
        except OSError as error:  # the disk is full: better old figures after a restart than none now
            log.error("scales_state_failed", path=str(self._state), problem=str(error))

    def _publish(self) -> Publication:
        collected = [source.last for source in self.sources if source.last is not None]
        return publish(collected, now=self._clock(), min_projects=self._min_projects)

    async def run(self, every_seconds: float) -> None:
        """Collect for ever, with a pause of ``every_seconds`` between rounds."""
        while True:
            await self.collect()
            await asyncio.sleep(every_seconds)
