"""The client of 2007, faults included: it polls every 60 seconds, and its heap of running tasks is upside down.

Who gives way in the client of 2007: its heap of running tasks, upside down and with the C++ library's ties.

The client meant to have the most preemptable task on top, but its comparison was the wrong way round.  Equal tasks
lie as the library's ``make_heap`` and ``pop_heap`` leave them (Floyd's construction, by sinking the hole to a leaf
and letting the element rise again): of two equals the second is on top.

The client of 2007 as it really was: it looks at everything every 60 seconds.  Runs in compiled form
(`cobblestone.simulator.population.compiled_runs`) say the same in a small part of the time.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.policy.client.core.state import ClientJob
from cobblestone.policy.client.published.policy import Availability, PublishedPolicy
from cobblestone.policy.client.published.round_robin import RoundRobinBackends
from cobblestone.policy.client.published.run_list import Behaviour2007
from cobblestone.simulator.host.driver import Network, SimulatedClient
from cobblestone.simulator.host.engine import HostRun
from cobblestone.simulator.world.scenario import Compatibility


class Heap2007:
    """Running tasks, the next to give way on top; ``misses`` per project may change in the meantime."""

    def __init__(self, running: Sequence[ClientJob], now: float, misses: Sequence[int]) -> None:
        self._items = list(running)
        self._now = now
        self._misses = misses
        self._build()

    def __len__(self) -> int:
        return len(self._items)

    def top(self) -> ClientJob:
        """Return the task to preempt next."""
        return self._items[0]

    def keep(self, job: ClientJob) -> None:
        """Remove a task that continues to run; the heap is rebuilt from the rest, in its order."""
        if job in self._items:
            self._items.remove(job)
            self._build()

    def pop(self) -> ClientJob:
        """Remove the top."""
        items = self._items
        top, last = items[0], items.pop()
        if items:
            self._place(0, last)
        return top

    def _build(self) -> None:
        for k in range(len(self._items) // 2 - 1, -1, -1):
            self._place(k, self._items[k])

    def _place(self, hole: int, job: ClientJob) -> None:
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

    def _before(self, one: ClientJob, other: ClientJob) -> bool:
        return self._rank(one) < self._rank(other)

    def _rank(self, job: ClientJob) -> tuple[bool, float, float]:
        """Return the rank: tasks in deadline trouble highest, then the latest started, then the earliest deadline."""
        trouble = self._misses[job.project] > 0
        return (trouble, 0.0 if trouble else job.run_start - self._now, -job.report_deadline)


#: Seconds for which it took a minimum buffer of nothing (0.00001 day).
MIN_BUFFER = 0.864


def ways_2007(compatibility: Compatibility) -> Behaviour2007:
    """Return the behaviours that a scenario asks for."""
    faults = compatibility.faults
    return Behaviour2007(
        poll_seconds=compatibility.quantum,
        every_poll=compatibility.every_poll,
        one_contact_reports_all=compatibility.one_contact_reports_all,
        faults=faults,
        line_up=Heap2007 if faults.inverted_preemption else None,
    )


class PollingClient(SimulatedClient):
    """The published family's client with the poll loop of 2007."""

    def __init__(
        self,
        host: HostRun,
        network: Network,
        choice: PolicyChoice,
        rng: random.Random,
        availability: Availability,
        backends: RoundRobinBackends,
    ) -> None:
        ways = ways_2007(host.scenario.compatibility)
        policy = PublishedPolicy(choice, rng, availability=availability, ways=ways, backends=backends)
        super().__init__(host, network, choice, policy)
        prefs = self.core.state.preferences
        self.core.state.preferences = replace(prefs, buffer_min=max(MIN_BUFFER, prefs.buffer_min))
        policy.refit()

    def _set_alarm(self) -> None:
        self.wake = self.host.now + self.host.quantum
