"""What policies that know GPUs, limits and memory look at in the client's state, and what they do alike."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping, Sequence

from cobblestone.policy.client.backoff import next_type_backoff, type_backoff_delay
from cobblestone.policy.client.concurrency import ProjectLimits
from cobblestone.policy.client.core.protocol import Changes
from cobblestone.policy.client.core.reasons import Why
from cobblestone.policy.client.core.state import NEVER, ClientState, FetchPlan, Job, Phase
from cobblestone.policy.client.core.values import WorkRequest
from cobblestone.policy.client.device_picks import QueueProject
from cobblestone.policy.client.device_round_robin import Outlook
from cobblestone.policy.client.device_work_fetch import DeviceFetchProject, Requests, queued_work
from cobblestone.policy.client.rec import Devices, GpuType, gpu_relative_speed
from cobblestone.policy.client.report_times import YOUNG_UPLOAD


def usable_devices(state: ClientState) -> Devices:
    """Return the devices that may be used now."""
    host = state.devices
    gpus = () if state.permission.gpu else host.gpus
    return Devices(
        ncpus=max(1, state.ncpus),
        cpu_flops=host.cpu_flops,
        gpus=tuple(
            GpuType(
                name=g.name,
                count=g.count,
                relative_speed=gpu_relative_speed(peak_flops=g.peak_flops, cpu_flops=host.cpu_flops),
                suspended=g.suspended,
            )
            for g in gpus
        ),
    )


def project_limits(state: ClientState) -> list[ProjectLimits]:
    """Return the volunteer's limits on each project."""
    return [
        ProjectLimits(
            max_concurrent=p.description.max_concurrent,
            app_max_concurrent=dict(p.description.app_max_concurrent),
            exclusions=p.description.gpu_exclusions,
        )
        for p in state.projects
    ]


def queue_projects(
    state: ClientState, recs: Sequence[float], limits: Sequence[ProjectLimits]
) -> list[QueueProject]:
    """Return the projects as look ahead and run list see them."""
    return [
        QueueProject(share=p.share, rec=rec, limits=each, group=p.description.priority_group)
        for p, rec, each in zip(state.projects, recs, limits, strict=True)
    ]


def gpu_available(state: ClientState) -> float:
    """Return the part of the time in which GPUs are expected to compute."""
    return max(0.01, state.on.at(state.now) * state.gpu_active.at(state.now))


def mark_endangered(state: ClientState, queue: Sequence[Job], outlook: Outlook) -> None:
    """Mark the jobs to be run by deadline; ``outlook`` is of this queue.

    A mark lasts for a time slice, so that jobs do not take turns at the edge of being late, and a job that has begun to
    run by its deadline keeps it while others of its project would be late.  A job that cannot be in time whatever is done
    is not hurried: it would only make others late.
    """
    now, span = state.now, state.slice
    for position, job in enumerate(queue):
        if position in outlook.late:
            job.late_since = now
        elif job.late_since is not None and now - job.late_since >= span:
            domino = job.edf and job.start_order and outlook.misses.get((job.project, job.gpu))
            job.late_since = now if domino else None
        job.edf = job.late_since is not None and now + job.remaining <= job.report_deadline


def instances_being_left(state: ClientState) -> dict[str, list[int]]:
    """Return the GPU instances, by type, of tasks that were told to quit and are not gone yet."""
    quitting: dict[str, list[int]] = {}
    for job in (*state.jobs, *state.finished):
        if job.phase in (Phase.QUITTING, Phase.GIVEN_UP) and job.gpu:
            quitting.setdefault(job.gpu, []).extend(job.instances)
    return quitting


def run_as_listed(
    running: Sequence[Job], wanted: Sequence[Job], instances: Mapping[int, tuple[int, ...]]
) -> Changes:
    """Run a list as it is; a task whose GPU instances (by id()) have changed is stopped and started again."""
    ids = {id(job) for job in wanted}
    preempt = [
        job
        for job in running
        if id(job) not in ids or (job.gpu and instances.get(id(job), job.instances) != job.instances)
    ]
    moved = {id(job) for job in preempt}
    start = [job for job in wanted if job.runnable and not job.running and id(job) not in moved]
    for job in start:
        job.instances = instances.get(id(job), job.instances)
    return Changes(start, preempt)


