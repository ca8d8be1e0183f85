"""Why a job runs or waits, and why a project is asked or not, as things stand."""

from __future__ import annotations

from cobblestone.policy.client.core.reasons import Why, why
from cobblestone.policy.client.core.state import ClientState, Job, Phase, Project

_BY_PHASE = {
    Phase.QUITTING: "wait.quitting",
    Phase.GIVEN_UP: "wait.given_up",
    Phase.UPLOADING: "wait.uploading",
    Phase.REPORTABLE: "wait.report",
}


def why_job(state: ClientState, job: Job) -> tuple[Why, ...]:
    """Return every reason that holds; of a running job those for which it was started."""
    return job.why if job.running else why_waits(state, job) or job.why or (why("wait.turn"),)


def why_waits(state: ClientState, job: Job) -> tuple[Why, ...]:
    """Return what keeps a job from running whatever others do; nothing if it only waits for its turn."""
    if job.phase in _BY_PHASE:
        return (
            (why(_BY_PHASE[job.phase]), *job.why)
            if job.phase is Phase.GIVEN_UP
            else (why(_BY_PHASE[job.phase]),)
        )
    allowed = state.permission
    found: list[Why] = []
    if job.suspended:
        found.append(why("wait.suspended"))
    if state.projects[job.project].description.suspended:
        found.append(why("wait.project_suspended"))
    if job.phase is Phase.DOWNLOADING:
        found.append(why("wait.stalled" if job.stalled else "wait.files"))
    if job.deferred(state.now):
        found.append(why("wait.deferred", minutes=(job.deferred_until - state.now) / 60.0))
    if allowed.cpu:
        found.append(why("wait.cpu_suspended", cause=allowed.cpu))
    if job.gpu and allowed.gpu:
        found.append(why("wait.gpu_suspended", cause=allowed.gpu))
    if job.needs_network and allowed.network:
        found.append(why("wait.network_suspended", cause=allowed.network))
    return tuple(found)


def why_project(state: ClientState, project: Project) -> tuple[Why, ...]:
    """Return why it was last asked for work, or is not."""
    d = project.description
    if d.suspended:
        return (why("fetch.suspended", project=d.id),)
    if d.no_new_work:
        return (why("fetch.no_new_work", project=d.id), *project.why)
    return project.why
