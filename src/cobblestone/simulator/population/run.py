"""Many hosts that share the jobs of their projects, as a whole or in parts: the effect of a policy on the project.

Many hosts that share the jobs of their projects: what a policy means for the project.

All hosts and all servers live on one clock; the next event of any of them comes next.  Hosts attach one after
another during the first day.  With a lifetime they leave again, with what they hold, and others come.
Two policies meet the same hosts, off-times and workunits: every host and every
project has random streams of its own, and the k-th workunit of a project is the same job under every policy.

Two conservation laws are asserted: the books of every host balance (see `cobblestone.simulator.host.books`), and
what the hosts say they reported is what the servers booked, result by result and FLOP by FLOP.

A large population in parts: each part has its hosts and its part of every project's workunits, and runs by itself.

A workunit's replicas go to hosts of one part, which is no restriction as long as a part has many more hosts than a
workunit has replicas: its hosts are a random sample of all.  The parts' tallies are added up.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import reduce
from operator import add

from cobblestone.domain.errors import ConfigError
from cobblestone.domain.hosts import CPU as CPU_RESOURCE
from cobblestone.domain.hosts import Host, HostDescription
from cobblestone.domain.values import DAY, AppId, HostId, UserId, float_sum
from cobblestone.ops.policies import watched
from cobblestone.policy.client.choice import Faults2007, PolicyChoice
from cobblestone.policy.client.core.events import ContactProject
from cobblestone.policy.client.core.values import CPU, FetchRequest
from cobblestone.policy.client.published.round_robin import PURE, RoundRobinBackends
from cobblestone.policy.dispatch.catalogue import Assignment
from cobblestone.policy.dispatch.deadline_check import BookedJob, Workload
from cobblestone.policy.dispatch.request import ResourceRequest, WorkRequest
from cobblestone.simulator.host.books import Books, SimTask
from cobblestone.simulator.host.engine import SimulationFault
from cobblestone.simulator.host.run import MAX_JOBS, require_balance
from cobblestone.simulator.host.server import draw_luck, job_peak, job_speed
from cobblestone.simulator.population.crowd import Crowd
from cobblestone.simulator.population.shared_project import ProjectTally, SharedProject
from cobblestone.simulator.world.distributions import Streams
from cobblestone.simulator.world.scenario import HostModel, ProjectModel, Scenario
from cobblestone.sweep.backends import Backend
from cobblestone.sweep.grid import run_grid

#: Largest part by which hosts' and servers' FLOPs may differ (rounding of sums).
TOLERANCE = 1e-6
PLATFORM = "x86_64-pc-linux-gnu"
CLIENT_VERSION = 72005
ENOUGH_BYTES = 1e15
#: Host-days from which on compiled hosts pay.
WORTH_COMPILING = 25_000.0


class HostDoor:
    """A shared project as one host sees it; replaces `ProjectServer`."""

    def __init__(
        self, shared: SharedProject, index: int, host: HostModel, number: int, rng: random.Random
    ) -> None:
        self.shared = shared
        self.model = shared.model
        self._index = index
        self._host = host
        self._rng = rng
        self._held = 0
        self._served = True  #: whether the server had time for the contact
        description = HostDescription(
            p_ncpus=host.ncpus, p_fpops=host.flops, on_frac=host.availability.part_on, os_name="Linux"
        )
        self._row = Host(id=HostId(number), user_id=UserId(number), description=description)

    def contacted(self, now: float) -> None:
        """Record a contact."""
        self._served = self.shared.contact(now)

    def answer(
        self, contact: ContactProject, now: float, buffer_min: float, faults: Faults2007
    ) -> tuple[list[SimTask], bool]:
        """Return the jobs sent for a request, and whether the deadline check refused one."""
        seconds, dcf, workload = contact.requests[CPU].seconds, contact.correction, contact.workload
        known: Workload | None = None
        if workload is not None:
            jobs = [
                BookedJob(t.report_deadline - buffer_min - now, t.remaining)
                for t in workload
                if t.remaining > 0.0
            ]
            known = Workload(jobs, ncpus=self._host.ncpus)
        return self._give(FetchRequest(seconds=seconds / dcf, instances=0.0), 0.0, known, dcf, now)

    def answer_devices(self, contact: ContactProject, now: float) -> list[SimTask]:
        """Return the jobs sent for a request of today's clients."""
        request = contact.requests.get(CPU)
        if request is None:
            return []
        dcf, fraction, workload = contact.correction, contact.available, contact.workload
        known: Workload | None = None
        if workload is not None:
            jobs = [BookedJob(t.report_deadline - now, t.remaining / fraction) for t in workload]
            known = Workload(jobs, ncpus=self._host.ncpus)
        tasks, _ = self._give(request, request.delay, known, dcf / fraction, now)
        return tasks

    def _give(
        self, request: FetchRequest, delay: float, known: Workload | None, stretch: float, now: float
    ) -> tuple[list[SimTask], bool]:
        if not self._served:
            return [], False
        work = WorkRequest(
            host=self._row,
            platforms=(PLATFORM,),
            client_version=CLIENT_VERSION,
            resources={
                CPU_RESOURCE: ResourceRequest(
                    seconds=request.seconds, instances=request.instances, estimated_delay=delay
                )
            },
            usable_ncpus=self._host.ncpus,
            ram_bytes=ENOUGH_BYTES,
            disk_bytes=ENOUGH_BYTES,
            in_progress={AppId(1): self._held},
            records=self.shared.records.setdefault(self._row.id, {}),
        )
        offers = self.shared.choose(work, now)
        tasks: list[SimTask] = []
        refused = False
        for offer in offers:
            if known is not None:
                booked = BookedJob(offer.report_deadline - now, _raw(offer) * stretch)
                if not known.admits(booked):
                    refused = True
                    break
                known.add(booked)
            tasks.append(self._take(offer, now))
        self._held += len(tasks)
        self.shared.tally.empty += not tasks
        return tasks, refused

    def _take(self, offer: Assignment, now: float) -> SimTask:
        job = self.shared.send(offer, self._row, now)
        app = self.model.apps[job.app]
        task = SimTask(
            project=self._index,
            app=app,
            number=int(offer.candidate.result_id),
            raw=_raw(offer),
            size=job.flops / job_speed(app, self._host),
            received=now,
            peak=job_peak(app, self._host),
        )
        task.report_deadline = float(round(offer.report_deadline))  # as a reply tells it
        draw_luck(task, self._rng)
        return task

    def reported(self, task: SimTask, now: float) -> None:
        """Pass a report on."""
        self._held -= 1
        rate = self.shared.rules.wrong_rate
        wrong = not task.failed and rate > 0.0 and self._rng.random() < rate
        self.shared.take_report(task, self._row, wrong=wrong, now=now)


