"""Whether an event can have happened: asked before it changes anything, so that one that is refused leaves no trace.

What apps and servers say is brought within bounds where it is taken in; here is what a driver has to get right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from cobblestone.domain.errors import IllegalTransition
from cobblestone.policy.client.availability import HostTimes
from cobblestone.policy.client.core import events as ev
from cobblestone.policy.client.core.state import ENDED_PHASES, LONGEST, MOST_INSTANCES, ClientState, Phase
from cobblestone.policy.client.core.values import (
    Gpu,
    HostDevices,
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


def require_possible(state: ClientState, event: ev.Event) -> None:
    """Look at an event.  Raises :class:`IllegalTransition` if it cannot have happened, and says why."""
    if not math.isfinite(event.now):
        raise IllegalTransition(f"{event.now} is no time")
    check = _CHECKS.get(type(event))
    if check is not None:
        check(state, event)


def _job_may(cause: str) -> Callable[[ClientState, Any], None]:
    def check(state: ClientState, event: ev.JobReady) -> None:
        state.job(event.job).after(cause)

    return check


def _job_known(state: ClientState, event: ev.JobSuspended) -> None:
    state.job(event.job)


def _job_stopped(state: ClientState, event: ev.TaskStopped) -> None:
    job = state.job(event.job)
    if job.phase not in ENDED_PHASES:  # news of a process that had to go
        job.after("stopped")


def _job_has_run(state: ClientState, event: ev.JobCheckpointed) -> None:
    job = state.job(event.job)
    if job.phase in (Phase.DOWNLOADING, Phase.WAITING):
        raise IllegalTransition(f"job {job.id!r} is {job.phase}: it cannot checkpoint")


def _project_known(state: ClientState, event: ev.ProjectDetached) -> None:
    state.position(event.project)


def _contact_under_way(state: ClientState, event: ev.ContactFailed | ev.ReplyReceived) -> None:
    if state.contact is None or state.contact.project != event.project:
        raise IllegalTransition(f"no contact with {event.project!r} is under way")


def _reply(state: ClientState, event: ev.ReplyReceived) -> None:
    _contact_under_way(state, event)
    _new_jobs(state, event.jobs)


def _new_jobs(state: ClientState, jobs: Iterable[JobDescription]) -> None:
    seen: set[str] = set()
    for each in jobs:
        if each.id in state.by_id or each.id in seen:
            raise IllegalTransition(f"job {each.id!r} is here already")
        seen.add(each.id)
        state.position(each.project)


def _preferences(state: ClientState, event: ev.PreferencesChanged) -> None:
    _within_bounds(event.preferences)


def _permission(state: ClientState, event: ev.PermissionChanged) -> None:
    _within_bounds(event.permission)


def _devices(state: ClientState, event: ev.DevicesChanged) -> None:
    _within_bounds(event.devices)
    for gpu in event.devices.gpus:
        _within_bounds(gpu)


def _project(state: ClientState, event: ev.ProjectAttached) -> None:
    _within_bounds(event.project)
    for app, most in event.project.app_max_concurrent.items():
        _require(f"app_max_concurrent of {app!r}", most, (0, _MANY))


def _times(state: ClientState, event: ev.AvailabilityKnown) -> None:
    _within_bounds(event.times)


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
_CHECKS: Mapping[type[ev.Event], Callable[[ClientState, Any], None]] = {  # Any: the event of that kind
    ev.AvailabilityKnown: _times,
    ev.PreferencesChanged: _preferences,
    ev.PermissionChanged: _permission,
    ev.DevicesChanged: _devices,
    ev.ProjectAttached: _project,
    ev.ProjectDetached: _project_known,
    ev.ContactAsked: _project_known,
    ev.ReplyReceived: _reply,
    ev.ContactFailed: _contact_under_way,
    ev.JobsFound: lambda state, event: _new_jobs(state, event.jobs),
    ev.JobReady: _job_may("ready"),
    ev.DownloadStalled: _job_known,
    ev.JobSuspended: _job_known,
    ev.JobCheckpointed: _job_has_run,
    ev.JobFinished: _job_may("end"),
    ev.JobFailed: _job_may("end"),
    ev.JobDeferred: _job_stopped,
    ev.TaskStopped: _job_stopped,
    ev.JobUploaded: _job_may("uploaded"),
}
