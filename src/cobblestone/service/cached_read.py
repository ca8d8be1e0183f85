"""Costly reads whose answer is used again for a while."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from cobblestone.service.context import ServiceContext
from cobblestone.store.engine.database import Database

T = TypeVar("T")

MIN_AGE_SECONDS = 5.0
MAX_SHARE = 0.01
"""Reading again and again takes at most this share of the time, however large the project is."""


class CachedRead(Generic[T]):
    """A costly read whose answer is used again for a while."""

    def __init__(self, ctx: ServiceContext, read: Callable[[Database], T]) -> None:
        self._ctx = ctx
        self._read = read
        self._lock = asyncio.Lock()
        self._answer: T | None = None
        self._read_time = 0.0
        self._lasts = 0.0  # seconds from then on

    async def get(self) -> T:
        """Return the answer, at most ``MIN_AGE_SECONDS`` old unless reading it takes long."""
        async with self._lock:
            now = self._ctx.clock()
            # A clock that is set, forward while this reads or back, makes no answer last for ever.
            if self._answer is None or not 0 <= now - self._read_time < self._lasts:
                began = time.monotonic()
                self._answer = await self._ctx.store.aread(self._read)
                self._read_time, self._lasts = (
                    now,
                    max(MIN_AGE_SECONDS, (time.monotonic() - began) / MAX_SHARE),
                )
            return self._answer
