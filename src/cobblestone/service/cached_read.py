"""Costly reads whose answer is used again for a while."""

from __future__ import annotations

import asyncio
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
        self._good_until = 0.0

    async def get(self) -> T:
        """Return the answer, at most ``MIN_AGE_SECONDS`` old unless reading it takes long."""
        async with self._lock:
            started = self._ctx.clock()
            if self._answer is None or started >= self._good_until:
                self._answer = await self._ctx.store.aread(self._read)
                cost = self._ctx.clock() - started
                self._good_until = started + max(MIN_AGE_SECONDS, cost / MAX_SHARE)
            return self._answer
