"""Who gives way in the client of 2007: its heap of running tasks, upside down and with the C++ library's ties.

The client meant to have the most preemptable task on top, but its comparison was the wrong way round.  Equal tasks
lie as the library's ``make_heap`` and ``pop_heap`` leave them (Floyd's construction, by sinking the hole to a leaf
and letting the element rise again): of two equals the second is on top.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic

from cobblestone.policy.client.run_list import JobT, SchedulableJob


class Heap2007(Generic[JobT]):
    """Running tasks, the next to give way on top; ``misses`` per project may change in the meantime."""

    def __init__(self, running: Sequence[JobT], now: float, misses: Sequence[int]) -> None:
        self._items = list(running)
        self._now = now
        self._misses = misses
        self._build()

    def __len__(self) -> int:
        return len(self._items)

    def top(self) -> JobT:
        """Return the task that gives way next."""
        return self._items[0]

    def keep(self, job: JobT) -> None:
        """Take out a task that goes on running; the heap is built anew from what is left, in its order."""
        if job in self._items:
            self._items.remove(job)
            self._build()

    def pop(self) -> JobT:
        """Take the top out."""
        items = self._items
        top, last = items[0], items.pop()
        if items:
            self._place(0, last)
        return top

    def _build(self) -> None:
        for k in range(len(self._items) // 2 - 1, -1, -1):
            self._place(k, self._items[k])

    def _place(self, hole: int, job: JobT) -> None:
        """Put a job into the heap below ``hole``: the larger children move up, then the job rises to its place."""
        items, top = self._items, hole
        while (child := 2 * hole + 2) <= len(items):
            if child == len(items) or self._before(items[child], items[child - 1]):
                child -= 1
            items[hole] = items[child]
            hole = child
        while hole > top and self._before(items[parent := (hole - 1) // 2], job):
            items[hole] = items[parent]
            hole = parent
        items[hole] = job

    def _before(self, one: SchedulableJob, other: SchedulableJob) -> bool:
        return self._rank(one) < self._rank(other)

    def _rank(self, job: SchedulableJob) -> tuple[bool, float, float]:
        """Tasks in deadline trouble highest, then those that started last, then the earliest deadline."""
        trouble = self._misses[job.project] > 0
        return (trouble, 0.0 if trouble else job.run_start - self._now, -job.report_deadline)
