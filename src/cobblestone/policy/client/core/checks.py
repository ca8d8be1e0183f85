"""Checks of the core: whether an event can have happened, and what always holds of the client's memory.

Whether an event can have happened: asked before it changes anything, so that one that is refused leaves no trace.

What apps and servers say is brought within bounds where it is taken in; here is what a driver has to get right.

What always holds of the client's memory between two rounds of events, whatever has happened and whichever policy decides.

For tests, replays and whoever writes a policy: each rule that is broken is named with the job or project that breaks it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from math import isnan
from typing import Any

from cobblestone.domain.errors import IllegalTransition, PolicyViolation
from cobblestone.policy.client.core import events as ev
from cobblestone.policy.client.core.state import (
    ENDED_PHASES,
    LONGEST,
    MOST_INSTANCES,
    ClientJob,
    CoreState,
    Phase,
)
from cobblestone.policy.client.core.values import (
    Gpu,
    HostDevices,
    HostTimes,
    JobDescription,
    Permission,
    ProjectDescription,
    SchedulingPreferences,
)

_SECONDS = (0.0, LONGEST)
_TIME = (-math.inf, math.inf)
_SPEED = (0.0, 1e30)
_PART = (0.0, 1.0)
_MANY = 10**9

#: Least and most of what the volunteer and the computer say; a field that is None is not looked at.
BOUNDS: dict[type, dict[str, tuple[float, float]]] = {
    SchedulingPreferences: {
        "buffer_min": _SECONDS,
        "buffer_additional": _SECONDS,
        "slice_seconds": (1.0, LONGEST),
        "connection_interval": _SECONDS,
        "rec_half_life": (1.0, LONGEST),
        "max_reported": (0, _MANY),
    },
    Permission: {
        "ncpus": (0, _MANY),
        "throttle": _PART,
        "ram_bytes": (0.0, math.inf),
        "swap_bytes": (0.0, math.inf),
        "cpu_ends": _TIME,
        "network_ends": _TIME,
    },
    HostDevices: {"ncpus": (0, MOST_INSTANCES), "cpu_flops": (1e-9, _SPEED[1])},
    Gpu: {"count": (0, MOST_INSTANCES), "peak_flops": _SPEED},
    ProjectDescription: {"share": _SECONDS, "priority_group": (-_MANY, _MANY), "max_concurrent": (0, _MANY)},
    HostTimes: dict.fromkeys(
        ("on_frac", "active_frac", "gpu_active_frac", "connected_frac", "cpu_and_network_frac"), _PART
    ),
}  # fmt: skip


def require_possible(state: CoreState, event: ev.Event) -> None:
    """Look at an event.  Raises :class:`IllegalTransition` if it cannot have happened, and says why."""
    if not math.isfinite(event.now):
        raise IllegalTransition(f"{event.now} is not a valid time")
    check = _CHECKS.get(type(event))
    if check is not None:
        check(state, event)


def _job_may(cause: str) -> Callable[[CoreState, Any], None]:
    def check(state: CoreState, event: ev.JobReady) -> None:
        state.job(event.job).after(cause)

    return check


def _job_stopped(state: CoreState, event: ev.TaskStopped) -> None:
    job = state.job(event.job)
    if job.phase not in ENDED_PHASES:  # news of a process that had to go
        job.after("stopped")


def _job_has_run(state: CoreState, event: ev.JobCheckpointed) -> None:
    job = state.job(event.job)
    if job.phase in (Phase.DOWNLOADING, Phase.WAITING):
        raise IllegalTransition(f"job {job.id!r} is {job.phase}: it cannot checkpoint")


def _contact_under_way(state: CoreState, event: ev.ContactFailed | ev.ReplyReceived) -> None:
    if state.under_way(event.project) is None:
        raise IllegalTransition(f"no contact with {event.project!r} is under way")


def _contact_waited_for(state: CoreState, event: ev.ContactSlow) -> None:
    if state.contact is None or state.contact.project != event.project:
        raise IllegalTransition(f"no contact with {event.project!r} is waited for")


def _reply(state: CoreState, event: ev.ReplyReceived) -> None:
    _contact_under_way(state, event)
    _new_jobs(state, event.jobs)


def _new_jobs(state: CoreState, jobs: Iterable[JobDescription]) -> None:
    seen: set[str] = set()
    for each in jobs:
        if each.id in state.by_id or each.id in seen:
            raise IllegalTransition(f"job {each.id!r} is here already")
        seen.add(each.id)
        state.position(each.project)


def _devices(state: CoreState, event: ev.DevicesChanged) -> None:
    _within_bounds(event.devices)
    for gpu in event.devices.gpus:
        _within_bounds(gpu)


def _project(state: CoreState, event: ev.ProjectAttached) -> None:
    _within_bounds(event.project)
    for app, most in event.project.app_max_concurrent.items():
        _require(f"app_max_concurrent of {app!r}", most, (0, _MANY))


def _within_bounds(values: object) -> None:
    for name, bounds in BOUNDS[type(values)].items():
        figure = getattr(values, name)
        if figure is not None:
            _require(name, figure, bounds)


def _require(name: str, figure: float, bounds: tuple[float, float]) -> None:
    low, high = bounds
    if not low <= figure <= high:
        raise IllegalTransition(f"{name} cannot be {figure}; it is a number from {low:g} to {high:g}")


#: What has to hold, by event; of others nothing but the time is looked at.
_CHECKS: Mapping[type[ev.Event], Callable[[CoreState, Any], object]] = {  # Any: the event of that kind
    ev.AvailabilityKnown: lambda _, event: _within_bounds(event.times),
    ev.PreferencesChanged: lambda _, event: _within_bounds(event.preferences),
    ev.PermissionChanged: lambda _, event: _within_bounds(event.permission),
    ev.DevicesChanged: _devices,
    ev.ProjectAttached: _project,
    ev.ProjectDetached: lambda state, event: state.position(event.project),
    ev.ContactAsked: lambda state, event: state.position(event.project),
    ev.ReplyReceived: _reply,
    ev.ContactFailed: _contact_under_way,
    ev.ContactSlow: _contact_waited_for,
    ev.JobsFound: lambda state, event: _new_jobs(state, event.jobs),
    ev.JobReady: _job_may("ready"),
    ev.DownloadStalled: lambda state, event: state.job(event.job),
    ev.JobSuspended: lambda state, event: state.job(event.job),
    ev.JobCheckpointed: _job_has_run,
    ev.JobFinished: _job_may("end"),
    ev.JobFailed: _job_may("end"),
    ev.JobDeferred: _job_stopped,
    ev.TaskStopped: _job_stopped,
    ev.JobUploaded: _job_may("uploaded"),
}


_ROUNDING = 1e-9


class BrokenRule(PolicyViolation):
    """The client's memory is not sound: a fault of the core or of its policy."""


