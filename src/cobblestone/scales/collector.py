"""Collects the exports of listed projects repeatedly: bounded, without redirects, and stored over a restart."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import msgspec
import structlog

from cobblestone import __version__
from cobblestone.domain.errors import CobblestoneError, ConfigError, RemoteProtocolError, words_of
from cobblestone.ops.environment import Clock, system_clock
from cobblestone.ops.files import write_durably
from cobblestone.policy.credit.cross_project import (
    MAX_AGE,
    MIN_PROJECTS,
    CollectedScales,
    Publication,
    publish,
)
from cobblestone.wire.project.scales import MAX_BYTES, parse_project_scales


class ListedProject(msgspec.Struct):
    """A listed project, and its status."""

    url: str
    last: CollectedScales | None = None  #: its last good export
    n_refused: int = 0  #: versions of that export that could not be believed
    problem: str = ""  #: of the last attempt; empty: it went well
    tried: float = 0.0  #: Unix seconds of the last attempt; 0: never


#: For the whole exchange: a server that sends a byte a minute does not hold us up.
TIMEOUT_SECONDS = 30.0
_HEADERS = {"User-Agent": f"cobblestone/{__version__} scales", "Accept-Encoding": "identity"}


class DocumentUnreadable(CobblestoneError):
    """A document could not be read from its address."""


def new_client(timeout_seconds: float) -> httpx.AsyncClient:
    """Return a client for `fetch`."""
    return httpx.AsyncClient(
        headers=_HEADERS,
        timeout=timeout_seconds,
        follow_redirects=False,
        limits=httpx.Limits(max_connections=32, max_keepalive_connections=0),
    )


def checked_url(text: str) -> str:
    """Return an address of http or https; that of a project (ending in a slash) becomes that of its export.

    Raises ConfigError for anything else.
    """
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        usable = False
    if not usable or any(character.isspace() for character in text):
        raise ConfigError(f"{text[:200]!r} is not an address; give one such as https://example.org/project/")
    return text + "scales.json" if text.endswith("/") else text


async def fetch(client: httpx.AsyncClient, url: str, *, timeout_seconds: float) -> bytes:
    """Return the body at an address.  Raises DocumentUnreadable: unreachable, too slow, too large, or not answered with 200."""
    try:
        async with asyncio.timeout(timeout_seconds), client.stream("GET", url) as answer:
            if answer.is_redirect:
                target = answer.headers.get("location", "")[:200]
                raise DocumentUnreadable(f"{url} has moved to {target!r}; put that address in the list")
            if answer.status_code != 200:
                raise DocumentUnreadable(f"{url} answered with status {answer.status_code}")
            if answer.headers.get("content-encoding", "identity") != "identity":
                raise DocumentUnreadable(f"{url} answered with a compressed body, which was not requested")
            body = bytearray()
            async for piece in answer.aiter_raw():
                body += piece
                if len(body) > MAX_BYTES:
                    raise DocumentUnreadable(f"{url} sends more than {MAX_BYTES} bytes")
            return bytes(body)
    except TimeoutError as error:
        raise DocumentUnreadable(f"{url} did not answer within {timeout_seconds:g} s") from error
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError, ExceptionGroup) as error:
        raise DocumentUnreadable(f"{url} cannot be read: {words_of(error)}") from error


async def _fetch_once(url: str) -> bytes:
    async with new_client(TIMEOUT_SECONDS) as client:
        return await fetch(client, url, timeout_seconds=TIMEOUT_SECONDS)


def read_document(place: str) -> bytes:
    """Return the document at an address or in a file.  Raises DocumentUnreadable, ConfigError."""
    if "://" in place:
        return asyncio.run(_fetch_once(checked_url(place)))
    try:
        with Path(place).open("rb") as handle:
            return handle.read(MAX_BYTES + 1)
    except OSError as error:
        raise DocumentUnreadable(f"{place} cannot be read: {error.strerror}") from error


FORMAT = 1
MAX_STATE_BYTES = 1_000_000_000


class ScalesFile(msgspec.Struct, frozen=True):
    """The whole file."""

    format: int
    sources: Sequence[ListedProject]


def write_state(path: Path, sources: Sequence[ListedProject]) -> None:
    """Store the state.  Raises OSError."""
    write_durably(path, msgspec.json.encode(ScalesFile(FORMAT, sources)))


def read_state(path: Path) -> dict[str, ListedProject]:
    """Return the stored projects by address; none without a file.

    Raises:
        ConfigError: the file cannot be read, or is none of this service's.
    """
    if not path.exists():
        return {}
    try:
        if path.stat().st_size > MAX_STATE_BYTES:
            raise ValueError(f"longer than {MAX_STATE_BYTES} bytes")
        state = msgspec.json.decode(path.read_bytes(), type=ScalesFile)
        if state.format != FORMAT:
            raise ValueError(f"format {state.format}, not {FORMAT}")
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        raise ConfigError(
            f"{path} is not a state file of this service ({error}). Give another --state, or remove it to start again."
        ) from error
    return {each.url: each for each in state.sources}


log = structlog.get_logger(__name__)

MAX_SOURCES = 2_000
MAX_LIST_BYTES = 1_000_000
#: Exports that are read at the same time.
AT_ONCE = 16


def read_sources(places: Iterable[str]) -> list[str]:
    """Return addresses of exports, each once, from addresses and from files with one address per line (``#``: comment).

    Raises ConfigError: a file cannot be read, an address is none, or there are none or too many.
    """
    found: dict[str, None] = {}
    for place in places:
        for text in [place] if "://" in place else _lines(Path(place)):
            found[checked_url(text)] = None
    if not found:
        raise ConfigError("There are no projects to collect from: give URLs, or files with one per line.")
    if len(found) > MAX_SOURCES:
        raise ConfigError(f"{len(found)} projects are too many: at most {MAX_SOURCES}.")
    return list(found)


def _lines(path: Path) -> list[str]:
    try:
        with path.open("rb") as handle:
            text = handle.read(MAX_LIST_BYTES).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{path} cannot be read: {error}. Give URLs, or a file with one per line."
        ) from error
    cut = (line.partition("#")[0].strip() for line in text.splitlines())
    return [line for line in cut if line]


class ScalesCollector:
    """Keeps the last reports of the listed projects, and the resulting scales."""

    def __init__(
        self,
        urls: Iterable[str],
        *,
        clock: Clock = system_clock,
        min_projects: int = MIN_PROJECTS,
        timeout_seconds: float = TIMEOUT_SECONDS,
        state: Path | None = None,
    ) -> None:
        """``state``: a file with the projects' reports; raises ConfigError if it contains something else."""
        known = {} if state is None else read_state(state)
        self.sources = [known.get(url) or ListedProject(url) for url in urls]
        self._clock = clock
        self._min_projects = min_projects
        self._timeout = timeout_seconds
        self._state = state
        self._publication = self._publish() if known else Publication()

    async def collect(self) -> None:
        """Ask every project once.  No project's answer, or lack of one, delays the others."""
        slots = asyncio.Semaphore(AT_ONCE)
        async with new_client(self._timeout) as client, asyncio.TaskGroup() as group:
            for source in self.sources:
                group.create_task(self._ask(client, source, slots))
        await asyncio.to_thread(self._keep)
        self._publication = await asyncio.to_thread(self._publish)
        n_failed = sum(bool(source.problem) for source in self.sources)
        log.info("scales_collected", projects=len(self.sources), failed=n_failed)

    async def _ask(self, client: httpx.AsyncClient, source: ListedProject, slots: asyncio.Semaphore) -> None:
        async with slots:
            source.tried = self._clock()
            try:
                body = await fetch(client, source.url, timeout_seconds=self._timeout)
                parsed = await asyncio.to_thread(parse_project_scales, body)
            except (DocumentUnreadable, RemoteProtocolError) as error:
                source.problem = str(error)
                log.warning("scales_source_failed", url=source.url, problem=source.problem)
                return
            except Exception:  # the last resort: a mistake of ours with one answer must not end the round
                source.problem = "its answer cannot be read because of a bug in this service; see its log"
                log.exception("scales_source_failed", url=source.url)
                return
            source.problem = ""
            source.n_refused = parsed.n_refused
            source.last = CollectedScales(scales=parsed.scales, time=self._clock())

    def in_use(self, source: ListedProject) -> bool:
        """Return whether a project's last export still counts."""
        return source.last is not None and self._clock() - source.last.time <= MAX_AGE

    def publication(self) -> Publication:
        """Return the result of the last round: computed once, since requests are cheap and projects may report much."""
        return self._publication

    def _keep(self) -> None:
        """Store the state before it is published, so that a restart never publishes anything older."""
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
        """Collect forever, with a pause of ``every_seconds`` between rounds."""
        while True:
            await self.collect()
            await asyncio.sleep(every_seconds)
