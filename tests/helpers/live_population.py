"""Simulated hosts that volunteer for a live project: its real scheduler, database and daemons, on a clock that is turned.

Every contact is a scheduler request with the client's bytes.  The run is recorded as the project's own rows tell it, so
that a population run of the same scenario, hosts and seed can be compared with it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.helpers.project_world import START, SimHost, World, failed, succeeded

from cobblestone.domain.apps import ComparisonRule
from cobblestone.domain.values import DAY, WorkunitId
from cobblestone.domain.work import JobLimits, Outcome, ReplicationRules, ServerState
from cobblestone.policy.client.choice import Faults2007, PolicyChoice
from cobblestone.policy.client.core.events import ContactProject
from cobblestone.policy.client.core.values import CPU
from cobblestone.server.daemons.housekeeping import set_scales
from cobblestone.server.run import SCALE_SWEEP_SECONDS
from cobblestone.simulator.host.books import SimTask
from cobblestone.simulator.host.server import draw_luck, job_peak, job_speed
from cobblestone.simulator.population.crowd import Crowd
from cobblestone.simulator.population.run import PopulationRun
from cobblestone.simulator.report.population import view_of
from cobblestone.simulator.world.distributions import Streams
from cobblestone.simulator.world.scenario import HostModel, ProjectModel, Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What a project has to show for a run."""

    workunits_per_day: float
    turnaround: float  #: mean hours of a workunit from its first sending to its quorum
    timed_out: float  #: part of the results sent
    idleness: float  #: of the hosts
    sent: int

    @classmethod
    def of(cls, run: PopulationRun) -> Record:
        """The same of a simulated run."""
        (tally,) = run.tallies
        view = view_of(tally, run.scenario.duration)
        return cls(
            workunits_per_day=view.workunits_per_day,
            turnaround=view.turnaround / 3600.0,
            timed_out=view.timed_out,
            idleness=idleness(run.books),
            sent=tally.sent,
        )


def idleness(books: Iterable[Any]) -> float:
    """Part of what the hosts could have computed that was left idle."""
    books = list(books)
    return sum(b.idle for b in books) / sum(b.peak * b.available for b in books)


class LiveDoor:
    """A live project as one host sees it; takes the place of the simulator's server."""

    def __init__(self, live: LiveProject, host: HostModel, number: int, rng: random.Random) -> None:
        self.model = live.model
        self._live = live
        self._host = host
        self._rng = rng
        self._computer: SimHost = live.world.host(
            live.world.user(f"volunteer{number}"),
            domain_name=f"h{number}",
            p_ncpus=host.ncpus,
            p_fpops=host.flops,
        )
        request = self._computer.request
        stats = replace(request.time_stats, on_frac=host.availability.part_on)
        self._computer.request = replace(request, time_stats=stats)
        self._names: dict[int, str] = {}
        self._ended: list[SimTask] = []

    def contacted(self, now: float) -> None:
        self.flush()  # what an earlier contact of this moment reported
        self._live.turn_to(now)

    def reported(self, task: SimTask, now: float) -> None:
        self._ended.append(task)
        self._live.waiting.add(self)

    def answer(
        self, contact: ContactProject, now: float, buffer_min: float, faults: Faults2007
    ) -> tuple[list[SimTask], bool]:
        assert contact.workload is None  # WS1: the request of the published family tells no workload
        seconds = contact.requests[CPU].seconds / contact.correction
        return [self._take(name, now) for name in self._rpc(seconds)], False

    def answer_devices(self, contact: ContactProject, now: float) -> list[SimTask]:
        raise NotImplementedError("only clients of the published family are compared")

    def flush(self) -> None:
        """Report what no request for work has reported."""
        if self._ended:
            self._rpc(0.0)

    def _rpc(self, seconds: float) -> list[str]:
        reports = [
            replace(
                (failed if t.failed else succeeded)(self._names[t.number]),
                final_cpu_time=t.done,
                final_elapsed_time=t.done,
            )
            for t in self._ended
        ]
        self._ended.clear()
        self._live.waiting.discard(self)
        self._computer.rpc(ask=seconds, instances=0.0, reports=reports)
        self._live.world.settle()
        return self._computer.new_results() if seconds else []

    def _take(self, name: str, now: float) -> SimTask:
        reply = self._computer.reply
        result = self._computer.held[name]
        workunit = next(w for w in reply.all("workunit") if w.get("name") == result.get("wu_name"))
        version = next(iter(reply.all("app_version")))
        (app,) = self.model.apps
        number = len(self._names)
        self._names[number] = name
        flops = self._live.size_of(
            int(self._live.world.value("SELECT workunit_id FROM result WHERE name = ?", name))
        )
        task = SimTask(
            project=0,
            app=app,
            number=number,
            raw=float(workunit.get("rsc_fpops_est")) / float(version.get("flops")),
            size=flops / job_speed(app, self._host),
            received=now,
            peak=job_peak(app, self._host),
        )
        task.report_deadline = float(result.get("report_deadline")) - START
        draw_luck(task, self._rng)
        return task


