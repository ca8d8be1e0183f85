"""HTTP requests to projects besides file transfers: front page, configuration, accounts, scheduler, feeds."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cobblestone.client.projects.connections import Connections, read_body, send
from cobblestone.client.records.journal import Journal
from cobblestone.client.records.state import ClientDatabase
from cobblestone.domain.errors import CobblestoneError, RemoteProtocolError, words_of
from cobblestone.domain.values import DAY
from cobblestone.ops.aside import read_aside
from cobblestone.policy.client.host.transfers import items_to_show, next_poll
from cobblestone.wire.project.pages import (
    MAX_FEED_BYTES,
    ProjectConfig,
    RssItem,
    canonical_master_url,
    is_cobblestone,
    parse_account_out,
    parse_project_config,
    project_config_url,
    read_rss,
    scheduler_urls,
)
from cobblestone.wire.scheduler.reply import ReadReply, parse_scheduler_reply
from cobblestone.wire.text.tree import MAX_BYTES

if TYPE_CHECKING:
    import httpx


#: For a whole exchange.
MOST_SECONDS = 600.0
PAGE_BYTES = 4 * 1024 * 1024


class ProjectNotReached(CobblestoneError):
    """A project could not be reached, or its answer could not be read."""


async def fetch(
    http: httpx.AsyncClient, url: str, limit: int = PAGE_BYTES, *, form: bytes | None = None
) -> bytes:
    """GET a page, or POST to it; return the body of an answer with status 200.  Raises ProjectNotReached."""
    import httpx

    try:
        request = http.build_request("GET" if form is None else "POST", url, content=form)
        if form is not None:
            request.headers["Content-Type"] = "application/x-www-form-urlencoded"
        async with asyncio.timeout(MOST_SECONDS), contextlib.aclosing(await send(http, request)) as response:
            if response.status_code != 200:
                advice = ". Is the address right?" if response.status_code == 404 else ""
                raise ProjectNotReached(f"{url} was answered with HTTP status {response.status_code}{advice}")
            return await read_body(response, limit)
    except RemoteProtocolError as error:
        raise ProjectNotReached(f"{url} {error}") from error
    except TimeoutError as error:
        raise ProjectNotReached(f"{url} did not answer within {MOST_SECONDS:.0f} s") from error
    except httpx.HTTPError as error:
        words = words_of(error)
        if "WRONG_VERSION_NUMBER" in str(error):
            words = "it speaks no TLS. Does its address begin with http://?"
        raise ProjectNotReached(f"{url} cannot be reached: {words}") from error
    except (httpx.InvalidURL, ValueError) as error:
        raise ProjectNotReached(f"{url[:100]} is not a valid address: {error}") from error


async def fetch_config(http: httpx.AsyncClient, url: str) -> ProjectConfig:
    """Return a project's description of itself, with its master URL checked.  Raises ProjectNotReached or RemoteProtocolError."""
    base = canonical_master_url(url)
    config = await read_aside(parse_project_config, await fetch(http, project_config_url(base)))
    if config.master_url:
        canonical_master_url(config.master_url)
    return config


async def fetch_schedulers(http: httpx.AsyncClient, master_url: str) -> tuple[tuple[str, ...], bool]:
    """Return the addresses of a project's schedulers, from its front page, and whether it runs on this program.

    Raises:
        ProjectNotReached: the page cannot be had, or names no scheduler.
    """
    page = await fetch(http, master_url)
    urls = await read_aside(scheduler_urls, page)
    if not urls:
        raise ProjectNotReached(
            f"{master_url} is a page, but not of a project: it does not say where the scheduler is. Is the address right?"
        )
    return urls, await read_aside(is_cobblestone, page)


async def account_request(http: httpx.AsyncClient, url: str) -> str:
    """Look up or create an account; return its key.  Raises ProjectNotReached or RemoteProtocolError."""
    return await read_aside(parse_account_out, await fetch(http, url))


