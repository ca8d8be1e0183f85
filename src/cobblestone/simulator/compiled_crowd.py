"""Many hosts of the published policies in compiled form, on one clock with shared projects.

Between two contacts a host meets nobody, so it goes on by itself from one to the next; what it reports and what it gets is
settled by the projects' own code.  The runs are those of `cobblestone.simulator.crowd`, to the last digit
(a test compares them).
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from struct import Struct
from typing import Any

from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.policy.client.core.values import QueuedWork
from cobblestone.simulator.compiled_host import books_of, toggles, world_of
from cobblestone.simulator.crowd import Crowd, DoorsOf, as_all_hosts
from cobblestone.simulator.engine import SimulationFault
from cobblestone.simulator.kernel.entry import load_kernel
from cobblestone.simulator.kernel.world import (
    DONE,
    FREE,
    HOST,
    JOB,
    JOBS,
    PROJECT,
    SENT,
    STARTED,
    World,
    numpy,
)
from cobblestone.simulator.metrics import Books
from cobblestone.simulator.network import Server
from cobblestone.simulator.scenario import HostModel, Scenario
from cobblestone.simulator.streams import Streams, exponential
from cobblestone.simulator.task import Task

#: Places for jobs that a host begins with, and random numbers that are drawn at a time.
PLACES, NUMBERS = 64, 32
#: Places of numbers in a host's record ...
_NOW, _PLAN_SECONDS, _BUFFER_MIN = (HOST.names.index(name) for name in ("now", "plan_seconds", "buffer_min"))
_CONTACT, _STARTED, _ASKED, _REFUSED, _JOBS, _FREE, _SENT, _STATUS, _VISITING, _NUMBER, _NUMBERS_END = (
    HOST.names.index(name)
    for name in (
        "contact", "started", "asked", "refused", "jobs", "free", "sent", "status", "visiting", "backoff_at", "backoff_end",
    )
)  # fmt: skip
#: ... in a project's, and in a job's, which begins with those that are no whole numbers.
_DCF = PROJECT.names.index("dcf")
_DEADLINE, _REMAINING, _DONE = (JOB.names.index(name) for name in ("deadline", "remaining", "task_done"))
_FRESH = dict.fromkeys(JOB.names, 0) | {"fraction": -1.0, "checked": -math.inf}
_ROW_OF_JOB = Struct("".join("d" if JOB[name] == "f8" else "q" for name in JOB.names))


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
    # Any: memory of arrays, read and written number by number, which takes NumPy ten times as long
    _floats: Any = field(init=False)  #: the host's record, as numbers of one kind ...
    _whole: Any = field(init=False)  #: ... and of the other
    _projects: Any = field(init=False)
    _jobs: Any = field(init=False)
    _rows: Any = field(init=False)  #: of jobs, in bytes
    _lists: Any = field(init=False)

    def __post_init__(self) -> None:
        self._read()

    def _read(self) -> None:
        """Open the memory of the world's arrays."""
        world = self.world
        self._floats, self._whole = memoryview(world.host.view("f8")), memoryview(world.host.view("i8"))
        self._projects = memoryview(world.projects.view("f8"))
        self._jobs, self._rows = memoryview(world.job.view("f8")), memoryview(world.job.view("u1"))
        self._lists = memoryview(world.lists)

    def go_on(self) -> float:
        """Go to the next contact, or to the end; returns when that is."""
        whole = self._whole
        if whole[_NUMBER] == whole[_NUMBERS_END]:
            more = [self.rng.random() for _ in range(NUMBERS)]
            self.world = self.world._replace(numbers=numpy.append(self.world.numbers, more))
            whole[_NUMBERS_END] += NUMBERS
        load_kernel()(self.world)
        now: float = self._floats[_NOW]
        if whole[_STATUS] != DONE:
            raise SimulationFault(
                f"scenario {self.scenario.name!r}: a client decided without end at day {now / 86400.0:.6f}; please report"
                " this with the scenario file"
            )
        self.over = not whole[_VISITING]
        return self.end if self.over else now

    @property
    def visiting(self) -> bool:
        """Whether the client wants to make a contact now."""
        return bool(self._whole[_VISITING])

    def visit(self, choice: PolicyChoice) -> None:
        """Make the contact that the client wants now."""
        floats, whole, lists = self._floats, self._whole, self._lists
        now: float = floats[_NOW]
        project: int = whole[_CONTACT]
        door = self.doors[project]
        door.contacted(now)
        for k in range(whole[_STARTED]):
            place = lists[STARTED, k]
            task = self.tasks.pop(place)
            task.done = self._jobs[place * len(JOB.names) + _DONE]
            door.reported(task, now)
        if whole[_ASKED]:
            sent, refused = door.answer(
                floats[_PLAN_SECONDS],
                now=now,
                dcf=self._projects[project * len(PROJECT.names) + _DCF],
                workload=self._workload() if choice.work_send == 2 else None,
                buffer_min=floats[_BUFFER_MIN],
                faults=self.scenario.compatibility.faults,
            )
            whole[_REFUSED] = refused
            for task in sent:
                self._receive(task, project)

    def _workload(self) -> list[QueuedWork]:
        lists, floats, width = self._lists, self._jobs, len(JOB.names)
        rows = [width * lists[JOBS, k] for k in range(self._whole[_JOBS])]
        return [QueuedWork("", floats[row + _DEADLINE], floats[row + _REMAINING]) for row in rows]

    def _receive(self, task: Task, project: int) -> None:
        whole = self._whole
        if not whole[_FREE]:
            self._make_room()
        whole[_FREE] -= 1
        place = self._lists[FREE, whole[_FREE]]
        values = _FRESH | {
            "project": project,
            "raw": task.raw,
            "size": task.size,
            "limit": task.limit,
            "failed": task.failed,
            "received": task.received,
            "run_start": task.received,
            "deadline": task.report_deadline,
        }
        _ROW_OF_JOB.pack_into(self._rows, place * _ROW_OF_JOB.size, *values.values())
        self._lists[SENT, whole[_SENT]] = place
        whole[_SENT] += 1
        self.tasks[place] = task

    def _make_room(self) -> None:
        """Double the number of places."""
        world = self.world
        places = len(world.job)
        lists = numpy.concatenate([world.lists, numpy.zeros_like(world.lists)], axis=1)
        lists[FREE, :places] = numpy.arange(2 * places - 1, places - 1, -1)
        self._whole[_FREE] = places
        self.world = world._replace(
            job=numpy.concatenate([world.job, numpy.zeros(places, JOB)]), lists=numpy.ascontiguousarray(lists)
        )
        self._read()


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
        if life.visiting:
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
