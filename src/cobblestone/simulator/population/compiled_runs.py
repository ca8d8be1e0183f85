"""Runs of the published policies in compiled form: one host, whole runs for the paper's figures, and many hosts on one clock.

A host of the published policies in compiled form: its world of arrays, and the books that come of it.

The package ``cobblestone.simulator.kernel`` (needs the extra ``lab``) repeats what these policies and the simulator do, operation
by operation; property tests compare the runs.

Many hosts of the published policies in compiled form, on one clock with shared projects.

Between two contacts a host meets no one, so it goes on by itself from one to the next; what it reports and what it gets is
settled by the projects' own code.  The runs are those of `cobblestone.simulator.population.crowd`, to the last digit
(a test compares them).

Whole runs of the published policies in compiled form, for the thousands that the paper's figures take.

What the compiled form does not know is simulated by the policies' own functions.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from struct import Struct
from typing import Any

from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.policy.client.core.events import ContactProject
from cobblestone.policy.client.core.values import CPU, FetchRequest, QueuedWork
from cobblestone.simulator.compiled import load_compiled
from cobblestone.simulator.host.books import Books, FiguresOfMerit, ProjectBook, SimTask, compute_metrics
from cobblestone.simulator.host.client_2007 import MIN_BUFFER
from cobblestone.simulator.host.driver import Server
from cobblestone.simulator.host.engine import Availability, SimulationFault, make_availability
from cobblestone.simulator.host.run import require_balance, simulate
from cobblestone.simulator.host.server import job_peak, job_speed
from cobblestone.simulator.kernel.client import load_kernel
from cobblestone.simulator.kernel.world import (
    C_STATE,
    DONE,
    FREE,
    HOST,
    JOB,
    JOBS,
    PROJECT,
    ROWS,
    SENT,
    SHORT_TABLES,
    STARTED,
    KernelWorld,
    numpy,
)
from cobblestone.simulator.population.crowd import Crowd, DoorsOf, as_all_hosts
from cobblestone.simulator.world.distributions import CLibraryRandom, Streams
from cobblestone.simulator.world.scenario import AppModel, HostModel, OnOff, ProjectModel, Scenario

_BOOKED = (
    "used", "late", "failed", "unfinished", "unfinished_late", "rounding", "met", "missed", "errors", "sent", "rpcs", "refused",
    "turnaround",
)  # fmt: skip


def knows(scenario: Scenario, policy: PolicyChoice) -> bool:
    """Return whether the compiled form supports a host and its jobs in a scenario, and a policy."""
    host = scenario.host
    ours = policy.cpu_scheduling in (1, 2) and policy.work_fetch in (1, 2) and not policy.registered
    simple_host = host.leave_in_memory and not (host.gpus or host.download_rate or host.upload_rate)
    return (
        ours
        and simple_host
        and all(p.downtime == OnOff() and all(map(_simple, p.apps)) for p in scenario.projects)
        and all(float(p.share).is_integer() for p in scenario.projects)  # sums of which no one rounds
    )


#: What an app may have otherwise than by default.
_FREE_OF_APP = (
    "name", "latency_bound", "flops_estimate", "sizes", "weight", "efficiency", "error_rate", "early_exit_rate",
)  # fmt: skip


def _simple(app: AppModel) -> bool:
    return app == AppModel(**{name: getattr(app, name) for name in _FREE_OF_APP})


def toggles(model: OnOff, streams: Streams, duration: float, quantum: float = 0.0) -> tuple[bool, Any]:
    """Return whether a host is on at first, and when that changes."""
    process = make_availability(model, streams.stream("availability"), start_on=False, quantum=quantum)
    on = process.on
    times = [process.until]
    while times[-1] <= duration:
        process.toggle()
        times.append(process.until)
    return on, numpy.array(times)


def world_of(scenario: Scenario, policy: PolicyChoice, *, places: int) -> KernelWorld:
    """Return the initial world of the scenario's host, without random numbers, with room for this many jobs."""
    world = KernelWorld(
        host=numpy.zeros(1, HOST),
        projects=numpy.zeros(len(scenario.projects), PROJECT),
        job=numpy.zeros(places, JOB),
        lists=numpy.zeros((len(ROWS), places), "i8"),
        numbers=numpy.zeros(1),
    )
    world.lists[FREE] = numpy.arange(places - 1, -1, -1)
    world.host[0]["free"] = places
    _fill_host(world.host[0], scenario, policy)
    for row, model in zip(world.projects, scenario.projects, strict=True):
        _fill_project(row, model, scenario.host)
    return world


