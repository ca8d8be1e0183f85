"""What always holds of the client's memory between two rounds of events, whatever has happened and whichever policy decides.

For tests, replays and whoever writes a policy: each rule that is broken is named with the job or project that breaks it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from math import isnan

from cobblestone.domain.errors import PolicyViolation
from cobblestone.policy.client.core.state import ENDED_PHASES, ClientState, Job, Phase

_ROUNDING = 1e-9


class BrokenRule(PolicyViolation):
    """The client's memory is not sound: a fault of the core or of its policy."""


def broken_rules(state: ClientState) -> list[str]:
    """Return what does not hold, in words; nothing if all is well."""
    return [*_lists(state), *_jobs(state), *_projects(state), *_instances(state), *_times(state)]


def _lists(s: ClientState) -> Iterator[str]:
    """Check that the lists of jobs agree with one another."""
    everybody = [*s.jobs, *s.finished]
    if len(s.by_id) != len(everybody) or any(s.by_id.get(job.id) is not job for job in everybody):
        yield "the table of jobs has others than the lists"
    for name, listed in (("jobs", s.jobs), ("finished", s.finished)):
        if any(a.serial >= b.serial for a, b in pairwise(listed)):
            yield f"{name!r} is not in the order of arrival"
    for name, listed in (("running", s.running), ("wanted", s.wanted)):
        if len({id(job) for job in listed}) < len(listed):
            yield f"{name!r} has a job twice"
    unfinished = {id(job) for job in s.jobs}
    yield from (f"job {job.id!r} is wanted, and is gone" for job in s.wanted if id(job) not in unfinished)
    if {id(job) for job in s.running} != {id(job) for job in s.jobs if job.phase is Phase.RUNNING}:
        yield "'running' has others than those whose phase it is"


def _jobs(s: ClientState) -> Iterator[str]:
    """Check that each job is where its phase says, and runs only if it may."""
    for job in s.jobs:
        if job.phase in ENDED_PHASES:
            yield f"job {job.id!r} is {job.phase}, and not among the finished"
        if job.running != (job.phase is Phase.RUNNING):
            yield f"job {job.id!r} is {job.phase}, and its mark says otherwise"
        if job.runnable != s.can_run(job) and not job.deferred_until:
            yield f"job {job.id!r} is marked as {'' if job.runnable else 'not '}runnable"
        if job.running and not s.can_run(job):
            yield f"job {job.id!r} runs, and may not"
        if job.start_order == 0 and job.phase in (Phase.RUNNING, Phase.IN_MEMORY, Phase.QUITTING):
            yield f"job {job.id!r} is {job.phase}, and has never started"
        figures = (job.done, job.remaining, job.cutoff, job.working_set, job.checkpoint_elapsed, job.measured)
        if any(map(isnan, figures)) or min(job.done, job.remaining, job.working_set) < 0.0:
            yield f"job {job.id!r} has figures that cannot be: {figures}"
    yield from (
        f"job {job.id!r} is {job.phase}, and among the finished"
        for job in s.finished
        if job.phase not in ENDED_PHASES
    )
    orders = [job.start_order for job in (*s.jobs, *s.finished) if job.start_order]
    if len(set(orders)) < len(orders) or max(orders, default=0) > s.starts:
        yield "two jobs have started at the same place"
    if max((job.serial for job in s.by_id.values()), default=0) > s.arrivals:
        yield "more jobs have come than were counted"


def _projects(s: ClientState) -> Iterator[str]:
    """Check that each project has the queue of its jobs, and that a contact is with one of them."""
    names = [project.description.id for project in s.projects]
    if len(set(names)) < len(names):
        yield "a project is attached twice"
    if s.contact is not None and s.contact.project not in names:
        yield f"a contact with {s.contact.project!r} is under way, which is not attached"
    if s.plan.project is not None and not 0 <= s.plan.project < len(names):
        yield "the plan of work fetch names a project that is not attached"
    mine: list[list[Job]] = [[] for _ in names]
    for job in s.by_id.values():
        if not 0 <= job.project < len(names):
            yield f"job {job.id!r} is of no project"
        elif (
            job.queued and job.phase not in ENDED_PHASES and not s.projects[job.project].description.suspended
        ):
            mine[job.project].append(job)
    for project, jobs in zip(s.projects, mine, strict=True):
        if {id(job) for job in project.queue} != {id(job) for job in jobs} or len(project.queue) != len(jobs):
            yield f"the queue of {project.description.id!r} has others than its jobs"


def _instances(s: ClientState) -> Iterator[str]:
    """Check that no GPU instance is used more than once over."""
    parts: dict[tuple[str, int], float] = {}
    for job in s.running:
        for instance in job.instances:
            parts[job.gpu, instance] = parts.get((job.gpu, instance), 0.0) + min(1.0, job.gpus)
    yield from (
        f"instance {instance} of {gpu} has {part:.3g} of a job too much"
        for (gpu, instance), part in parts.items()
        if part > 1.0 + _ROUNDING
    )


def _times(s: ClientState) -> Iterator[str]:
    """Check that all times are times."""
    times: Iterable[float] = (s.now, s.clock, s.next_schedule, s.next_fetch, s.look_again, s.alarm)
    if any(map(isnan, times)):
        yield f"a time is no number: {times}"
    for project in s.projects:
        if isnan(project.not_before) or any(map(isnan, (end for _, end in project.backoffs.values()))):
            yield f"a wait of {project.description.id!r} is no number"
