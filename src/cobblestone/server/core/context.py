"""What every part of a running server shares."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from cobblestone.ops.clock import Clock, system_clock
from cobblestone.ops.metrics import Metrics
from cobblestone.ops.settings import Settings
from cobblestone.server.core.offer import OfferCache
from cobblestone.server.core.plan_classes import load_plan_classes
from cobblestone.server.core.project import ProjectFolder
from cobblestone.server.core.roles import CREW, Role, sharded_of, single_of
from cobblestone.service.health import Health
from cobblestone.service.http.rate_limits import RateLimits
from cobblestone.store.engine.database import Store
from cobblestone.store.engine.process_group import EVERYBODY, Crew
from cobblestone.store.work.candidates import CandidateQueue


class Bell:
    """Wakes daemons by name.  A ring while nobody listens is kept."""

    def __init__(self) -> None:
        self._events: dict[str, asyncio.Event] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self.closed = False

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """Rings from other threads are delivered to ``loop``."""
        self._loop = loop

    def ring_from_thread(self, names: set[str]) -> None:
        """Wake daemons from any thread (the writer calls this after a commit)."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.ring, *names)

    def ring_all_from_thread(self) -> None:
        """Wake everybody, from any thread."""
        self.ring_from_thread(set(self._events))

    def ring(self, *names: str) -> None:
        """Wake daemons from the event loop."""
        for name in names:
            self._event(name).set()

    async def wait(self, name: str, *, at_most: float) -> bool:
        """Wait for a ring, at most so many seconds; whether it rang."""
        event = self._event(name)
        try:
            async with asyncio.timeout(at_most):
                await event.wait()
        except TimeoutError:
            return False
        event.clear()
        return True

    def close(self) -> None:
        """The server stops: whoever waits shall look once more and answer."""
        self.closed = True
        self.ring(*self._events)

    def _event(self, name: str) -> asyncio.Event:
        return self._events.setdefault(name, asyncio.Event())


@dataclass(slots=True)
class ServerContext:
    """The open project: settings, folder, database, secrets, clock, bell."""

    folder: ProjectFolder
    settings: Settings
    store: Store
    secret: bytes
    clock: Clock = system_clock
    bell: Bell = field(default_factory=Bell)
    started: float = 0.0  #: Unix seconds
    health: Health = field(default_factory=Health)
    metrics: Metrics = field(default_factory=Metrics)
    candidates: CandidateQueue = field(default_factory=CandidateQueue)
    offers: OfferCache = field(init=False)
    limits: RateLimits = field(init=False)
    crew: Crew = field(init=False)  #: other processes of this project

    def __post_init__(self) -> None:
        self.limits = RateLimits(self.settings)
        self.offers = OfferCache(lambda: load_plan_classes(self.folder.root), self.settings.scheduler)
        self.crew = self.store.crew(CREW)
        self.store.set_waker(self._wake)
        self.store.on_rollback(self._forget)

    def _wake(self, names: set[str]) -> None:
        # In the writer's thread, after a commit and before the next write: nothing in between sees an old copy.
        if "catalogue" in names:
            self.offers.invalidate()
        if "candidates" in names:
            self.candidates.invalidate()
        self.bell.ring_from_thread(names)
        self.crew.call(names)

    def join_crew(self, roles: frozenset[Role]) -> None:
        """Work beside other processes: hear their calls, and share the work of ``roles`` with them."""
        self.crew.join(sharded_of(roles), single_of(roles), self._hear)

    def _hear(self, names: set[str]) -> None:
        # In a thread of the crew.  What the writer's thread keeps is only marked as old.
        if EVERYBODY in names:
            self._forget()
            self.bell.ring_all_from_thread()
        else:
            if "catalogue" in names:
                self.offers.invalidate()
            if "candidates" in names:
                self.candidates.invalidate()
            self.bell.ring_from_thread(names)

    def _forget(self) -> None:
        self.offers.invalidate()
        self.candidates.invalidate()

    @property
    def master_url(self) -> str:
        """The address that volunteers attach to; ends in a slash."""
        return self.settings.project.url

    def url(self, path: str) -> str:
        """An address below the master URL."""
        return self.master_url + path.lstrip("/")

    def gui_urls(self) -> Mapping[str, str]:
        """Pages that clients show as buttons: path by title."""
        return {"Your account": "home.php", "Your tasks": "results.php", "Server status": "server_status.php"}
