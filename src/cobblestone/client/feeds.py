"""Feeds of notices that projects and the account manager name: fetched at their own pace, shown as notices."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cobblestone.client.connections import Connections
from cobblestone.client.journal import Journal
from cobblestone.client.projects_web import Unreachable, fetch
from cobblestone.client.state import State
from cobblestone.domain.errors import RemoteProtocolError
from cobblestone.policy.client.feeds import items_to_show, next_poll
from cobblestone.wire.rss import MAX_FEED_BYTES, RssItem, read_rss

if TYPE_CHECKING:
    import httpx

NOTE = "feeds"
MAX_PER_PROJECT = 5
DAY = 86400.0


@dataclass(slots=True, kw_only=True)
class Feed:
    """A feed, as it is kept over restarts."""

    url: str
    project: str = ""  #: master URL; empty: the account manager's
    interval: float = DAY
    due: float = 0.0
    failures: int = 0
    items: tuple[RssItem, ...] = ()


class Feeds:
    """Knows the feeds that are to be followed, and when each is to be fetched."""

    def __init__(
        self, state: State, journal: Journal, *, clock: Callable[[], float], rng: random.Random
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
        """Fetch a project's feeds soon: the volunteer wants to be up to date."""
        for feed in self._feeds.values():
            if feed.project == project:
                feed.due = 0.0

    def clock_set_back(self, seconds: float) -> None:
        """Move what is waited for along with a clock that was set back."""
        for feed in self._feeds.values():
            feed.due -= seconds

    async def poll(self, connections: Connections) -> None:
        """Follow what is named now, and fetch what is due, one after the other."""
        if self._busy:
            return
        self._busy = True
        try:
            self._follow()
            for feed in [each for each in self._feeds.values() if each.due <= self._clock()]:
                await self._fetch(feed, connections.http)
                self._state.keep(NOTE, list(self._feeds.values()))
        finally:
            self._busy = False

    def _follow(self) -> None:
        named = {feed.url: feed for feed in self._named()}
        for url in [url for url in self._feeds if url not in named]:
            del self._feeds[url]
            self._journal.notices.drop_feed(url)
            self._state.keep(NOTE, list(self._feeds.values()))
        for url, feed in named.items():
            known = self._feeds.setdefault(url, feed)
            known.interval, known.project = feed.interval, feed.project

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
            items = await asyncio.to_thread(read_rss, await fetch(http, feed.url, MAX_FEED_BYTES))
            feed.failures = 0
        except (
            Unreachable,
            RemoteProtocolError,
        ):  # of no importance: it will be tried again, and the last items stay
            items, feed.failures = feed.items, feed.failures + 1
        now = self._clock()
        feed.items = tuple(items_to_show(items, now))
        feed.due = next_poll(now, interval=feed.interval, failures=feed.failures, rng=self._rng)
        if feed.url in self._feeds:  # nobody has left the project meanwhile
            self._show(feed)

    def _show(self, feed: Feed) -> None:
        self._journal.notices.of_feed(
            feed.url,
            feed.items,
            project_name=self._journal.project_name(feed.project),
            private="notices.php" in feed.url or "auth=" in feed.url,
        )
