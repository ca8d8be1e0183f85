"""Speed of the client's decisions: CPU milliseconds for what follows when one of many jobs ends.

64 CPUs run 64 of 2,000 jobs of three projects.  With the end of a job everything is due: the look ahead, a new run list, work
fetch.  A computer that finishes a job of an hour on each of 64 CPUs makes such a decision once a minute.
"""

from __future__ import annotations

import random
import time

from cobblestone.policy.client.core import events as ev
from cobblestone.policy.client.core.machine import ClientCore
from cobblestone.policy.client.core.values import (
    HostDevices,
    JobDescription,
    ProjectDescription,
    Reading,
    SchedulingPreferences,
)

DAY = 86400.0
CPUS, JOBS = 64, 2000
#: Milliseconds: what is allowed on a machine that others use too.
CEILINGS = {"decision, recent, 1 project": 15.0, "decision, recent, 3 projects": 25.0, "readings": 2.0}


def busy_core(policy: str, projects: int) -> ClientCore:
    """Return a core whose computer runs 64 of 2,000 jobs."""
    r = random.Random(1)
    core = ClientCore.start(policy, rng=random.Random(2))
    jobs = tuple(
        JobDescription(
            id=f"job {k}",
            project=f"project {k % projects}",
            app="app",
            version="1",
            cpus=1.0,
            gpu="",
            gpus=0.0,
            estimate=r.uniform(1800.0, 7200.0),
            received=0.0,
            deadline=r.uniform(2.0, 9.0) * DAY,
        )
        for k in range(JOBS)
    )
    core.handle(
        ev.HostOn(0.0),
        ev.PreferencesChanged(0.0, SchedulingPreferences(buffer_min=DAY, buffer_additional=DAY)),
        ev.DevicesChanged(0.0, HostDevices(ncpus=CPUS, cpu_flops=1e9)),
        *[
            ev.ProjectAttached(0.0, ProjectDescription(id=f"project {i}", share=100.0 * (i + 1)))
            for i in range(projects)
        ],
    )
    core.handle(ev.JobsFound(0.0, jobs))
    return core


def milliseconds(policy: str, projects: int) -> tuple[float, float]:
    """Return the least of some measurements: of a decision, and of readings after which nothing is decided."""
    core = busy_core(policy, projects)
    decision = readings = float("inf")
    for now in range(60, 660, 60):
        running = core.state.running
        assert len(running) == CPUS
        figures = tuple(Reading(j.id, float(now), now / j.raw, float(now), float(now)) for j in running)
        begin = time.process_time()
        core.handle(ev.JobProgressed(float(now), figures))
        middle = time.process_time()
        core.handle(ev.JobFinished(float(now), running[0].id, float(now)))
        decision = min(decision, time.process_time() - middle)
        readings = min(readings, middle - begin)
    return 1000.0 * decision, 1000.0 * readings


def figures() -> dict[str, float]:
    """Measure everything."""
    found: dict[str, float] = {}
    for name in ("recent", "published", "own"):
        for projects in (1, 3):
            decision, readings = milliseconds(name, projects)
            found[f"decision, {name}, {projects} project{'s' if projects > 1 else ''}"] = decision
            found["readings"] = max(readings, found.get("readings", 0.0))
    return found
