"""The order in which busy requests are worked on: a fair share for every sender, promises first, and no queue without end.

A sender is whoever sends from one address (an IPv6 network of one customer counts as one).  A place that becomes free goes to
the sender who has fewest, among equals to whom the longest time ago; then those come first who keep a promise (a finished job
is reported), then who waits longest.  One computer has one place: a client of the family never asks twice at once.  Places are
few, since requests that share a commit also share its time: who fills them would take the others' time as well as their places.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

S = TypeVar("S")
P = TypeVar("P")


class ServerBehind(Exception):
    """Too many wait already: come again later."""

    def __init__(self, load: float) -> None:
        super().__init__(f"the queue is {load:.1f} times as long as it may be")
        self.load = load  #: 1: the queue is full; 2: twice as many want to wait, roughly


@dataclass(eq=False, slots=True)
class _Waiting(Generic[S, P]):
    sender: S
    part: P | None
    promise: bool
    number: int
    turn: asyncio.Future[None] = field(repr=False)


_Line = dict[int, _Waiting[S, P]]
"""Who waits, by number: in the order in which they came."""


class FairQueue(Generic[S, P]):
    """Places for requests, and who waits for one.  Belongs to one event loop."""

    def __init__(self, *, places: int, max_waiting: int, max_waiting_promises: int) -> None:
        """Prepare places.

        Of requests that keep no promise ``max_waiting`` may wait in all, of others ``max_waiting_promises``, together.
        """
        self._places = places
        self._most = {False: max_waiting, True: max_waiting_promises}
        self._of_sender: Counter[S] = Counter()
        self._parts: set[tuple[S, P]] = set()  # computers that have their place
        self._waiting: dict[S, tuple[_Line[S, P], _Line[S, P]]] = {}  # promises, and others
        self._served: dict[S, int] = {}  # when each sender who waits or has a place last got one
        self._n_waiting = 0
        self._n_refused = 0  # since the queue was last shorter than half
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return self._n_waiting

    @asynccontextmanager
    async def place(self, sender: S, part: P | None, *, promise: bool) -> AsyncGenerator[None]:
        """Hold a place while the block runs; ``part`` is the computer of the sender, if it is known.

        Raises:
            ServerBehind: too many wait.
        """
        await self._take(sender, part, promise)
        try:
            yield
        finally:
            self._leave(sender, part)

    async def _take(self, sender: S, part: P | None, promise: bool) -> None:
        if self._is_free(sender, part) and not self._n_waiting:
            self._enter(sender, part)
            return
        if self._n_waiting >= self._most[promise]:
            self._n_refused += 1
            raise ServerBehind(1.0 + self._n_refused / self._most[False])
        waiting = _Waiting[S, P](
            sender, part, promise, next(self._numbers), asyncio.get_running_loop().create_future()
        )
        lines = self._waiting.setdefault(sender, ({}, {}))
        lines[0 if promise else 1][waiting.number] = waiting
        self._n_waiting += 1
        self._fill()
        try:
            await waiting.turn
        except asyncio.CancelledError:
            if waiting.turn.done() and not waiting.turn.cancelled():
                self._leave(sender, part)  # it was given a place, and has gone
            else:
                self._forget(waiting)
            raise

    def _is_free(self, sender: S, part: P | None) -> bool:
        return self._of_sender.total() < self._places and (part is None or (sender, part) not in self._parts)

    def _enter(self, sender: S, part: P | None) -> None:
        self._of_sender[sender] += 1
        self._served[sender] = next(self._numbers)
        if part is not None:
            self._parts.add((sender, part))

    def _leave(self, sender: S, part: P | None) -> None:
        self._of_sender[sender] -= 1
        if not self._of_sender[sender]:
            del self._of_sender[sender]
            if sender not in self._waiting:
                self._served.pop(sender, None)
        if part is not None:
            self._parts.discard((sender, part))
        self._fill()

    def _forget(self, waiting: _Waiting[S, P]) -> None:
        lines = self._waiting.get(waiting.sender, ({}, {}))
        if lines[0 if waiting.promise else 1].pop(waiting.number, None) is None:
            return  # its turn had come when it left
        self._n_waiting -= 1
        if not any(lines):
            del self._waiting[waiting.sender]
        if self._n_waiting * 2 < self._most[False]:
            self._n_refused = 0

    def _fill(self) -> None:
        """Give free places away."""
        while self._n_waiting and self._of_sender.total() < self._places:
            ready = [found for lines in self._waiting.values() if (found := self._first(lines)) is not None]
            if not ready:
                return
            chosen = min(ready, key=self._order)
            self._forget(chosen)
            if chosen.turn.cancelled():
                continue
            self._enter(chosen.sender, chosen.part)
            chosen.turn.set_result(None)

    def _order(self, each: _Waiting[S, P]) -> tuple[int, int, bool, int]:
        sender = each.sender
        return self._of_sender[sender], self._served.get(sender, -1), not each.promise, each.number

    def _first(self, lines: tuple[_Line[S, P], _Line[S, P]]) -> _Waiting[S, P] | None:
        """Return whose turn it is among those of one sender."""
        for each in itertools.chain(lines[0].values(), lines[1].values()):
            if each.part is None or (each.sender, each.part) not in self._parts:
                return each
        return None
