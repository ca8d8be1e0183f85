"""Many hosts on one clock: arrivals, departures, and the next event.

What stands behind a host's contacts is not known here: a population run puts projects in memory there, and a comparison
with a live project its real scheduler.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from cobblestone.domain.values import DAY
from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.policy.client.published.round_robin import PURE, RoundRobinBackends
from cobblestone.simulator.host.books import Books
from cobblestone.simulator.host.driver import Network, Server
from cobblestone.simulator.host.engine import ClientModel, HostRun
from cobblestone.simulator.host.run import make_client
from cobblestone.simulator.world.distributions import Streams, exponential
from cobblestone.simulator.world.scenario import HostModel, Scenario

#: Makes the projects' sides of a host's contacts, from its model, its number and its random streams.
DoorsOf = Callable[[HostModel, int, Streams], Sequence[Server]]


@dataclass(slots=True)
class Life:
    """A host from arrival to departure."""

    run: HostRun
    client: ClientModel
    model: HostModel
    end: float
    begun: bool = False


class Crowd:
    """All present and former hosts; each that leaves is replaced by another of its kind."""

    def __init__(
        self,
        scenario: Scenario,
        policy: PolicyChoice,
        streams: Streams,
        doors: DoorsOf,
        *,
        backends: RoundRobinBackends = PURE,
    ) -> None:
        self.lives: list[Life] = []
        self._queue: list[tuple[float, int]] = []
        self._joined = 0
        self._scenario, self._policy, self._streams = scenario, policy, streams
        self._doors, self._backends = doors, backends

    def live(self, hosts: Sequence[HostModel]) -> Iterator[float]:
        """Let all hosts arrive during the first day and run the whole duration; yield the time of each event."""
        for number, host in enumerate(hosts, 1):
            rng = self._streams.within("host", str(number)).stream("attach")
            self._join(host, rng.random() * min(DAY, self._scenario.duration / 2.0))
        while self._queue:
            at, i = heapq.heappop(self._queue)
            self._go_on(i, at)
            yield at

    def close(self) -> list[Books]:
        """Stop everything and return the books of all hosts that existed."""
        for life in self.lives:
            life.run.close()
            for task in life.client.left_over():
                life.run.books.leave(task, life.end)
        return [life.run.books for life in self.lives]

    def _join(self, host: HostModel, at: float) -> None:
        number = self._joined = self._joined + 1
        streams = self._streams.within("host", str(number))
        end = self._scenario.duration
        if self._scenario.lifetime:
            end = min(end, at + exponential(streams.stream("lifetime"), self._scenario.lifetime))
        self._begin(host, at, end, number, streams)
        heapq.heappush(self._queue, (at, number - 1))

    def _begin(self, host: HostModel, at: float, end: float, number: int, streams: Streams) -> None:
        """Let a host begin the life of that number."""
        model = as_all_hosts(host, self._scenario)
        run = HostRun(replace(self._scenario, host=model), streams, None, None)
        network = Network(run, self._doors(model, number, streams), self._streams)
        client = make_client(run, network, self._policy, streams.stream("backoff"), self._backends)
        run.attach_at(at)
        self.lives.append(Life(run, client, host, end))

    def _go_on(self, i: int, at: float) -> None:
        """Advance a host to its next event, or to its end."""
        life = self.lives[i]
        if at >= life.end and life.begun:
            if life.run.now < life.end:
                life.run.go_on(life.client, life.end)
            if life.end < self._scenario.duration:
                self._join(life.model, life.end)
            return
        if life.begun:
            life.run.go_on(life.client, life.end)
        else:
            life.begun = True
            life.run.begin(life.client)
        heapq.heappush(self._queue, (life.run.next_time(life.client, life.end), i))


def as_all_hosts(host: HostModel, scenario: Scenario) -> HostModel:
    """Return a host of the table, with the scenario's settings for all hosts."""
    return replace(
        host,
        connection_interval=scenario.host.connection_interval,
        believed_availability=scenario.host.believed_availability,
        download_rate=scenario.host.download_rate,
        upload_rate=scenario.host.upload_rate,
        leave_in_memory=scenario.host.leave_in_memory,
        gpus=(),
    )