def _raw(offer: Assignment) -> float:
    """Return the estimate in seconds, from the speed that the server tells the client."""
    return offer.candidate.limits.rsc_fpops_est / offer.usage.flops


@dataclass(frozen=True, slots=True, kw_only=True)
class PopulationRun:
    """The result of a run with many hosts."""

    scenario: Scenario
    policy: PolicyChoice
    seed: int
    hosts: int  #: at a time
    tallies: tuple[ProjectTally, ...]  #: in the order of the scenario's projects, by name
    books: tuple[Books, ...]  #: per host, also of those that left


def run_population(
    scenario: Scenario,
    hosts: Sequence[HostModel],
    policy: PolicyChoice,
    *,
    seed: int = 1,
    progress: Callable[[float, float], None] | None = None,
    backends: RoundRobinBackends = PURE,
    compiled: bool = False,
) -> PopulationRun:
    """Simulate all hosts together; ``progress`` is told days done and days in all.  Compiled twins in ``backends`` change nothing
    but the time that it takes; with them, hosts may be ``compiled`` as a whole, where the policy is one of 2007.

    Raises :class:`ConfigError` for a scenario that cannot be run with many hosts, and :class:`SimulationFault` if
    the conservation laws do not hold.
    """
    scenario = replace(scenario, projects=tuple(sorted(scenario.projects, key=lambda p: p.name)))
    require_population(scenario, hosts)
    shared_streams = Streams(seed)
    projects = [SharedProject(model, shared_streams, until=scenario.duration) for model in scenario.projects]

    def doors(host: HostModel, number: int, streams: Streams) -> list[HostDoor]:
        return [
            HostDoor(project, i, host, number, streams.stream("luck", project.model.name))
            for i, project in enumerate(projects)
        ]

    crowd = Crowd(scenario, policy, shared_streams, doors, backends=backends)
    if compiled and backends is not PURE:
        from cobblestone.simulator.population.compiled_runs import (
            CompiledCrowd,  # Numba: only where it is wanted
            knows,
        )

        if knows(scenario, policy):
            crowd = CompiledCrowd(scenario, policy, shared_streams, doors)
    now = 0.0

    def live() -> None:
        nonlocal now
        day = 0.0
        for now in crowd.live(hosts):
            if progress is not None and now >= day:
                progress(day / DAY, scenario.duration / DAY)
                day += DAY

    with _rare_collections():
        watched(policy.registered, live, beat=lambda: now)
    return _close(scenario, policy, seed, len(hosts), crowd.close(), projects)


