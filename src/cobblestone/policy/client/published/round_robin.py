"""Weighted round-robin simulation of the published family: which jobs will be late, and how much work is missing.

Weighted round-robin simulation of the published family: who will be late, and how much work is missing.

A fluid model, not a slice-by-slice one.  Every project runs its first ``ncpus`` jobs at once, each at a
rate that follows from the project's share; when a project runs dry the others speed up.  Source: BOINC's
``cpu_sched`` of 2007 (``rr_simulation``); Kondo et al. 2007, 2.1.

Known property, kept on purpose: the rates may add up to more than the host has, and a project's rate is
recomputed only when some project runs dry.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

#: Share of the time to the computation deadline that may be used before a job counts as endangered.
PESSIMISM = 0.9


class ProjectQueue(NamedTuple):
    """One project's jobs that are (nearly) runnable, in arrival order."""

    share: float
    remaining: Sequence[float]  #: estimated CPU seconds left, per job
    cutoffs: Sequence[float]  #: computation deadline (absolute), per job


class RoundRobinOutcome(NamedTuple):
    """The result of the simulation; lists are in the order of the queues."""

    misses: list[int]  #: jobs per project that would be late
    shortfalls: list[float]  #: CPU seconds missing per project within the buffer
    shortfall: float  #: CPU seconds of idle processors within the buffer
    dry_after: list[float]  #: seconds until the project first uses less than its share of the processors
    idle_after: float  #: seconds until a processor first becomes idle


def computation_deadline(report_deadline: float, *, buffer_min: float, slice_seconds: float) -> float:
    """Return the time by which a job should be computed to be reported in time.

    The host may be disconnected for ``buffer_min`` seconds and its processor busy with another time slice.
    """
    return report_deadline - (buffer_min + slice_seconds)


def simulate_round_robin(
    queues: Sequence[ProjectQueue],
    now: float,
    ncpus: int,
    cpu_fraction: float,
    buffer_seconds: float,
    total_share: float,
) -> RoundRobinOutcome:
    """Run the queues down and report endangered jobs and shortfalls.

    ``cpu_fraction`` is the CPU time that a scheduled task gets per second of wall time; it is clamped to
    0.01 ... 1.
    """
    flow = _Flow(queues, ncpus, min(1.0, max(0.01, cpu_fraction)), buffer_seconds, total_share)
    finish, next_time, wanted = flow.finish, flow.next_time, flow.wanted
    misses, shortfalls, dry_after = flow.misses, flow.shortfalls, flow.dry_after
    shortfall = elapsed = 0.0
    rates, live, left = flow.rates, flow.live, flow.left
    active = sum(map(len, finish))
    idle_after = 0.0 if active < ncpus else -1.0
    while live:
        finished_at = min(next_time)
        i = next_time.index(finished_at)
        mine = finish[i]
        level, job = mine.pop()
        before, active_before = len(mine) + 1, active
        if finished_at > PESSIMISM * (queues[i].cutoffs[job] - now):
            misses[i] += 1
        if left[i]:
            flow.refill(i, level)
        else:
            active -= 1
            if dry_after[i] < 0.0 and len(mine) < wanted[i]:
                dry_after[i] = finished_at
            if idle_after < 0.0 and active < ncpus:
                idle_after = finished_at
        if elapsed < buffer_seconds:
            end = finished_at if finished_at < buffer_seconds else buffer_seconds
            length = end - elapsed
            if active_before < ncpus:
                shortfall += length * (ncpus - active_before)
            if before < wanted[i]:
                shortfalls[i] += length * (wanted[i] - before)
            if not mine:
                shortfalls[i] += (buffer_seconds - end) * wanted[i]
        elapsed = finished_at
        if mine:
            next_time[i] = finished_at + (mine[-1][0] - level) / rates[i]
        else:
            flow.run_dry(i, finished_at)
    if elapsed < buffer_seconds:
        shortfall += (buffer_seconds - elapsed) * ncpus
    return RoundRobinOutcome(
        misses, shortfalls, shortfall, [max(0.0, t) for t in dry_after], max(0.0, idle_after)
    )


