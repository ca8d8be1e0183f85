"""Wake-up signals: how one part of a process tells another that there is something to do."""

from __future__ import annotations

import asyncio


class WakeupSignals:
    """Named signals.  One that is given while nobody waits is kept for the next who does."""

    def __init__(self) -> None:
        self._events: dict[str, asyncio.Event] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self.closed = False

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """Deliver signals from other threads to ``loop``."""
        self._loop = loop

    def notify_threadsafe(self, names: set[str]) -> None:
        """Wake those who wait for ``names``, from any thread (the writer calls this after a commit)."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.notify, *names)

    def notify_all_threadsafe(self) -> None:
        """Wake all who wait, from any thread."""
        self.notify_threadsafe(set(self._events))

    def notify(self, *names: str) -> None:
        """Wake those who wait for ``names``, from the event loop."""
        for name in names:
            self._event(name).set()

    async def wait(self, name: str, *, at_most: float) -> bool:
        """Wait for a signal, at most so many seconds; return whether it came."""
        event = self._event(name)
        try:
            async with asyncio.timeout(at_most):
                await event.wait()
        except TimeoutError:
            return False
        event.clear()
        return True

    def close(self) -> None:
        """Wake all who wait for the last time: the service stops."""
        self.closed = True
        self.notify(*self._events)

    def _event(self, name: str) -> asyncio.Event:
        return self._events.setdefault(name, asyncio.Event())
