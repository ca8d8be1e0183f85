"""What the core of decisions does not know yet of jobs: compared with what it knows, so that nothing is told twice."""

from __future__ import annotations

from cobblestone.client.decisions import job_id, job_place
from cobblestone.client.scheduler_reply import describe_job, missing_files
from cobblestone.client.state import State
from cobblestone.policy.client.core.events import DownloadStalled
from cobblestone.policy.client.core.state import ClientState, Phase
from cobblestone.policy.client.core.values import JobDescription

_CHANGEABLE = ("cpus", "gpus", "exact_fraction", "report_immediately")


def changed_descriptions(state: State, core: ClientState) -> tuple[JobDescription, ...]:
    """Return the jobs that the core knows otherwise than the volunteer's files make them now."""
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


def stalled_downloads(state: State, core: ClientState, now: float) -> list[DownloadStalled]:
    """Return which jobs wait for files that do not come, or do so no more: they are no work that devices could do."""
    found: list[DownloadStalled] = []
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
            found.append(DownloadStalled(now, known.id, stalled))
    return found
