"""Contacts and transfers of a simulated host.

Files go one after another in each direction at the host's rate and only while the host is available;
contacts fail while the project's server is down.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from cobblestone.policy.client.choice import Faults2007
from cobblestone.simulator.engine import NEVER, HostRun, make_availability
from cobblestone.simulator.scenario import ProjectModel
from cobblestone.simulator.streams import Streams
from cobblestone.simulator.task import Task

if TYPE_CHECKING:
    from cobblestone.policy.client.core.values import QueuedWork, WorkRequest


class Server(Protocol):
    """A project's side of a contact, as one host sees it."""

    @property
    def model(self) -> ProjectModel: ...
    def contacted(self, now: float) -> None: ...
    def answer(
        self,
        seconds: float,
        *,
        now: float,
        dcf: float,
        workload: Iterable[QueuedWork] | None,
        buffer_min: float,
        faults: Faults2007,
    ) -> tuple[list[Task], bool]: ...
    def answer_devices(
        self,
        requests: Mapping[str, WorkRequest],
        *,
        now: float,
        dcf: float,
        fraction: float,
        workload: Iterable[QueuedWork] | None,
    ) -> list[Task]: ...
    def reported(self, task: Task, now: float) -> None: ...


class Network:
    """What lies between a host and its projects."""

    def __init__(self, host: HostRun, servers: Sequence[Server], streams: Streams) -> None:
        self.host = host
        self.servers = servers
        self.names = [s.model.name for s in servers]
        self._down_rate = host.host.download_rate
        self._up_rate = host.host.upload_rate
        self._down_free = 0.0
        self._up_free = 0.0
        self._downloads: deque[tuple[float, Task]] = deque()  #: the clock at which they end
        self._uploads: deque[tuple[float, Task]] = deque()
        self._up = [
            make_availability(s.model.downtime, streams.stream("downtime", s.model.name), start_on=False)
            for s in servers
        ]

    # -- contacts -----------------------------------------------------------------------------------------------------

    def contact(self, project: int, now: float) -> bool:
        """Count a contact and tell whether the project's server answers."""
        process = self._up[project]
        while process.until <= now:
            process.toggle()
        if process.on:
            self.servers[project].contacted(now)
        return process.on

    def report(self, task: Task, now: float) -> None:
        """Tell a finished job to its project, and count it."""
        self.host.books.report(task, now)
        self.servers[task.project].reported(task, now)

    # -- transfers ----------------------------------------------------------------------------------------------------

    def download(self, task: Task) -> bool:
        """Queue the input files of a task; returns whether there is something to wait for."""
        if self._down_rate <= 0.0 or task.app.input_bytes <= 0.0:
            return False
        self._down_free = max(self._down_free, self.host.clock) + task.app.input_bytes / self._down_rate
        self._downloads.append((self._down_free, task))
        return True

    def upload(self, task: Task) -> bool:
        """Queue its output files; the job cannot be reported before they have gone."""
        if self._up_rate <= 0.0 or task.app.output_bytes <= 0.0:
            return False
        self._up_free = max(self._up_free, self.host.clock) + task.app.output_bytes / self._up_rate
        self._uploads.append((self._up_free, task))
        return True

    @property
    def busy(self) -> bool:
        """Whether something is being transferred."""
        return bool(self._downloads or self._uploads)

    def progress(self, arrived: Callable[[Task], None], uploaded: Callable[[Task], None]) -> None:
        """Hand over the tasks whose files have come, and those whose files have gone."""
        clock = self.host.clock
        for queue, tell in ((self._downloads, arrived), (self._uploads, uploaded)):
            while queue and queue[0][0] <= clock + 1e-9:
                tell(queue.popleft()[1])

    def next_transfer(self) -> float:
        """Return the wall time at which the next transfer ends if the host stays on."""
        if not self.busy:
            return NEVER
        ends = [queue[0][0] for queue in (self._downloads, self._uploads) if queue]
        return self.host.now + min(ends) - self.host.clock