def broken_rules(state: CoreState) -> list[str]:
    """Return the violated rules, in words; nothing if there are none."""
    return [*_lists(state), *_jobs(state), *_projects(state), *_instances(state), *_valid_times(state)]


def _lists(s: CoreState) -> Iterator[str]:
    """Check that the lists of jobs agree with one another."""
    all_jobs = [*s.jobs, *s.finished]
    if len(s.by_id) != len(all_jobs) or any(s.by_id.get(job.id) is not job for job in all_jobs):
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


def _jobs(s: CoreState) -> Iterator[str]:
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


def _projects(s: CoreState) -> Iterator[str]:
    """Check that each project has the queue of its jobs, and that a contact is with one of them."""
    names = [project.description.id for project in s.projects]
    if len(set(names)) < len(names):
        yield "a project is attached twice"
    contacts = [each.project for each in (s.contact, *s.slow) if each is not None]
    yield from (
        f"a contact with {each!r} is under way, which is not attached"
        for each in contacts
        if each not in names
    )
    if len(set(contacts)) < len(contacts):
        yield "two contacts with one project are under way"
    if s.plan.project is not None and not 0 <= s.plan.project < len(names):
        yield "the plan of work fetch names a project that is not attached"
    mine: list[list[ClientJob]] = [[] for _ in names]
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


def _instances(s: CoreState) -> Iterator[str]:
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


def _valid_times(s: CoreState) -> Iterator[str]:
    """Check that all times are times."""
    times: Iterable[float] = (s.now, s.clock, s.next_schedule, s.next_fetch, s.look_again, s.alarm)
    if any(map(isnan, times)):
        yield f"a time is not a number: {times}"
    for project in s.projects:
        if isnan(project.not_before) or any(map(isnan, (end for _, end in project.backoffs.values()))):
            yield f"a wait of {project.description.id!r} is not a number"