def simulate_round_robin_2007(
    queue: Sequence[tuple[int, float, float]],
    now: float,
    ncpus: int,
    cpu_fraction: float,
    buffer_seconds: float,
    shares: Sequence[float],
) -> RoundRobinOutcome:
    """Return the same model, operation by operation as the client of 2007 did it; slower.

    ``queue`` holds (project, remaining CPU seconds, computation deadline) of all jobs in arrival order.  In
    loads whose projects are multiples of each other many jobs end at the same moment, and who of them is taken
    first, hence who is booked a shortfall, is decided by the rounding of this very order of operations.
    """
    steps = _Steps(queue, ncpus, min(1.0, max(0.01, cpu_fraction)), buffer_seconds, shares)
    active, left, owners, running = steps.active, steps.left, steps.owners, steps.running
    misses, shortfalls, fair = steps.misses, steps.shortfalls, steps.fair
    rates = steps.rates
    idle_after = 0.0 if len(active) < ncpus else -1.0
    end = now + buffer_seconds
    at = now
    shortfall = 0.0
    while active:
        delays = [amount / rates[i] for amount, i in zip(left, owners, strict=True)]
        delay = min(delays)
        first = delays.index(delay)
        k, i = active[first], owners[first]
        if at + delay - ((queue[k][2] - now) * PESSIMISM + now) > 0:
            misses[i] += 1
        active_before, before = len(active), running[i]
        steps.finish(first, delay)
        if idle_after < 0.0 and len(active) < ncpus:
            idle_after = at + delay - now
        if steps.dry_after[i] < 0.0 and running[i] < fair[i]:
            steps.dry_after[i] = at + delay - now
        if at < end:
            stop = min(at + delay, end)
            length = stop - at
            if active_before < ncpus:
                shortfall += length * (ncpus - active_before)
            if before < fair[i]:
                shortfalls[i] += length * (fair[i] - before)
            if stop < end and not running[i]:
                shortfalls[i] += (end - stop) * fair[i]
        at += delay
    if at < end:
        shortfall += (end - at) * ncpus
    dry_after = [max(0.0, t) for t in steps.dry_after]
    return RoundRobinOutcome(misses, shortfalls, shortfall, dry_after, max(0.0, idle_after))


class _Steps:
    """State of the model of 2007: the active jobs in the order in which they became so, and what is left of
    them.
    """

    def __init__(
        self,
        queue: Sequence[tuple[int, float, float]],
        ncpus: int,
        fraction: float,
        buffer_seconds: float,
        shares: Sequence[float],
    ) -> None:
        count = len(shares)
        self._queue, self._ncpus, self._fraction, self._shares = queue, ncpus, fraction, shares
        total_share = 0.0
        for share in shares:
            total_share += share
        parts = [share / total_share if total_share else 1.0 for share in shares]
        self.active: list[int] = []  #: positions in the queue
        self.left: list[float] = []
        self.owners: list[int] = []
        self.running = [0] * count
        self._pending: list[deque[int]] = [deque() for _ in range(count)]
        for k, (i, _, _) in enumerate(queue):
            if self.running[i] < ncpus:
                self.running[i] += 1
                self._start(k)
            else:
                self._pending[i].append(k)
        self._running_share = 0.0
        for share, some in zip(shares, self.running, strict=True):
            if some:
                self._running_share += share
        #: processors that are the project's by its share
        self.fair = [ncpus * part for part in parts]
        self.rates = [1.0] * count
        self._set_rates()
        self.shortfalls = [
            0.0 if some else buffer_seconds * fraction * ncpus * part
            for some, part in zip(self.running, parts, strict=True)
        ]
        self.misses = [0] * count
        self.dry_after = [
            0.0 if some < fair else -1.0 for some, fair in zip(self.running, self.fair, strict=True)
        ]

    def _start(self, k: int) -> None:
        self.active.append(k)
        self.left.append(self._queue[k][1])
        self.owners.append(self._queue[k][0])

    def _set_rates(self) -> None:
        for i, some in enumerate(self.running):
            if some:
                share = self._shares[i]
                self.rates[i] = _rate(share, self._running_share, some, self._ncpus) * self._fraction

    def finish(self, first: int, delay: float) -> None:
        """Take the active job number ``first`` out after ``delay`` seconds, and let its project's next one
        in.
        """
        i = self.owners[first]
        del self.active[first], self.left[first], self.owners[first]
        done = [rate * delay for rate in self.rates]
        self.left[:] = [amount - done[j] for amount, j in zip(self.left, self.owners, strict=True)]
        if self._pending[i]:
            self._start(self._pending[i].popleft())
            return
        self.running[i] -= 1
        if not self.running[i]:
            self._running_share -= self._shares[i]
            self._set_rates()