def _fill_host(row: Any, scenario: Scenario, policy: PolicyChoice) -> None:
    host, prefs, compatibility = scenario.host, scenario.preferences, scenario.compatibility
    faults, believed = compatibility.faults, host.believed_availability
    told = host.availability.part_on if believed == "true" else believed
    least = MIN_BUFFER if compatibility.every_poll else 0.0
    low = max(least, prefs.buffer_min)
    values = {
        "duration": scenario.duration, "quantum": compatibility.quantum, "flops": host.flops, "peak": host.ncpus * host.flops,
        "told": 0.0 if isinstance(told, str) else told, "statistics": told == "statistics", "by_efficiency": told == "efficiency",
        "slice": prefs.slice_seconds, "buffer_min": low, "buffer_sum": low + prefs.buffer_additional,
        "buffer_total": max(1.0, low + prefs.buffer_additional), "interval": host.connection_interval, "ncpus": host.ncpus,
        "cs": policy.cpu_scheduling, "wf": policy.work_fetch, "ws": policy.work_send, "jc": policy.job_completion,
        "every_poll": compatibility.every_poll, "polled": faults.wall_time_to_latest, "inverted": faults.inverted_preemption,
        "absolute": faults.absolute_admission_deadlines, "true_size": faults.true_size_in_admission,
        "order_dependent": faults.order_dependent_fetch, "ties": faults.ties_ignore_progress,
        "reports_all": compatibility.one_contact_reports_all, "plain": compatibility == type(compatibility)(),
        "on_since": -compatibility.quantum, "finish": math.inf, "off_since": -1.0, "rounds_since": -1.0, "settled_now": -1.0,
        "look_again": math.inf, "on_fraction": 1.0, "efficiency": 1.0, "must_fetch": 1, "plan": -1, "contact": -1,
        "last_contact": 0.0 if compatibility.quantum else -math.inf,
    }  # fmt: skip
    for name, value in values.items():
        row[name] = value


def _fill_project(row: Any, model: ProjectModel, host: HostModel) -> None:
    app = model.apps[0]
    speed = job_speed(app, host)
    values = {
        "share": model.share, "raw": app.flops_estimate / speed, "mean": app.sizes.mean, "stdev": app.sizes.stdev, "speed": speed,
        "peak": job_peak(app, host), "latency": app.latency_bound, "tries": model.max_infeasible, "dcf": 1.0, "kept": -1,
        "outdated": 1, "spell_end": -1.0,
    }  # fmt: skip
    for name, value in values.items():
        row[name] = value


def books_of(world: KernelWorld, scenario: Scenario) -> Books:
    """Return the books of a finished run."""
    host = world.host[0]
    books = Books(scenario)
    books.available, books.delivered, books.idle = (
        float(host[n]) for n in ("available", "delivered", "idle")
    )
    books.idle_squares = world.projects["idle_squares"].tolist()
    books.projects = [ProjectBook(**{name: row[name].item() for name in _BOOKED}) for row in world.projects]
    return books


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
    """A host from arrival to departure."""

    world: KernelWorld
    scenario: Scenario
    doors: Sequence[Server]
    model: HostModel
    end: float
    rng: random.Random
    tasks: dict[int, SimTask] = field(default_factory=dict[int, SimTask])  #: by place in the world
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
        """Advance to the next contact, or to the end; return that time."""
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
        """Return whether the client wants to make a contact now."""
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
            asked = ContactProject(
                project="",
                requests={CPU: FetchRequest(floats[_PLAN_SECONDS])},
                workload=self._workload() if choice.work_send == 2 else None,
                correction=self._projects[project * len(PROJECT.names) + _DCF],
            )
            sent, refused = door.answer(asked, now, floats[_BUFFER_MIN], self.scenario.compatibility.faults)
            whole[_REFUSED] = refused
            for task in sent:
                self._receive(task, project)

    def _workload(self) -> tuple[QueuedWork, ...]:
        lists, floats, width = self._lists, self._jobs, len(JOB.names)
        rows = [width * lists[JOBS, k] for k in range(self._whole[_JOBS])]
        return tuple([QueuedWork("", floats[row + _DEADLINE], floats[row + _REMAINING]) for row in rows])

    def _receive(self, task: SimTask, project: int) -> None:
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
    """The same as `Crowd`, compiled."""

    def __init__(self, scenario: Scenario, policy: PolicyChoice, streams: Streams, doors: DoorsOf) -> None:
        super().__init__(scenario, policy, streams, doors)
        self.compiled: list[CompiledLife] = []

    def _begin(self, host: HostModel, at: float, end: float, number: int, streams: Streams) -> None:
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
        """Return the books of all hosts that existed."""
        return [books_of(life.world, life.scenario) for life in self.compiled]