async def contact_scheduler(
    http: httpx.AsyncClient, urls: tuple[str, ...], body: bytes, rng: random.Random
) -> ReadReply:
    """Send a request to one of the schedulers, the next after a failure.

    Raises:
        ProjectNotReached: none of them gave an answer that can be read.
    """
    last: CobblestoneError = ProjectNotReached("the project names no scheduler")
    for url in rng.sample(urls, len(urls)):
        try:
            return await read_aside(parse_scheduler_reply, await fetch(http, url, MAX_BYTES, form=body))
        except (ProjectNotReached, RemoteProtocolError) as error:
            last = error
    raise ProjectNotReached(str(last)) from last


NOTE = "feeds"
MAX_PER_PROJECT = 5


@dataclass(slots=True, kw_only=True)
class Feed:
    """A feed, as stored over restarts."""

    url: str
    project: str = ""  #: master URL; empty: the account manager's
    interval: float = DAY
    due: float = 0.0
    failures: int = 0
    items: tuple[RssItem, ...] = ()


class FeedReader:
    """Tracks the feeds to follow, and when each is due."""

    def __init__(
        self, state: ClientDatabase, journal: Journal, *, clock: Callable[[], float], rng: random.Random
    ) -> None:
        self._state = state
        self._journal = journal
        self._clock = clock
        self._rng = rng
        self._feeds: dict[str, Feed] = {feed.url: feed for feed in state.note(NOTE, list[Feed]) or []}
        self._busy = False
        for feed in self._feeds.values():
            self._show(feed)

    def refresh(self, project: str) -> None:
        """Fetch a project's feeds soon, for the volunteer."""
        for feed in self._feeds.values():
            if feed.project == project:
                feed.due = 0.0

    def clock_set_back(self, seconds: float) -> None:
        """Move waiting times back with a clock that was set back."""
        for feed in self._feeds.values():
            feed.due -= seconds

    async def poll(self, connections: Connections) -> None:
        """Follow the feeds named now, and fetch those that are due, one after the other."""
        if self._busy:
            return
        self._busy = True
        changed = self._follow()
        try:
            for feed in [each for each in self._feeds.values() if each.due <= self._clock()]:
                changed = True
                await self._fetch(feed, connections.http)
        finally:
            self._busy = False
            if changed:  # once for all of them: they are stored together
                self._state.keep(NOTE, list(self._feeds.values()))

    def _follow(self) -> bool:
        """Follow the feeds named now; return whether some are gone."""
        named = {feed.url: feed for feed in self._named()}
        gone = [url for url in self._feeds if url not in named]
        for url in gone:
            del self._feeds[url]
            self._journal.notices.of_feed(url, (), project_name="", private=False)
        for url, feed in named.items():
            known = self._feeds.setdefault(url, feed)
            known.interval, known.project = feed.interval, feed.project
        return bool(gone)

    def _named(self) -> list[Feed]:
        manager = self._state.notes.manager
        found = [Feed(url=url) for url in manager.feeds[:MAX_PER_PROJECT]] if manager else []
        if manager is None or not manager.no_project_notices:
            for url, content in self._state.contents.items():
                feeds = content.project.rss_feeds[:MAX_PER_PROJECT]
                found += [Feed(url=each.url, project=url, interval=each.poll_interval) for each in feeds]
        return [feed for feed in found if feed.url.startswith(("http://", "https://"))]

    async def _fetch(self, feed: Feed, http: httpx.AsyncClient) -> None:
        try:
            items = await read_aside(read_rss, await fetch(http, feed.url, MAX_FEED_BYTES))
            feed.failures = 0
        except (
            ProjectNotReached,
            RemoteProtocolError,
        ):  # of no importance: it will be tried again, and the last items stay
            items, feed.failures = feed.items, feed.failures + 1
        now = self._clock()
        feed.items = tuple(items_to_show(items, now))
        feed.due = next_poll(now, interval=feed.interval, failures=feed.failures, rng=self._rng)
        if feed.url in self._feeds:  # no one has left the project meanwhile
            self._show(feed)

    def _show(self, feed: Feed) -> None:
        self._journal.notices.of_feed(
            feed.url,
            feed.items,
            project_name=self._journal.project_name(feed.project),
            private="notices.php" in feed.url or "auth=" in feed.url,
        )
