"""WF3: never ask for a job that would be late (our own policy).

WF2 decides when the host needs work and which project is owed most.  WF3 keeps that order, but asks a
project only for as many jobs as would all be in time, with everything that the host has already promised:
the server's deadline check (WS2), made by the client, which knows its own availability and, from earlier
jobs, how long the project's jobs take and how long it gives them.  Without it a buffer that is longer than
the latency bound makes jobs late while they wait, and blocked projects come back all at once when the host
runs dry.

A processor that is idle overrules the check if nobody passes it: a job that may be late is better than
none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cobblestone.policy.client.round_robin import RoundRobinOutcome
from cobblestone.policy.client.work_fetch import (
    FetchPlan,
    FetchPreferences,
    FetchProject,
    Urgency,
    fetch_by_shortfall,
)
from cobblestone.policy.dispatch.deadline_check import BookedJob, Workload

#: Part of the time to a deadline that is counted on.
MARGIN = 0.9
MAX_JOBS = 64


@dataclass(frozen=True, slots=True)
class JobPattern:
    """What the client has learned of a project's jobs; ``run_time`` in CPU seconds, both None before the
    first job.
    """

    run_time: float | None = None
    latency_bound: float | None = None


def fetch_in_time(
    projects: Sequence[FetchProject],
    outcome: RoundRobinOutcome,
    patterns: Sequence[JobPattern],
    promised: Sequence[BookedJob],
    *,
    prefs: FetchPreferences,
    cpu_fraction: float,
    idle_cpus: int,
    explain: bool = False,
) -> FetchPlan:
    """Return the request.

    ``promised``: deadline (seconds from now) and remaining CPU seconds of every job on the host.
    """
    speed = min(1.0, max(0.01, cpu_fraction))
    booked = [BookedJob(job.deadline * MARGIN, job.remaining / speed) for job in promised]
    candidates = list(projects)
    first: FetchPlan | None = None
    while True:
        plan = fetch_by_shortfall(candidates, outcome, prefs=prefs, explain=explain)
        if plan.project is None:
            break
        first = first or plan
        pattern = patterns[plan.project]
        if pattern.run_time is None or pattern.latency_bound is None:
            return replace(plan, seconds=1.0)  # one job, to get to know the project
        seconds = _admitted(pattern, booked, plan.seconds, prefs.ncpus, speed)
        if seconds > 0.0:
            return replace(plan, seconds=seconds)
        candidates[plan.project] = replace(candidates[plan.project], contactable=False)
    if first is not None and idle_cpus > 0 and first.urgency is Urgency.NEED_IMMEDIATELY:
        return replace(first, seconds=1.0)
    return plan


def _admitted(
    pattern: JobPattern, booked: Sequence[BookedJob], seconds: float, ncpus: int, speed: float
) -> float:
    """Return the CPU seconds of jobs that would be in time, up to the request."""
    assert pattern.run_time is not None  # noqa: S101 - the caller has looked
    assert pattern.latency_bound is not None  # noqa: S101 - the caller has looked
    run_time = max(1e-3, pattern.run_time)
    workload = Workload(booked, ncpus=ncpus)
    job = BookedJob(pattern.latency_bound * MARGIN, run_time / speed)
    total = 0.0
    for _ in range(MAX_JOBS):
        if total >= seconds or not workload.admits(job):
            break
        workload.add(job)
        total += run_time
    return min(seconds, max(0.0, total - 0.5 * run_time))
