"""A host of the published policies in compiled form: its world of arrays, and the books that come of it.

The package ``cobblestone.simulator.kernel`` (needs the extra ``lab``) repeats what these policies and the simulator do, operation
by operation; property tests compare the runs.
"""

from __future__ import annotations

import math
from typing import Any

from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.simulator.engine import make_availability
from cobblestone.simulator.kernel.world import FREE, HOST, JOB, PROJECT, ROWS, World, numpy
from cobblestone.simulator.metrics import Books, ProjectBook
from cobblestone.simulator.paper.client_2007 import MIN_BUFFER
from cobblestone.simulator.scenario import AppModel, HostModel, OnOff, ProjectModel, Scenario
from cobblestone.simulator.server import job_peak, job_speed
from cobblestone.simulator.streams import Streams

_BOOKED = (
    "used", "late", "failed", "unfinished", "unfinished_late", "rounding", "met", "missed", "errors", "sent", "rpcs", "refused",
    "turnaround",
)  # fmt: skip


def knows(scenario: Scenario, policy: PolicyChoice) -> bool:
    """Tell whether the compiled form has everything that a host and its jobs have, in a scenario and with a policy."""
    host = scenario.host
    ours = policy.cpu_scheduling in (1, 2) and policy.work_fetch in (1, 2) and not policy.registered
    simple_host = host.leave_in_memory and not (host.gpus or host.download_rate or host.upload_rate)
    return (
        ours
        and simple_host
        and all(p.downtime == OnOff() and all(map(_simple, p.apps)) for p in scenario.projects)
        and all(float(p.share).is_integer() for p in scenario.projects)  # sums of which nobody rounds
    )


def _simple(app: AppModel) -> bool:
    usual = AppModel(
        name=app.name,
        latency_bound=app.latency_bound,
        flops_estimate=app.flops_estimate,
        sizes=app.sizes,
        weight=app.weight,
        efficiency=app.efficiency,
        error_rate=app.error_rate,
        early_exit_rate=app.early_exit_rate,
    )
    return app == usual


def toggles(model: OnOff, streams: Streams, duration: float, quantum: float = 0.0) -> tuple[bool, Any]:
    """Return whether a host is on at first, and when that changes."""
    process = make_availability(model, streams.stream("availability"), start_on=False, quantum=quantum)
    on = process.on
    times = [process.until]
    while times[-1] <= duration:
        process.toggle()
        times.append(process.until)
    return on, numpy.array(times)


def world_of(scenario: Scenario, policy: PolicyChoice, *, places: int) -> World:
    """Return the world of the scenario's host at its beginning, without random numbers, with room for so many jobs."""
    world = World(
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


def books_of(world: World, scenario: Scenario) -> Books:
    """Return the books of a run that has come to its end."""
    host = world.host[0]
    books = Books(scenario)
    books.available, books.delivered, books.idle = (
        float(host[n]) for n in ("available", "delivered", "idle")
    )
    books.idle_squares = world.projects["idle_squares"].tolist()
    books.projects = [ProjectBook(**{name: row[name].item() for name in _BOOKED}) for row in world.projects]
    return books
