"""Collects the exports of all listed projects, from untrusted addresses; a failure of one does not affect the others."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping, Set
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import msgspec
import structlog
from anyio import BrokenWorkerProcess, to_process

from cobblestone import __version__
from cobblestone.domain.errors import CobblestoneError, words_of
from cobblestone.domain.exports import ExportedTable
from cobblestone.domain.values import form_of
from cobblestone.ops.aside import read_aside
from cobblestone.ops.environment import Clock
from cobblestone.ops.files import write_durably
from cobblestone.service.supervision import Errand, SideBySide
from cobblestone.statistics import folder as folders
from cobblestone.statistics.ingest import MAX_TABLES_BYTES, NEEDED, Ingested, ingest, part_name
from cobblestone.statistics.store.build import PublishedProject, build
from cobblestone.wire.project.statistics_import import COLLECTED, split_files

_HEADERS = {"User-Agent": f"cobblestone/{__version__} statistics", "Accept-Encoding": "identity"}
_MAX_HEADER = 200


class ExportUnreadable(CobblestoneError):
    """A file could not be downloaded."""


class Missing(ExportUnreadable):
    """The project has no such file."""


def new_client(settings: folders.CollectSection) -> httpx.AsyncClient:
    """Return a client for `fetch`."""
    return httpx.AsyncClient(headers=_HEADERS, timeout=settings.timeout_seconds, follow_redirects=False)


async def fetch(
    client: httpx.AsyncClient,
    url: str,
    target: Path,
    known: folders.FetchedFile | None,
    settings: folders.CollectSection,
    *,
    most_bytes: int,
) -> folders.FetchedFile | None:
    """Download a file to ``target`` if it differs from ``known``; return None if it is the same.

    What came of it before a connection broke is kept beside, and continued if the server still has the same file.

    Raises:
        ExportUnreadable: unreachable, too slow, too large, moved, or not answered with the file.
        Missing: there is none.
    """
    part, tag = target.with_name(target.name + ".part"), target.with_name(target.name + ".part-of")
    headers, begun = _wishes(target, part, tag, known)
    try:
        async with (
            asyncio.timeout(settings.max_seconds_per_file),
            client.stream("GET", url, headers=headers) as answer,
        ):
            if answer.status_code == 304:
                return None
            resumed = _check(answer, url, begun)
            came = folders.FetchedFile(
                etag=answer.headers.get("etag", "")[:_MAX_HEADER],
                last_modified=answer.headers.get("last-modified", "")[:_MAX_HEADER],
            )
            _note(tag, came)
            await _receive(answer, url, part, resumed=resumed, settings=settings, most_bytes=most_bytes)
    except TimeoutError as error:
        raise ExportUnreadable(f"{url} took longer than {settings.max_seconds_per_file:g} s") from error
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError, OSError, ExceptionGroup) as error:
        raise ExportUnreadable(f"{url} cannot be read: {words_of(error)}") from error
    part.replace(target)
    tag.unlink(missing_ok=True)
    return came


def _wishes(
    target: Path, part: Path, tag: Path, known: folders.FetchedFile | None
) -> tuple[dict[str, str], int]:
    """Return the request headers, for another file than the known one or the rest of one; and the number of its bytes here."""
    if known is not None and target.exists():
        wishes = {"If-None-Match": known.etag, "If-Modified-Since": known.last_modified}
        return {name: value for name, value in wishes.items() if value}, 0
    if part.exists() and tag.exists() and (begun := part.stat().st_size):
        return {"Range": f"bytes={begun}-", "If-Range": tag.read_text()}, begun
    return {}, 0


def _check(answer: httpx.Response, url: str, begun: int) -> bool:
    """Return whether the answer continues where the last one broke off.  Raises ExportUnreadable."""
    if answer.status_code in (404, 410):
        raise Missing(f"{url} does not exist")
    if answer.is_redirect:
        raise ExportUnreadable(
            f"{url} has moved to {answer.headers.get('location', '')[:_MAX_HEADER]!r}; put that address in the list"
        )
    if answer.status_code not in (200, 206):
        raise ExportUnreadable(f"{url} answered with status {answer.status_code}")
    if answer.headers.get("content-encoding", "identity") not in ("identity", "gzip", "x-gzip"):
        raise ExportUnreadable(f"{url} answered with a compressed body, which was not requested")
    resumed = answer.status_code == 206
    if resumed and not answer.headers.get("content-range", "").startswith(f"bytes {begun}-"):
        raise ExportUnreadable(f"{url} answered with another part of the file than requested")
    return resumed


def _note(tag: Path, came: folders.FetchedFile) -> None:
    """Record which file a part belongs to; without a reliable name it is not continued."""
    strong = came.etag if came.etag and not came.etag.startswith("W/") else ""
    if name := strong or came.last_modified:
        write_durably(tag, name.encode())
    else:
        tag.unlink(missing_ok=True)


async def _receive(
    answer: httpx.Response,
    url: str,
    part: Path,
    *,
    resumed: bool,
    settings: folders.CollectSection,
    most_bytes: int,
) -> None:
    with part.open("ab" if resumed else "wb") as file:
        began, before = time.monotonic(), file.tell()
        size = before
        said = answer.headers.get("content-length", "")
        too_large = said.isdecimal() and before + int(said[:20]) > most_bytes
        async for piece in answer.aiter_raw():
            size += len(piece)
            seconds = time.monotonic() - began
            if (
                seconds > settings.timeout_seconds
                and size - before < settings.least_bytes_per_second * seconds
            ):
                raise ExportUnreadable(
                    f"{url} is slower than {settings.least_bytes_per_second} bytes per second: others are waiting"
                )
            if too_large or size > most_bytes:
                file.truncate(0)
                raise ExportUnreadable(
                    f"{url} sends more than the {most_bytes} bytes that such a file may have"
                )
            file.write(piece)


log = structlog.get_logger(__name__)

SPECIFICATION = "db_dump.xml"
MOST_PARTS = 10_000
#: Tables with much text; a file of the others, which are numbers, may have a part of the bytes.
MANY_BYTES = (ExportedTable.USER, ExportedTable.HOST, ExportedTable.TEAM)
SMALLER = 10
#: After everything was published nothing is for so many times as long as it took: with many projects some are due at all hours.
REST = 10.0
#: Downloads at a time; so long results wait for those of others; and the errand that publishes, beside those to projects.
DOWNLOADS, PATIENCE_SECONDS, PUBLISHER = 4, 600.0, ""
#: Returns what a function gives.
Runner = Callable[[Callable[[], Any]], Awaitable[Any]]


class ExportCollector:
    """Downloads, reads and publishes exports."""

    def __init__(
        self,
        folder: folders.SiteFolder,
        settings: folders.StatisticsSettings,
        *,
        clock: Clock,
        run: Runner | None = None,
        connect: Callable[[folders.CollectSection], httpx.AsyncClient] = new_client,
    ) -> None:
        """``run`` does the work that needs memory and CPU; by default a separate process does."""
        self._run: Runner = run or run_apart
        self._connect = connect
        self._folder = folder
        self._settings = settings
        self._clock = clock
        self._build_needed, self._new_since = True, clock()
        self._built, self._rest = 0.0, 0.0  # when, Unix seconds; and so long nothing is published after it
        self._reading = asyncio.Lock()  # of memory and CPU for one export, or for publishing
        self._errands = SideBySide(self._due_errands, most=DOWNLOADS + 1)

    async def step(self) -> int:
        """Collect from the projects that are due, some at a time, and publish; return 0 if there is nothing to do.

        Results are published once each project that is due was tried, or after `PATIENCE_SECONDS`: one that is slow, or always
        due again, keeps back nothing.
        """
        self._reading = asyncio.Lock()
        return await self._errands.step()

    async def _due_errands(self, busy: Set[str]) -> dict[str, Errand]:
        now = self._clock()
        due = [source for source in sorted(self._settings.project, key=self._due) if self._due(source) <= now]
        waiting = [source for source in due if source.name not in busy]
        free = max(0, DOWNLOADS - len(busy - {PUBLISHER}))
        found: dict[str, Errand] = {each.name: partial(self.collect, each) for each in waiting[:free]}
        rests = 0 <= now - self._built < self._rest  # not where the clock was wrong
        more = (waiting or busy - {PUBLISHER}) and 0 <= now - self._new_since < PATIENCE_SECONDS
        if self._build_needed and not rests and not more and PUBLISHER not in busy:
            found = {PUBLISHER: self.publish, **found}
        return found

    async def pause(self) -> float:
        """Return the seconds until the next project is due."""
        now = self._clock()
        due = min(map(self._due, self._settings.project), default=now + 3600.0)
        return max(1.0, (min(due, self._built + self._rest) if self._build_needed else due) - now)

    def _due(self, source: folders.CollectedSource) -> float:
        state = self._folder.project(source.name).read_state()
        settings = self._settings.collect
        every = settings.every_seconds
        if state.tried > self._clock():  # the clock was wrong then
            return self._clock()
        return state.tried + (min(every, settings.retry_seconds) if state.problem else every)

    async def collect(self, source: folders.CollectedSource) -> None:
        """Download the export of a project and read it.  A failure is recorded; earlier data stays."""
        project = self._folder.project(source.name)
        before = project.read_state()
        state = msgspec.structs.replace(before, tried=self._clock(), problem="")
        try:
            async with asyncio.timeout(self._settings.collect.max_seconds_per_project):
                files = await self._fetch(source, before)
            if files is None:
                project.write_state(state)
                return
            async with self._reading:
                await self._read(source, msgspec.structs.replace(state, files=files))
            return
        except CobblestoneError as error:
            problem = str(error)
        except TimeoutError:
            seconds = self._settings.collect.max_seconds_per_project
            problem = f"all files together took longer than {seconds:g} s"
        except (OSError, BrokenWorkerProcess) as error:
            problem = f"the export could not be read here: {words_of(error)}"
        except Exception as error:
            # the last resort: a mistake of ours with one project must not end the round
            log.exception("statistics_project_failed", project=source.name)
            problem = f"the export could not be read because of a bug in this service: {type(error).__name__}"
        log.warning("statistics_project_failed", project=source.name, problem=problem)
        # What came is fetched again as a whole: half of it may be of another day.
        project.write_state(msgspec.structs.replace(state, tried=self._clock(), problem=problem, files={}))

    async def _read(self, source: folders.CollectedSource, state: folders.CollectedProject) -> None:
        """Read an export that came, and make it count; ``state``: of the one before, with the files of this."""
        project, how = self._folder.project(source.name), self._settings.collect
        limits = {"max_rows": how.max_rows, "step": how.step_seconds}
        read = partial(ingest, project, state.generation, now=state.tried, url=source.url, **limits)
        came: Ingested = await self._run(read)
        project.write_state(form_of(folders.CollectedProject, came, state, collected=state.tried))
        _remove_others(project.generations, came.generation)
        if not self._build_needed:
            self._build_needed, self._new_since = True, self._clock()
        log.info("statistics_collected", project=source.name, **msgspec.structs.asdict(came.counts))

    async def _fetch(
        self, source: folders.CollectedSource, before: folders.CollectedProject
    ) -> dict[str, folders.FetchedFile] | None:
        """Download the files of an export; return None if they are unchanged.  Raises ExportUnreadable."""
        incoming = self._folder.project(source.name).incoming
        incoming.mkdir(parents=True, exist_ok=True)
        async with self._connect(self._settings.collect) as client:
            errand = _Errand(client, self._settings.collect, source, incoming, before)
            await errand.bring("tables.xml", most_bytes=MAX_TABLES_BYTES)
            if before.generation and not errand.is_new:
                return None
            for table in COLLECTED:
                await errand.bring_table(table)
        return errand.files

    async def publish(self) -> Path | None:
        """Make the file for pages; return None if nothing was collected yet."""
        async with self._reading:
            return await self._publish()

    async def _publish(self) -> Path | None:
        members = [
            PublishedProject(
                number=number, source=source, rows=project.rows(state.generation), exported=state.exported
            )
            for number, source in enumerate(self._settings.project, 1)
            if (state := (project := self._folder.project(source.name)).read_state()).generation
        ]
        if not members:
            self._build_needed = False
            return None
        step, began = self._settings.collect.step_seconds, self._clock()
        path: Path = await self._run(partial(build, self._folder, members, now=self._clock(), step=step))
        self._build_needed, self._built = False, self._clock()
        self._rest = min(REST * (self._built - began), self._settings.collect.every_seconds)
        log.info("statistics_published", projects=len(members))
        return path


@dataclass(slots=True)
class _Errand:
    """Downloads the files of one export."""

    _client: httpx.AsyncClient
    _settings: folders.CollectSection
    _source: folders.CollectedSource
    _incoming: Path
    _before: folders.CollectedProject
    _split: Mapping[str, str] | None = None
    files: dict[str, folders.FetchedFile] = field(default_factory=dict[str, folders.FetchedFile])
    is_new: bool = False  #: some file is another one than before

    async def bring(self, name: str, local: str = "", *, most_bytes: int) -> None:
        """Download a file, unless it is here.  Raises ExportUnreadable."""
        local = local or name
        known = self._before.files.get(local)
        url = self._source.url + name
        came = await fetch(
            self._client, url, self._incoming / local, known, self._settings, most_bytes=most_bytes
        )
        self.is_new = self.is_new or came is not None
        self.files[local] = came or known or folders.FetchedFile()

    async def bring_table(self, table: ExportedTable) -> None:
        """Download the file of a table, or its parts if the project exports several.  Raises ExportUnreadable."""
        name = f"{table}.gz"
        most = self._settings.max_file_bytes // (1 if table in MANY_BYTES else SMALLER)
        await asyncio.sleep(self._settings.pause_seconds)
        try:
            await self.bring(name, most_bytes=most)
        except Missing:
            (self._incoming / name).unlink(missing_ok=True)
            n_parts = await self._bring_parts(table, most)
            if table in NEEDED and not n_parts:
                raise
        else:
            n_parts = 0
        for left in sorted(self._incoming.glob(f"{table}_[0-9]*"))[n_parts:]:
            left.unlink()

    async def _bring_parts(self, table: ExportedTable, most_bytes: int) -> int:
        """Download the parts of a table until there is none; return how many.  ``most_bytes``: of all together."""
        if self._split is None:
            self._split = {}
            with contextlib.suppress(Missing):
                await self.bring(SPECIFICATION, most_bytes=MAX_TABLES_BYTES)
                specification = (self._incoming / SPECIFICATION).read_bytes()
                self._split = await read_aside(split_files, specification)
        name = self._split.get(table, "")
        for number in range(MOST_PARTS if name else 0):
            await asyncio.sleep(self._settings.pause_seconds)
            local = part_name(table, number)
            try:
                await self.bring(f"{name}_{number}.gz", local, most_bytes=most_bytes)
            except Missing:
                return number
            most_bytes -= (self._incoming / local).stat().st_size
        return MOST_PARTS if name else 0


async def run_apart(work: Callable[[], Any]) -> Any:
    """Return the result of a function run in another process, which is killed when the result is no longer awaited."""
    return await to_process.run_sync(work, cancellable=True)


def _remove_others(rows: Path, generation: str) -> None:
    for path in rows.iterdir():
        if path.name != generation:
            shutil.rmtree(path, ignore_errors=True)