class LiveProject:
    """A project that really runs, with all its workunits there from the beginning."""

    def __init__(self, world: World, model: ProjectModel, streams: Streams) -> None:
        self.world = world
        self.model = model
        self.waiting: set[LiveDoor] = set()  #: hosts with something to report
        self._look = 0.0  #: when it looks at app versions again
        self._streams = streams
        self._sizes = streams.stream("jobs", model.name)
        self._drawn: list[float] = []
        (app,) = model.apps
        server = model.server
        demo = world.add_app(
            # a run does not model that jobs of hosts that failed lately are checked, which is off here
            comparison=ComparisonRule(kind="trivial") if server.min_quorum == 1 else None,
            outputs=(),
            limits=JobLimits(
                rsc_fpops_est=app.flops_estimate, rsc_fpops_bound=1e30, delay_bound=app.latency_bound
            ),
            rules=ReplicationRules(
                min_quorum=server.min_quorum,
                target_nresults=max(server.min_quorum, server.target_results),
                max_error_results=server.max_error_results,
                max_total_results=server.max_total_results,
                max_success_results=server.max_success_results,
            ),
        )
        world.add_jobs(demo, server.workunits)
        self._first = int(world.value("SELECT min(id) FROM workunit"))

    def size_of(self, workunit_id: int) -> float:
        """The true FLOPs of a workunit: the k-th is the same job as in a population run."""
        (app,) = self.model.apps
        number = WorkunitId(workunit_id) - self._first
        while len(self._drawn) <= number:
            self._drawn.append(app.sizes.draw(self._sizes))
        return self._drawn[number]

    def turn_to(self, now: float) -> None:
        """Turn the clock, with a stop at every deadline that passes."""
        due = self.world.query(
            "SELECT DISTINCT report_deadline FROM result WHERE server_state = ? AND report_deadline <= ? ORDER BY 1",
            int(ServerState.IN_PROGRESS),
            START + now,
        )
        for (deadline,) in due:
            self.world.now = max(self.world.now, float(deadline))
            self.world.settle()
        self.world.now = START + now
        if now >= self._look:
            self._look = now + SCALE_SWEEP_SECONDS
            self.world.run(set_scales(self.world.ctx))


def run_live(
    world: World, scenario: Scenario, hosts: Sequence[HostModel], policy: PolicyChoice, *, seed: int = 1
) -> Record:
    """Let the hosts work for a live project for the scenario's duration, and return what it has to show."""
    streams = Streams(seed)
    (model,) = scenario.projects
    live = LiveProject(world, model, streams)

    def doors(host: HostModel, number: int, own: Streams) -> list[LiveDoor]:
        return [LiveDoor(live, host, number, own.stream("luck", model.name))]

    crowd = Crowd(scenario, policy, streams, doors)
    for _ in crowd.live(hosts):
        for door in list(live.waiting):
            door.flush()
    live.turn_to(scenario.duration)
    return _record(world, scenario, [life.run.books for life in crowd.lives])


def _record(world: World, scenario: Scenario, books: Sequence[Any]) -> Record:
    rows = world.query(
        "SELECT r.workunit_id, r.sent_time, r.received_time, r.outcome, w.canonical_result_id, r.report_deadline"
        " FROM result r JOIN workunit w ON w.id = r.workunit_id WHERE r.sent_time > 0 ORDER BY r.id"
    )
    quorum = scenario.projects[0].server.min_quorum
    sent: dict[int, float] = {}
    came: dict[int, list[float]] = {}
    for workunit, start, end, outcome, canonical, _ in rows:
        sent[workunit] = min(start, sent.get(workunit, start))
        if canonical is not None and outcome == Outcome.SUCCESS:
            came.setdefault(workunit, []).append(end)
    took = [sorted(ends)[quorum - 1] - sent[workunit] for workunit, ends in came.items()]
    lost = sum((end or math.inf) > due <= world.now for _, _, end, _, _, due in rows)
    return Record(
        workunits_per_day=len(took) / (scenario.duration / DAY),
        turnaround=sum(took) / max(1, len(took)) / 3600.0,
        timed_out=lost / max(1, len(rows)),
        idleness=idleness(books),
        sent=len(rows),
    )
