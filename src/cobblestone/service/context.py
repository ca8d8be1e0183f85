"""Shared state of a long-running service: the open service, wake-up signals, and reads that are kept for a while."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from cobblestone.ops.environment import Clock, system_clock
from cobblestone.ops.metrics import ProcessMetrics
from cobblestone.ops.settings import LimitsSection
from cobblestone.service.health import Health
from cobblestone.service.rate_limits import RateLimits
from cobblestone.store.engine.database import Database, Store
from cobblestone.store.engine.process_group import ALL, ProcessGroup


class WakeupSignals:
    """Named signals.  A signal given while nothing waits is kept for the next wait."""

    def __init__(self) -> None:
        self._events: dict[str, asyncio.Event] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self.closed = False

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """Deliver signals from other threads to ``loop``."""
        self._loop = loop

    def notify_threadsafe(self, names: set[str]) -> None:
        """Wake those waiting for ``names``, from any thread (the writer calls this after a commit)."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.notify, *names)

    def notify_all_threadsafe(self) -> None:
        """Wake all that wait, from any thread."""
        self.notify_threadsafe(set(self._events))

    def notify(self, *names: str) -> None:
        """Wake those waiting for ``names``, from the event loop."""
        for name in names:
            self._event(name).set()

    async def wait(self, name: str, *, at_most: float) -> bool:
        """Wait for a signal, at most this many seconds; return whether it came."""
        event = self._event(name)
        try:
            async with asyncio.timeout(at_most):
                await event.wait()
        except TimeoutError:
            return False
        event.clear()
        return True

    def close(self) -> None:
        """Wake all that wait for the last time: the service stops."""
        self.closed = True
        self.notify(*self._events)

    def _event(self, name: str) -> asyncio.Event:
        return self._events.setdefault(name, asyncio.Event())


@dataclass(slots=True, kw_only=True)
class ProcessContext:
    """A running service: its secret and clock, and the state of this process."""

    secret: bytes  #: cookies and signatures of this service are made from it
    master_url: str  #: its own address, as people and programs type it; ends in a slash
    clock: Clock = system_clock
    signals: WakeupSignals = field(default_factory=WakeupSignals)
    started: float = 0.0  #: Unix seconds
    listens: tuple[str, int] = ("", 0)  #: host and port, which may be others than those of the settings
    health: Health = field(default_factory=Health)
    metrics: ProcessMetrics = field(default_factory=ProcessMetrics)

    def url(self, path: str) -> str:
        """Return an address below the service's own."""
        return self.master_url + path.lstrip("/")


@dataclass(slots=True, kw_only=True)
class ServiceContext(ProcessContext):
    """A service with a database of rows.

    A service derives its own context from this one, or from the one above, and adds what only its parts know.
    """

    store: Store
    limits: RateLimits = field(init=False)
    processes: ProcessGroup = field(init=False)  #: those of this service

    def share(self, limits: LimitsSection, roles: Sequence[str]) -> None:
        """Share the limits, the signals, and the work of ``roles`` with the other processes of this service."""
        self.processes = self.store.process_group(roles)
        self.limits = RateLimits(limits, share=self.processes.notify)
        self.store.set_waker(self._on_commit)

    def invalidate(self, names: set[str]) -> None:
        """Forget copies of the rows that signals with these names are about; of all rows, with :data:`ALL`."""

    def on_notify(self, names: set[str]) -> None:
        """Take the signals of another process, in a thread of the process group."""
        self.limits.hear(names, now=self.clock())
        self.invalidate(names)  # what the writer's thread keeps is only marked as old
        if ALL in names:
            self.signals.notify_all_threadsafe()
        else:
            self.signals.notify_threadsafe(names)

    def _on_commit(self, names: set[str]) -> None:
        # In the writer's thread, after a commit and before the next write: nothing in between sees an old copy.
        self.invalidate(names)
        self.signals.notify_threadsafe(names)
        self.processes.notify(names)


T = TypeVar("T")

MIN_AGE_SECONDS = 5.0
#: Reading again and again takes at most this share of the time, however large the project is.
MAX_SHARE = 0.01


class CachedRead(Generic[T]):
    """An expensive read whose result is cached for a while."""

    def __init__(self, ctx: ServiceContext, read: Callable[[Database], T]) -> None:
        self._ctx = ctx
        self._read = read
        self._lock = asyncio.Lock()
        self._answer: T | None = None
        self._read_time = 0.0
        self._lasts = 0.0  # seconds from then on

    async def get(self) -> T:
        """Return the result, at most ``MIN_AGE_SECONDS`` old unless reading it takes long."""
        async with self._lock:
            now = self._ctx.clock()
            # A clock that is set, forward while this reads or back, makes no answer last for ever.
            if self._answer is None or not 0 <= now - self._read_time < self._lasts:
                began = time.monotonic()
                self._answer = await self._ctx.store.aread(self._read)
                self._read_time = now
                self._lasts = max(MIN_AGE_SECONDS, (time.monotonic() - began) / MAX_SHARE)
            return self._answer


#: Seconds; what took less is found again each time.
QUICK = 0.02
MOST_KEPT = 1000


class Costly:
    """Answers that took long to find, kept so that finding them takes a small share of the time."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, tuple[float, Any]] = {}  # until when, and the answer

    def get(self, key: Hashable, find: Callable[[], T]) -> T:
        """Return what ``find`` returns, or what it returned lately for this key."""
        until, answer = self._kept.get(key, (0.0, None))
        began = time.monotonic()
        if began < until:
            return answer
        answer = find()
        ended = time.monotonic()
        if ended - began > QUICK:
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            self._kept[key] = (ended + (ended - began) / MAX_SHARE, answer)
        return answer
