"""Events for the decision core: changes in jobs, and possible changes while the client was not running."""

from __future__ import annotations

from cobblestone.client.conditions.conditions import Conditions
from cobblestone.client.projects.scheduler_reply import describe_job, missing_files
from cobblestone.client.records.decisions import CoreDriver, job_id, job_place
from cobblestone.client.records.measurements import known_times
from cobblestone.client.records.state import ClientDatabase
from cobblestone.policy.client.core import events as ev
from cobblestone.policy.client.core.state import CoreState, Phase
from cobblestone.policy.client.core.values import JobDescription
from cobblestone.wire.client.records import ClientJobState, ProjectContent

_CHANGEABLE = ("cpus", "gpus", "exact_fraction", "report_immediately")


def changed_descriptions(state: ClientDatabase, core: CoreState) -> tuple[JobDescription, ...]:
    """Return the jobs whose descriptions in the core differ from those that the volunteer's files give now."""
    found: list[JobDescription] = []
    for content in state.contents.values():
        for job in content.jobs.values():
            known = core.by_id.get(job_id(job.project, job.name))
            if known is None:
                continue
            now = describe_job(content, job)
            if any(getattr(now, name) != getattr(known, name) for name in _CHANGEABLE):
                found.append(now)
    return tuple(found)


def stalled_downloads(state: ClientDatabase, core: CoreState, now: float) -> list[ev.DownloadStalled]:
    """Return which jobs wait for files that do not arrive, or no longer do: they are no work for devices."""
    found: list[ev.DownloadStalled] = []
    for known in core.jobs:
        if known.phase is not Phase.DOWNLOADING:
            continue
        project, name = job_place(known.id)
        content = state.contents.get(project)
        job = content.jobs.get(name) if content else None
        if content is None or job is None:
            continue
        stalled = any(
            file.num_retries > 0 and file.next_request_time > now for file in missing_files(content, job)
        )
        if stalled != known.stalled:
            found.append(ev.DownloadStalled(now, known.id, stalled))
    return found


def events_at_start(
    state: ClientDatabase, conditions: Conditions, decisions: CoreDriver, now: float
) -> list[ev.Event]:
    """Return the events after a restart: processes are gone; all else is as the core remembers it, or is told again."""
    core = decisions.core.state
    events: list[ev.Event] = [ev.HostOn(now)]
    times = known_times(state.notes.time_stats)
    if times is not None and not decisions.restored:
        events.append(ev.AvailabilityKnown(now, times))
    events += [
        ev.PreferencesChanged(now, conditions.scheduling()),
        ev.DevicesChanged(now, conditions.devices()),
    ]
    known = {job.id for job in (*core.jobs, *core.finished)}
    for content in state.contents.values():
        events.append(ev.ProjectAttached(now, conditions.describe_project(content)))
        events += _unknown_jobs(content, known, now)
    events += [
        ev.TaskStopped(now, job.id)
        for job in core.jobs
        if job.phase in (Phase.RUNNING, Phase.IN_MEMORY, Phase.QUITTING)
    ]
    return events


def _unknown_jobs(content: ProjectContent, known: set[str], now: float) -> list[ev.Event]:
    jobs = [job for job in content.jobs.values() if job_id(job.project, job.name) not in known]
    if not jobs:
        return []
    events: list[ev.Event] = [ev.JobsFound(now, tuple(describe_job(content, job) for job in jobs))]
    for job in jobs:
        if job.completed_time:
            computed = job.state in (ClientJobState.UPLOADING, ClientJobState.UPLOADED)
            kind = ev.JobFinished if computed else ev.JobFailed
            uploading = job.state is ClientJobState.UPLOADING
            events.append(kind(now, job_id(job.project, job.name), job.final_elapsed_time, uploading))
    return events