class _Flow:
    """State of the fluid model: per project, what its active jobs have done and when the next of them ends."""

    def __init__(
        self,
        queues: Sequence[ProjectQueue],
        ncpus: int,
        fraction: float,
        buffer_seconds: float,
        total_share: float,
    ) -> None:
        count = len(queues)
        self._queues, self._ncpus, self._fraction = queues, ncpus, fraction
        self.left: list[int] = []  #: pending jobs per project
        #: processors that are the project's by its share
        self.wanted: list[float] = []
        #: per project its active jobs (progress at which they end, position), the next to end last
        self.finish: list[list[tuple[float, int]]] = []
        self.misses = [0] * count
        self.shortfalls = [0.0] * count
        self.dry_after = [-1.0] * count
        self.rates = [0.0] * count
        self.next_time = [math.inf] * count
        self.live: list[int] = []
        running_share = 0.0
        for i, (share, remaining, _) in enumerate(queues):
            first = min(ncpus, len(remaining))
            want = ncpus * (share / total_share if total_share > 0 else 1.0)
            mine = list(zip(remaining[:first], range(first), strict=True))
            mine.sort(reverse=True)
            self.left.append(len(remaining) - first)
            self.wanted.append(want)
            self.finish.append(mine)
            if first < want:
                self.dry_after[i] = 0.0
            if first:
                self.live.append(i)
                running_share += share
            else:
                self.shortfalls[i] = buffer_seconds * fraction * want
        self._running_share = running_share
        for i in self.live:
            mine = self.finish[i]
            rate = self.rates[i] = _rate(queues[i].share, running_share, len(mine), ncpus) * fraction
            self.next_time[i] = mine[-1][0] / rate

    def refill(self, i: int, level: float) -> None:
        """Start the first of the project's pending jobs; ``level`` is what its active jobs have done."""
        remaining = self._queues[i].remaining
        k = len(remaining) - self.left[i]
        self.left[i] -= 1
        mine = self.finish[i]
        mine.append((level + remaining[k], k))
        if len(mine) > 1 and mine[-1][0] > mine[-2][0]:
            mine.sort(reverse=True)

    def run_dry(self, i: int, now: float) -> None:
        """Take a project out; the others speed up."""
        self.live.remove(i)
        next_time, rates, queues = self.next_time, self.rates, self._queues
        next_time[i] = math.inf
        self._running_share -= queues[i].share
        for j in self.live:
            old = rates[j]
            new = (
                _rate(queues[j].share, self._running_share, len(self.finish[j]), self._ncpus) * self._fraction
            )
            if new != old:
                rates[j] = new
                next_time[j] = now + (next_time[j] - now) * old / new


def _rate(share: float, running_share: float, active: int, ncpus: int) -> float:
    """Return the part of one processor that each active job of a project gets; never quite nothing, so that a
    project without a share ends too.
    """
    rate = max(share / running_share, 1e-9) if running_share > 0 else 1.0
    if active < ncpus:
        rate *= ncpus / active
    return rate if rate < 1.0 else 1.0


class RoundRobinBackends(NamedTuple):
    """Today's form and that of 2007."""

    queues: Callable[[Sequence[ProjectQueue], float, int, float, float, float], RoundRobinOutcome]
    steps: Callable[
        [Sequence[tuple[int, float, float]], float, int, float, float, Sequence[float]], RoundRobinOutcome
    ]


#: The policy's own functions.
PURE = RoundRobinBackends(simulate_round_robin, simulate_round_robin_2007)