#: Jobs at a time, at most.
MOST_JOBS = 8192
#: Random numbers of each kind that a run gets at first, and at most.
FEW, MANY = 4096, 1 << 22


def metrics_of(scenario: Scenario, policy: PolicyChoice, seed: int) -> FiguresOfMerit:
    """Return the figures of merit of ``simulate``, in compiled form if that supports the scenario."""
    scenario = replace(scenario.check(), projects=tuple(sorted(scenario.projects, key=lambda p: p.name)))
    if knows_whole_run(scenario, policy):
        numbers = FEW
        while numbers <= MANY:
            world = _world(scenario, policy, seed, numbers)
            load_kernel()(world)
            status = world.host[0]["status"]
            if status == DONE:
                books = books_of(world, scenario)
                require_balance(scenario, policy, seed, books)
                return compute_metrics(books)
            if status != SHORT_TABLES:
                break
            numbers *= 8
    return simulate(scenario, policy, seed=seed, backends=load_compiled()).metrics


def knows_whole_run(scenario: Scenario, policy: PolicyChoice) -> bool:
    """Return whether the compiled form supports everything in a scenario."""
    model = scenario.host.availability
    plain = model == OnOff(fraction=model.fraction, mean_on=model.mean_on) and model.fraction < 1.0
    return (
        knows(scenario, policy)
        and (plain or not scenario.compatibility.c_library_random)
        and all(len(p.apps) == 1 and p.apps[0].weight > 0.0 for p in scenario.projects)
        and not any(app.error_rate or app.early_exit_rate for p in scenario.projects for app in p.apps)
    )


@lru_cache(maxsize=64)
def _toggles(model: OnOff, quantum: float, duration: float, seed: int) -> tuple[bool, Any]:
    """Return whether the host of a seed is on at first, and when that changes: the same for all policies."""
    return toggles(model, Streams(seed), duration, quantum)


def _world(scenario: Scenario, policy: PolicyChoice, seed: int, numbers: int) -> KernelWorld:
    """Return the initial world."""
    models = scenario.projects
    streams = Streams(seed)
    world = world_of(scenario, policy, places=MOST_JOBS)
    host = world.host[0]
    if scenario.compatibility.c_library_random:
        _take_c_library(world, scenario, seed)
        return world
    host["on"], times = _toggles(
        scenario.host.availability, scenario.compatibility.quantum, scenario.duration, seed
    )
    host["until"] = times[0]
    backoff = streams.stream("backoff")
    parts = [times, numpy.array([backoff.random() for _ in range(numbers)])]
    host["backoff_at"], host["backoff_end"] = len(times), len(times) + numbers
    for i, model in enumerate(models, 1):
        world.projects[i - 1]["sizes_at"] = len(times) + numbers * i
        world.projects[i - 1]["sizes_end"] = len(times) + numbers * (i + 1)
        parts.append(_sizes(model, streams, numbers))
    return world._replace(numbers=numpy.concatenate(parts))


def _sizes(model: ProjectModel, streams: Streams, numbers: int) -> Any:
    sizes = model.apps[0].sizes
    rng = streams.stream("jobs", model.name)
    if sizes.kind == "normal" and sizes.stdev == 0.0:
        return numpy.full(numbers, sizes.mean)
    return numpy.array([sizes.draw(rng) for _ in range(numbers)])


def _take_c_library(world: KernelWorld, scenario: Scenario, seed: int) -> None:
    host, model = world.host[0], scenario.host.availability
    shared = CLibraryRandom(seed)
    process = Availability(model, shared, start_on=True, quantum=scenario.compatibility.quantum)
    host["shared"], host["on"], host["until"], host["exact"] = 1, process.on, process.until, process.exact
    host["mean_on"], host["mean_off"] = model.mean_on, model.mean_on * (1.0 - model.fraction) / model.fraction
    host["c_index"] = shared.index
    world.lists[C_STATE, :31] = shared.words
