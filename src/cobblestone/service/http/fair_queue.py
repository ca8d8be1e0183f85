"""The order in which busy requests are processed: a fair share for every sender, promises first, and a bounded queue.

A sender is all that comes from one address (an IPv6 network of one customer counts as one).  A place that becomes free goes to
the sender who has fewest, among equals to whom the longest time ago; then those come first who keep a promise (a finished job
is reported), then who waits longest.  One computer has one place: a client of the family never asks twice at once.  Places are
few, since requests that share a commit also share its time: who fills them would take the others' time as well as their places.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections import Counter
from dataclasses import dataclass, field
from typing import Generic, TypeVar

S = TypeVar("S")
P = TypeVar("P")


class ServerBehind(Exception):
    """Too many requests are waiting: try again later."""

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


#: Who waits, by number: in the order in which they came.
_Line = dict[int, _Waiting[S, P]]
#: Of a sender: places that it has, when it last got one, whether it keeps no promise, and since when it waits.
_Rank = tuple[int, int, bool, int]


class FairQueue(Generic[S, P]):
    """Places for requests, and the requests waiting for one.  Belongs to one event loop."""

    def __init__(self, *, places: int, max_waiting: int, max_waiting_promises: int) -> None:
        """Prepare places.

        Of requests that keep no promise ``max_waiting`` may wait in all, of others ``max_waiting_promises``, together.
        """
        self._places = places
        self._most = {False: max_waiting, True: max_waiting_promises}
        self._n_taken = 0
        self._of_sender: Counter[S] = Counter()
        self._parts: set[tuple[S, P]] = set()  # computers that have their place
        self._waiting: dict[S, tuple[_Line[S, P], _Line[S, P]]] = {}  # promises, and others
        self._served: dict[S, int] = {}  # when each sender who waits or has a place last got one
        self._ranks: dict[S, _Rank] = {}  # of senders who wait and may have a place
        self._ranked: list[tuple[_Rank, S]] = []  # a heap of these, and of ranks that were
        self._n_waiting = 0
        self._n_refused = 0  # since the queue was last shorter than half
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return self._n_waiting

    def place(self, sender: S, part: P | None, *, promise: bool) -> QueuePlace[S, P]:
        """Return a place that is held while a block runs; ``part`` is the computer of the sender, if known.

        Raises (when the block begins):
            ServerBehind: too many wait.
        """
        return QueuePlace(self, sender, part, promise)

    async def take(self, sender: S, part: P | None, promise: bool) -> None:
        """Wait for a place; `leave` gives it back."""
        if not self.must_wait(sender, part):
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
        self._rank(sender)
        self._fill()
        try:
            await waiting.turn
        except asyncio.CancelledError:
            if waiting.turn.done() and not waiting.turn.cancelled():
                self.leave(sender, part)  # it was given a place, and has gone
            else:
                self._forget(waiting)
            raise

    def must_wait(self, sender: S, part: P | None) -> bool:
        """Return whether a new request would have to wait."""
        if self._n_waiting or self._n_taken >= self._places:
            return True
        return part is not None and (sender, part) in self._parts

    def _enter(self, sender: S, part: P | None) -> None:
        self._n_taken += 1
        self._of_sender[sender] += 1
        self._served[sender] = next(self._numbers)
        if part is not None:
            self._parts.add((sender, part))
        if self._n_waiting:
            self._rank(sender)

    def leave(self, sender: S, part: P | None) -> None:
        """Release a place."""
        self._n_taken -= 1
        self._of_sender[sender] -= 1
        if not self._of_sender[sender]:
            del self._of_sender[sender]
            if sender not in self._waiting:
                self._served.pop(sender, None)
        if part is not None:
            self._parts.discard((sender, part))
        if self._n_waiting:
            self._rank(sender)
            self._fill()

    def _forget(self, waiting: _Waiting[S, P]) -> None:
        lines = self._waiting.get(waiting.sender, ({}, {}))
        if lines[0 if waiting.promise else 1].pop(waiting.number, None) is None:
            return  # its turn had come when it left
        self._n_waiting -= 1
        if not any(lines):
            del self._waiting[waiting.sender]
            if waiting.sender not in self._of_sender:
                self._served.pop(waiting.sender, None)
        self._rank(waiting.sender)
        if self._n_waiting * 2 < self._most[False]:
            self._n_refused = 0

    def _fill(self) -> None:
        """Assign free places."""
        while self._n_taken < self._places and (chosen := self._next()) is not None:
            self._forget(chosen)
            if chosen.turn.cancelled():
                continue
            self._enter(chosen.sender, chosen.part)
            chosen.turn.set_result(None)

    def _rank(self, sender: S) -> None:
        """Update the rank of a sender among those waiting; called after every change."""
        first = self._first(sender)
        if first is None:
            self._ranks.pop(sender, None)
            return
        rank = (self._of_sender[sender], self._served.get(sender, -1), not first.promise, first.number)
        if self._ranks.get(sender) != rank:
            self._ranks[sender] = rank
            if len(self._ranked) > 2 * len(self._ranks) + 64:  # mostly ranks that were
                self._ranked = [(each, whose) for whose, each in self._ranks.items()]
                heapq.heapify(self._ranked)
            else:
                heapq.heappush(self._ranked, (rank, sender))

    def _next(self) -> _Waiting[S, P] | None:
        """Return the next in turn."""
        while self._ranked:
            rank, sender = self._ranked[0]
            if self._ranks.get(sender) == rank:
                return self._first(sender)
            heapq.heappop(self._ranked)
        return None

    def _first(self, sender: S) -> _Waiting[S, P] | None:
        """Return the next in turn among those of one sender."""
        lines = self._waiting.get(sender)
        if lines is None:
            return None
        for each in itertools.chain(lines[0].values(), lines[1].values()):
            if each.part is None or (sender, each.part) not in self._parts:
                return each
        return None


class QueuePlace(Generic[S, P]):
    """A place while a block runs.  (A context manager made from a function takes three times as long.)"""

    __slots__ = ("_part", "_promise", "_queue", "_sender")

    def __init__(self, queue: FairQueue[S, P], sender: S, part: P | None, promise: bool) -> None:
        self._queue = queue
        self._sender = sender
        self._part = part
        self._promise = promise

    async def __aenter__(self) -> None:
        await self._queue.take(self._sender, self._part, self._promise)

    async def __aexit__(self, *_: object) -> None:
        self._queue.leave(self._sender, self._part)
