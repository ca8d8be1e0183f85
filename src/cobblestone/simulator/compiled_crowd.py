"""Many hosts of the published policies in compiled form, on one clock with shared projects.

Between two contacts a host meets nobody, so it goes on by itself from one to the next; what it reports and what it gets is
settled by the projects' own code.  The runs are those of `cobblestone.simulator.crowd`, but for the
rounding of sums of FLOPs (a test compares them).
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.policy.client.core.values import QueuedWork
from cobblestone.simulator.compiled_host import books_of, toggles, world_of
from cobblestone.simulator.crowd import Crowd, DoorsOf, as_all_hosts
from cobblestone.simulator.engine import SimulationFault
from cobblestone.simulator.kernel.entry import load_kernel
from cobblestone.simulator.kernel.world import DONE, FREE, JOB, JOBS, SENT, STARTED, World, numpy
from cobblestone.simulator.metrics import Books
from cobblestone.simulator.network import Server
from cobblestone.simulator.scenario import HostModel, Scenario
from cobblestone.simulator.streams import Streams, exponential
from cobblestone.simulator.task import Task

#: Places for jobs that a host begins with, and random numbers that are drawn at a time.
PLACES, NUMBERS = 64, 32
_FRESH = dict.fromkeys(JOB.names, 0) | {"fraction": -1.0, "checked": -float("inf")}


@dataclass(slots=True, kw_only=True)
class CompiledLife:
    """A host from its coming to its leaving."""

    world: World
    scenario: Scenario
    doors: Sequence[Server]
    model: HostModel
    end: float
    rng: random.Random
    tasks: dict[int, Task] = field(default_factory=dict[int, Task])  #: by place in the world
    over: bool = False

    def go_on(self) -> float:
        """Go to the next contact, or to the end; returns when that is."""
        host = self.world.host[0]
        if host["backoff_at"] == host["backoff_end"]:
            more = [self.rng.random() for _ in range(NUMBERS)]
            self.world = self.world._replace(numbers=numpy.append(self.world.numbers, more))
            host["backoff_end"] += NUMBERS
        load_kernel()(self.world)
        if host["status"] != DONE:
            raise SimulationFault(
                f"scenario {self.scenario.name!r}: a client decided without end at day {host['now'] / 86400.0:.6f}; please report"
                " this with the scenario file"
            )
        self.over = not host["visiting"]
        return self.end if self.over else host["now"].item()

    def visit(self, choice: PolicyChoice) -> None:
        """Make the contact that the client wants now."""
        world = self.world
        host, lists = world.host[0], world.lists
        now, door = host["now"].item(), self.doors[int(host["contact"])]
        door.contacted(now)
        for place in lists[STARTED, : host["started"]].tolist():
            task = self.tasks.pop(place)
            task.done = world.job[place]["task_done"].item()
            door.reported(task, now)
        if host["asked"]:
            sent, refused = door.answer(
                host["plan_seconds"].item(),
                now=now,
                dcf=world.projects[host["contact"]]["dcf"].item(),
                workload=self._workload() if choice.work_send == 2 else None,
                buffer_min=host["buffer_min"].item(),
                faults=self.scenario.compatibility.faults,
            )
            host["refused"] = refused
            for task in sent:
                self._receive(task)

    def _workload(self) -> list[QueuedWork]:
        held = self.world.job[self.world.lists[JOBS, : self.world.host[0]["jobs"]]]
        rows = zip(held["deadline"].tolist(), held["remaining"].tolist(), strict=True)
        return [QueuedWork("", deadline, remaining) for deadline, remaining in rows]

    def _receive(self, task: Task) -> None:
        host = self.world.host[0]
        if not host["free"]:
            self._make_room()
        host["free"] -= 1
        place = int(self.world.lists[FREE, host["free"]])
        values = _FRESH | {
            "project": host["contact"],
            "raw": task.raw,
            "size": task.size,
            "limit": task.limit,
            "failed": task.failed,
            "received": task.received,
            "run_start": task.received,
            "deadline": task.report_deadline,
        }
        self.world.job[place] = tuple(values.values())
        self.world.lists[SENT, host["sent"]] = place
        host["sent"] += 1
        self.tasks[place] = task

    def _make_room(self) -> None:
        """Double the number of places."""
        world, host = self.world, self.world.host[0]
        places = len(world.job)
        lists = numpy.concatenate([world.lists, numpy.zeros_like(world.lists)], axis=1)
        lists[FREE, :places] = numpy.arange(2 * places - 1, places - 1, -1)
        host["free"] = places
        self.world = world._replace(
            job=numpy.concatenate([world.job, numpy.zeros(places, JOB)]), lists=numpy.ascontiguousarray(lists)
        )


class CompiledCrowd(Crowd):
    """As `Crowd`."""

    def __init__(self, scenario: Scenario, policy: PolicyChoice, streams: Streams, doors: DoorsOf) -> None:
        super().__init__(scenario, policy, streams, doors)
        self.compiled: list[CompiledLife] = []

    def _join(self, host: HostModel, at: float) -> None:
        number = len(self.compiled) + 1
        streams = self._streams.within("host", str(number))
        end = self._scenario.duration
        if self._scenario.lifetime:
            end = min(end, at + exponential(streams.stream("lifetime"), self._scenario.lifetime))
        model = as_all_hosts(host, self._scenario)
        scenario = replace(self._scenario, host=model)
        world = world_of(scenario, self._policy, places=PLACES)
        on, times = toggles(model.availability, streams, end)
        passed = int(numpy.searchsorted(times, at, side="right"))
        row = world.host[0]
        row["on"], row["toggle_at"], row["until"] = on ^ bool(passed % 2), passed, times[passed]
        row["now"] = row["on_since"] = row["core_now"] = at
        row["outside"], row["duration"] = 1, end
        row["backoff_at"] = row["backoff_end"] = len(times)
        self.compiled.append(
            CompiledLife(
                world=world._replace(numbers=times),
                scenario=scenario,
                doors=self._doors(model, number, streams),
                model=host,
                end=end,
                rng=streams.stream("backoff"),
            )
        )
        heapq.heappush(self._queue, (at, number - 1))

    def _go_on(self, i: int, at: float) -> None:
        life = self.compiled[i]
        if life.over:
            self._join(life.model, life.end)
            return
        if life.world.host[0]["visiting"]:
            life.visit(self._policy)
        until = life.go_on()
        while not life.over and until <= at:
            life.visit(self._policy)
            until = life.go_on()
        if not life.over or life.end < self._scenario.duration:
            heapq.heappush(self._queue, (until, i))

    def close(self) -> list[Books]:
        """Return the books of all hosts that were there."""
        return [books_of(life.world, life.scenario) for life in self.compiled]