def fetch_project(
    state: ClientState,
    i: int,
    *,
    supplies: frozenset[str],
    rec: float,
    dcf: float,
    devices: Devices,
    limits: ProjectLimits,
) -> DeviceFetchProject:
    """Return what work fetch looks at in the project at position ``i``, asked for device types of ``supplies`` at most."""
    now = state.now
    p = state.projects[i]
    d = p.description
    held = [job for job in state.jobs if job.project == i]
    flops, queued, seconds = queued_work(p.queue, devices)
    supplies = supplies.intersection(d.supplies).difference(d.forbidden)
    return DeviceFetchProject(
        share=p.share,
        rec=rec,
        supplies=supplies,
        contactable=p.not_before <= now,
        suspended=d.suspended,
        no_new_work=d.no_new_work,
        group=d.priority_group,
        non_cpu_intensive=d.non_cpu_intensive,
        first_contact=p.first_contact,
        backed_off=frozenset(k for k in supplies if p.backoffs.get(k, (0.0, 0.0))[1] > now),
        deferred=frozenset([job.gpu for job in held if job.deferred(now)]),
        runnable=len(p.queue),
        held=len(held),
        waiting=sum([not job.running for job in held]),
        uploading=sum(j.phase is Phase.UPLOADING and j.project == i for j in state.finished),
        uploads_young=now - p.upload_since < YOUNG_UPLOAD,
        fetches_on_update=state.preferences.fetch_on_update and p.contact_asked == "user",
        dcf=dcf,
        queued_flops=flops,
        queued_instances=queued,
        queued_seconds=seconds,
        blocked=any(job.stalled or job.suspended for job in held),
        limits=limits,
    )


def as_told(requests: Requests, outlook: Outlook) -> dict[str, WorkRequest]:
    """Return requests with the seconds until a job sent now could start."""
    return {
        kind: WorkRequest(r.seconds, r.instances, outlook.devices[kind].busy) for kind, r in requests.items()
    }


def back_off_types(
    state: ClientState, project: int, asked: Collection[str], jobs: Sequence[Job], *, rng: random.Random
) -> None:
    """Leave a project alone for a while with device types for which it was asked and had nothing."""
    row = state.projects[project]
    row.failures = 0
    got = {job.gpu for job in jobs}
    for kind in asked:
        interval, end = row.backoffs.get(kind, (0.0, 0.0))
        if kind not in got and end <= state.now:
            interval = next_type_backoff(interval)
            row.backoffs[kind] = (interval, state.now + type_backoff_delay(interval, rng=rng))


def first_supplier_of(state: ClientState, kinds: Collection[str]) -> float:
    """Return from when on some project may be asked for one of these device types; infinite if none ever."""
    times = [
        max(project.not_before, project.backoffs.get(kind, (0.0, 0.0))[1])
        for project in state.projects
        if project.open
        for kind in kinds
        if kind in project.description.supplies
    ]
    return min(times, default=NEVER)


def note_reasons(state: ClientState, reasons: Iterable[Why]) -> None:
    """Let projects know why they are asked for work, or are not; reasons name them by identity."""
    for reason in reasons:
        if "project" in reason.values:
            state.projects[state.position(str(reason.values["project"]))].why = (reason,)


def together(plan: FetchPlan, more: FetchPlan) -> FetchPlan:
    """Return one plan of two that ask for different device types; who is to be contacted for ``more`` goes first."""
    others = {i: {**plan.others.get(i, {}), **more.others.get(i, {})} for i in {**plan.others, **more.others}}
    for each in (plan, more):
        if each.project is not None:
            others[each.project] = {**others.get(each.project, {}), **each.requests}
    first = plan.project if more.project is None else more.project
    requests = {} if first is None else others.pop(first)
    return FetchPlan(first, requests, others, (*plan.why, *more.why))
