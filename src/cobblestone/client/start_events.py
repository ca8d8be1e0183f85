"""What the core of decisions is told when the client starts: what has changed, or may have, while it did not run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cobblestone.client.decisions import job_id
from cobblestone.client.measurements import known_times
from cobblestone.client.scheduler_reply import describe_job
from cobblestone.policy.client.core.events import (
    AvailabilityKnown,
    DevicesChanged,
    Event,
    HostOn,
    JobFailed,
    JobFinished,
    JobsFound,
    PreferencesChanged,
    ProjectAttached,
    TaskStopped,
)
from cobblestone.policy.client.core.state import Phase
from cobblestone.wire.client_records import JobState, ProjectContent

if TYPE_CHECKING:
    from cobblestone.client.daemon import Client


def events_at_start(client: Client) -> list[Event]:
    """Return the events after a restart: processes are gone; all else is as the core remembers it, or is told anew."""
    now, conditions = client.clock(), client.conditions
    core = client.decisions.core.state
    events: list[Event] = [HostOn(now)]
    times = known_times(client.state.notes.time_stats)
    if times is not None and not client.decisions.restored:
        events.append(AvailabilityKnown(now, times))
    events += [
        PreferencesChanged(now, conditions.scheduling()),
        DevicesChanged(now, conditions.devices()),
    ]
    known = {job.id for job in (*core.jobs, *core.finished)}
    for content in client.state.contents.values():
        events.append(ProjectAttached(now, conditions.describe_project(content)))
        events += _unknown_jobs(content, known, now)
    events += [
        TaskStopped(now, job.id)
        for job in core.jobs
        if job.phase in (Phase.RUNNING, Phase.IN_MEMORY, Phase.QUITTING)
    ]
    return events


def _unknown_jobs(content: ProjectContent, known: set[str], now: float) -> list[Event]:
    jobs = [job for job in content.jobs.values() if job_id(job.project, job.name) not in known]
    if not jobs:
        return []
    events: list[Event] = [JobsFound(now, tuple(describe_job(content, job) for job in jobs))]
    for job in jobs:
        if job.completed_time:
            kind = JobFinished if job.state in (JobState.UPLOADING, JobState.UPLOADED) else JobFailed
            uploading = job.state is JobState.UPLOADING
            events.append(kind(now, job_id(job.project, job.name), job.final_elapsed_time, uploading))
    return events
