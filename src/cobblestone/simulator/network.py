"""Contacts and transfers of a simulated host.

Files go one after another in each direction at the host's rate and only while the host is available;
contacts keep the connection interval and fail while the project's server is down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from cobblestone.policy.client.choice import Faults2007
from cobblestone.simulator.engine import NEVER, TINY, HostRun, make_availability
from cobblestone.simulator.scenario import ProjectModel
from cobblestone.simulator.streams import Streams
from cobblestone.simulator.task import Task

if TYPE_CHECKING:
    from cobblestone.policy.client.device_work_fetch import DeviceRequest


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
        workload: Iterable[Task] | None,
        buffer_min: float,
        faults: Faults2007,
    ) -> tuple[list[Task], bool]: ...
    def answer_devices(
        self,
        requests: Mapping[str, DeviceRequest],
        *,
        now: float,
        dcf: float,
        delays: Mapping[str, float],
        fraction: float,
        workload: Iterable[Task] | None,
    ) -> list[Task]: ...
    def reported(self, task: Task, now: float) -> None: ...


class Network:
    """What lies between a host and its projects."""

    def __init__(self, host: HostRun, servers: Sequence[Server], streams: Streams) -> None:
        self.host = host
        self.servers = servers
        self.names = [s.model.name for s in servers]
        self._interval = host.host.connection_interval
        self._last = 0.0 if host.scenario.compatibility.quantum else -NEVER
        self._down_rate = host.host.download_rate
        self._up_rate = host.host.upload_rate
        self._down_free = 0.0
        self._up_free = 0.0
        self._downloads: list[tuple[float, Task]] = []
        self._uploads: dict[int, float] = {}  #: by task, the clock at which its output files have gone
        self._up = [
            make_availability(s.model.downtime, streams.stream("downtime", s.model.name), start_on=False)
            for s in servers
        ]

    # -- contacts -----------------------------------------------------------------------------------------------------

    def may_contact(self, now: float) -> bool:
        """Tell whether the connection interval allows a contact; several at the same instant are one
        connection.
        """
        return self._interval <= 0.0 or now == self._last or now - self._last >= self._interval

    def next_contact(self, now: float) -> float:
        """Return when the next contact is allowed."""
        return now if self.may_contact(now) else self._last + self._interval

    def contact(self, project: int, now: float) -> bool:
        """Count a contact and tell whether the project's server answers."""
        self._last = now
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

    def download(self, task: Task) -> None:
        """Queue the input files of a task."""
        if self._down_rate <= 0.0 or task.app.input_bytes <= 0.0:
            return
        clock = self.host.clock
        self._down_free = max(self._down_free, clock) + task.app.input_bytes / self._down_rate
        task.arrived = False
        self._downloads.append((self._down_free, task))

    def progress(self, arrived: Callable[[Task], None]) -> None:
        """Hand over the tasks whose files have come."""
        while self._downloads and self._downloads[0][0] <= self.host.clock + 1e-9:
            task = self._downloads.pop(0)[1]
            task.arrived = True
            arrived(task)

    def next_arrival(self) -> float:
        """Return the wall time of the next arrival if the host stays on."""
        if not self._downloads:
            return NEVER
        return self.host.now + self._downloads[0][0] - self.host.clock

    def upload(self, task: Task) -> None:
        """Queue the output files."""
        if self._up_rate > 0.0 and task.app.output_bytes > 0.0:
            self._up_free = max(self._up_free, self.host.clock) + task.app.output_bytes / self._up_rate
            self._uploads[id(task)] = self._up_free

    def uploading(self, task: Task) -> float:
        """Return for how many seconds yet the output files are on their way; the job cannot be reported
        before.
        """
        done = self._uploads.get(id(task))
        if done is None:
            return 0.0
        left = done - self.host.clock
        if left > TINY:
            return left
        del self._uploads[id(task)]
        return 0.0