def worth_compiling(scenario: Scenario, hosts: int) -> bool:
    """Return whether a simulation of this many hosts saves more time than compiling takes (about a minute)."""
    return hosts * scenario.duration >= WORTH_COMPILING * DAY


@contextmanager
def _rare_collections() -> Generator[None]:
    """Make garbage collections rare: a run makes hardly any cycles among very many long-lived objects (an eighth of its time)."""
    before = gc.get_threshold()
    gc.set_threshold(100_000, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def require_population(scenario: Scenario, hosts: Sequence[HostModel]) -> None:
    """Raise :class:`ConfigError` for settings that are impossible with many hosts."""
    scenario.check()
    _require_sane_number_of_jobs(scenario, hosts)
    if scenario.compatibility != type(scenario.compatibility)():
        raise ConfigError("compatibility: the behaviour of 2007 is for a single host; remove the table")
    for project in scenario.projects:
        for app in project.apps:
            if app.gpu or app.cpus != 1.0:
                raise ConfigError(
                    f"project {project.name!r}, app {app.name!r}: with many hosts a job takes one CPU; allowed: cpus = 1, no gpu"
                )


def _require_sane_number_of_jobs(scenario: Scenario, hosts: Sequence[HostModel]) -> None:
    """Refuse scenarios with jobs so short, or hosts so many, that a run would not end."""
    days = scenario.duration / DAY
    cpus = sum(host.ncpus for host in hosts)
    for project in scenario.projects:
        for app in project.apps:
            # added up over hosts: the fast ones decide how many jobs there are
            rate = float_sum(host.ncpus * job_speed(app, host) for host in hosts) / max(
                app.sizes.average, 1e-12
            )
            jobs = min(scenario.duration * rate, project.server.daily_quota * cpus * days)
            if app.weight > 0 and jobs > MAX_JOBS:
                seconds = cpus / rate
                raise ConfigError(
                    f"project {project.name!r}, app {app.name!r}: jobs of {seconds:.3g} s on {cpus} CPUs would be {jobs:.3g} in"
                    f" {scenario.duration:g} s; allowed: up to {MAX_JOBS}; take larger jobs (flops_mean), a smaller"
                    " daily_quota, fewer hosts or a shorter duration"
                )


def _close(
    scenario: Scenario,
    policy: PolicyChoice,
    seed: int,
    hosts: int,
    books_of_hosts: Sequence[Books],
    projects: Sequence[SharedProject],
) -> PopulationRun:
    for each in books_of_hosts:
        require_balance(scenario, policy, seed, each)
    for i, project in enumerate(projects):
        project.advance(scenario.duration)
        open_flops = project.close()
        books = [each.projects[i] for each in books_of_hosts]
        reported = sum(b.met + b.missed + b.errors for b in books)
        flops = float_sum(b.used + b.late + b.failed for b in books)
        booked = project.tally.reported_flops + open_flops
        if reported != project.tally.reported or abs(flops - booked) > TOLERANCE * max(flops, 1.0):
            raise SimulationFault(
                f"project {project.model.name!r}, {policy}, seed {seed}: hosts reported {reported} results and {flops:.6g} FLOPs,"
                f" the server booked {project.tally.reported} and {booked:.6g}"
            )
        if project.tally.sent != sum(b.sent for b in books):
            raise SimulationFault(
                f"project {project.model.name!r}, {policy}, seed {seed}: results got lost on their way"
            )
    return PopulationRun(
        scenario=scenario,
        policy=policy,
        seed=seed,
        hosts=hosts,
        tallies=tuple(p.tally for p in projects),
        books=tuple(books_of_hosts),
    )


#: A part has at least this many hosts.
FEWEST_HOSTS = 20
_EXTREMES: dict[str, Callable[[list[float]], float]] = {
    "longest_wait": max,
    "first_sent": min,
    "last_done": max,
}  #: figures of a tally that are not sums


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """One part, as sent to another process."""

    scenario: Scenario
    hosts: tuple[HostModel, ...]
    policy: PolicyChoice
    seed: int
    compiled: bool = False  #: whether it pays to compile the hosts


def split(
    scenario: Scenario, hosts: Sequence[HostModel], policy: PolicyChoice, *, seed: int, shards: int
) -> list[Shard]:
    """Distribute hosts and workunits over parts, each with its own random streams.

    Raises :class:`ConfigError` for parts that are too small, or workunits that do not suffice for all.
    """
    require_population(scenario, hosts)
    if not 1 <= shards <= max(1, len(hosts) // FEWEST_HOSTS):
        raise ConfigError(
            f"shards = {shards} is not possible with {len(hosts)} hosts; allowed: 1 to {max(1, len(hosts) // FEWEST_HOSTS)}, so"
            f" that each part has {FEWEST_HOSTS} hosts"
        )
    return [
        Shard(
            scenario=replace(
                scenario, projects=tuple(_part_of(project, number, shards) for project in scenario.projects)
            ),
            hosts=tuple(hosts[number::shards]),
            policy=policy,
            seed=seed if shards == 1 else seed * 1_000_003 + number,
            compiled=worth_compiling(scenario, len(hosts)),
        )
        for number in range(shards)
    ]


def _part_of(project: ProjectModel, number: int, shards: int) -> ProjectModel:
    server = project.server
    if 0 < server.workunits < shards:
        raise ConfigError(
            f"project {project.name!r}, server: workunits = {server.workunits} cannot be divided among {shards} parts"
        )
    processes = max(1, server.processes // shards)
    return replace(
        project,
        server=replace(
            server,
            workunits=server.workunits // shards + (number < server.workunits % shards),
            workunits_per_day=server.workunits_per_day / shards,
            processes=processes,
            # a process that serves all parts in turn is there for each of them a part of its time
            service_seconds=server.service_seconds * shards * processes / server.processes,
        ),
    )


def run_shard(shard: Shard) -> PopulationRun:
    """Run one part, with compiled twins if they are installed."""
    from cobblestone.simulator.compiled import load_compiled  # Numba: only where it computes

    run = run_population(
        shard.scenario,
        shard.hosts,
        shard.policy,
        seed=shard.seed,
        backends=load_compiled(),
        compiled=shard.compiled,
    )
    gc.collect()  # hosts and clients know each other; a worker goes through hundreds of parts
    return run


def run_shards(
    scenario: Scenario,
    hosts: Sequence[HostModel],
    policy: PolicyChoice,
    *,
    seed: int,
    shards: int,
    backend: Backend,
    progress: Callable[[int, int], None] | None = None,
) -> PopulationRun:
    """Simulate a population in parts on a backend, and merge the parts."""
    parts = split(scenario, hosts, policy, seed=seed, shards=shards)
    tasks = {str(number): part for number, part in enumerate(parts)}
    found = run_grid(run_shard, tasks, backend=backend, progress=progress)
    runs: list[PopulationRun] = [found[key] for key in tasks]
    ordered = replace(scenario, projects=tuple(sorted(scenario.projects, key=lambda p: p.name)))
    return PopulationRun(
        scenario=ordered,
        policy=policy,
        seed=seed,
        hosts=len(hosts),
        tallies=tuple(add_up([run.tallies[i] for run in runs]) for i in range(len(ordered.projects))),
        books=tuple(book for run in runs for book in run.books),
    )


def add_up(tallies: Sequence[ProjectTally]) -> ProjectTally:
    """Return the total of all parts."""
    total = ProjectTally()
    for field in fields(ProjectTally):
        values = [getattr(tally, field.name) for tally in tallies]
        if field.name in _EXTREMES:
            setattr(total, field.name, _EXTREMES[field.name](values))
        elif isinstance(values[0], list):
            setattr(total, field.name, [item for value in values for item in value])
        elif isinstance(values[0], dict):
            keys = sorted({key for value in values for key in value})
            setattr(total, field.name, {key: sum(value.get(key, 0) for value in values) for key in keys})
        else:
            setattr(total, field.name, reduce(add, values))  # whole numbers stay so
    return total
