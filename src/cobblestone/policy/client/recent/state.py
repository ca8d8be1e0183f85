"""Inputs of policies that know GPUs, limits and memory, from the client's state, and when a finished job is reported.

When a finished job is reason enough to contact its project (today's family).

Source: BOINC's ``scheduler_op`` of today (``find_project_with_overdue_results``).
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence

from cobblestone.domain.values import changed, form_of
from cobblestone.policy.client.core.protocol import Changes
from cobblestone.policy.client.core.reasons import Why, named, why
from cobblestone.policy.client.core.state import NEVER, ClientJob, CoreState, Phase, PlannedFetch
from cobblestone.policy.client.core.values import next_type_backoff, type_backoff_delay
from cobblestone.policy.client.recent.concurrency import ProjectLimits
from cobblestone.policy.client.recent.picks import QueueProject
from cobblestone.policy.client.recent.rec import Devices, GpuType, gpu_relative_speed
from cobblestone.policy.client.recent.round_robin import RoundRobinOutlook
from cobblestone.policy.client.recent.work_fetch import DeviceFetchProject, queued_work

#: Seconds after which a finished job is reported in any case.
REPORT_AFTER = 3600.0
#: Seconds before its deadline from which it is reported at once.
BEFORE_DEADLINE = 86400.0
#: Seconds before the network or computing is suspended from which everything is reported.
BEFORE_SUSPENSION = 1800.0
#: So many finished jobs are reported at once.
MANY = 64
#: Seconds for which an upload that has begun holds other contacts with its project back: one will do for both.
YOUNG_UPLOAD = 300.0


def report_time(state: CoreState, job: ClientJob) -> float:
    """Return the time from which on a finished job is due; other jobs and suspensions may make it due before."""
    prefs = state.preferences
    at_once = job.report_immediately or prefs.report_at_once or prefs.connection_interval > 0.0
    usual = job.completed_at if at_once else job.completed_at + REPORT_AFTER
    usual = max(usual, state.projects[job.project].upload_since + YOUNG_UPLOAD)
    return min(job.report_deadline - max(BEFORE_DEADLINE, prefs.buffer_min), usual)


def why_now(state: CoreState, job: ClientJob) -> Why | None:
    """Return why a finished job must be reported at once under any policy, None if the policy decides."""
    if job.report_immediately or state.preferences.report_at_once:
        return why("report.at_once", job=job.id)
    if state.projects[job.project].description.no_new_work:
        return why("report.no_new_work", job=job.id)
    return why("report.suspension", job=job.id) if state.now >= before_suspension(state) - 1e-6 else None


def before_suspension(state: CoreState) -> float:
    """Return when everything is to be reported since a suspension is known to come; infinite if none is."""
    allowed = state.permission
    ends = [end - BEFORE_SUSPENSION for end in (allowed.cpu_ends, allowed.network_ends) if end is not None]
    return min(ends, default=NEVER)


def why_report(state: CoreState, job: ClientJob) -> Why | None:
    """Return why a finished job is to be reported now, None if it is not."""
    now, project = state.now, state.projects[job.project]
    if now - project.upload_since >= YOUNG_UPLOAD:
        if project.description.no_new_work:
            return why("report.no_new_work", job=job.id)
        if state.ready[job.project] >= MANY:
            return why("report.many", job=job.id, count=MANY)
    if now < max(job.completed_at, min(job.report_at, before_suspension(state))) - 1e-6:
        return None
    if job.report_immediately or state.preferences.report_at_once:
        return why("report.at_once", job=job.id)
    if state.preferences.connection_interval > 0.0:
        return why("report.sporadic", job=job.id)
    if now >= job.report_deadline - max(BEFORE_DEADLINE, state.preferences.buffer_min):
        return why("report.deadline", job=job.id)
    if now >= job.completed_at + REPORT_AFTER - 1e-6:
        return why("report.hour", job=job.id)
    return why("report.suspension", job=job.id)


def usable_devices(state: CoreState) -> Devices:
    """Return the devices that may be used now."""
    host = state.devices
    gpus = () if state.permission.gpu else host.gpus
    return Devices(
        ncpus=max(1, state.ncpus),
        cpu_flops=host.cpu_flops,
        gpus=tuple(
            form_of(
                GpuType,
                g,
                relative_speed=gpu_relative_speed(peak_flops=g.peak_flops, cpu_flops=host.cpu_flops),
            )
            for g in gpus
        ),
    )


def project_limits(state: CoreState) -> list[ProjectLimits]:
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
    state: CoreState, recs: Sequence[float], limits: Sequence[ProjectLimits]
) -> list[QueueProject]:
    """Return the projects as look ahead and run list see them."""
    return [
        QueueProject(share=p.share, rec=rec, limits=each, group=p.description.priority_group)
        for p, rec, each in zip(state.projects, recs, limits, strict=True)
    ]


def gpu_available(state: CoreState) -> float:
    """Return the part of the time in which GPUs are expected to compute."""
    return max(0.01, state.on.at(state.now) * state.gpu_active.at(state.now))


def mark_endangered(state: CoreState, queue: Sequence[ClientJob], outlook: RoundRobinOutlook) -> None:
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


def instances_being_left(state: CoreState) -> dict[str, list[int]]:
    """Return the GPU instances, by type, of tasks that were told to quit and are not gone yet."""
    quitting: dict[str, list[int]] = {}
    for job in (*state.jobs, *state.finished):
        if job.phase in (Phase.QUITTING, Phase.GIVEN_UP) and job.gpu:
            quitting.setdefault(job.gpu, []).extend(job.instances)
    return quitting


def run_as_listed(
    running: Sequence[ClientJob], wanted: Sequence[ClientJob], instances: Mapping[int, tuple[int, ...]]
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
    state: CoreState,
    i: int,
    *,
    supplies: frozenset[str],
    rec: float,
    dcf: float,
    devices: Devices,
    limits: ProjectLimits,
    uploading: int,
) -> DeviceFetchProject:
    """Return the inputs of work fetch for the project at position ``i``, asked for device types of ``supplies`` at most."""
    now = state.now
    p = state.projects[i]
    d = p.description
    held = [job for job in state.jobs if job.project == i]
    flops, queued, seconds = queued_work(p.queue, devices)
    supplies = supplies.intersection(d.supplies).difference(d.forbidden)
    return form_of(
        DeviceFetchProject,
        d,
        p,
        rec=rec,
        supplies=supplies,
        contactable=p.not_before <= now,
        group=d.priority_group,
        backed_off=frozenset(k for k in supplies if p.backoffs.get(k, (0.0, 0.0))[1] > now),
        deferred=frozenset([job.gpu for job in held if job.deferred(now)]),
        runnable=len(p.queue),
        held=len(held),
        waiting=sum([not job.running for job in held]),
        uploading=uploading,
        uploads_young=now - p.upload_since < YOUNG_UPLOAD,
        fetches_on_update=state.preferences.fetch_on_update and p.contact_asked == "user",
        dcf=dcf,
        queued_flops=flops,
        queued_instances=queued,
        queued_seconds=seconds,
        blocked=any(job.stalled or job.suspended for job in held),
        limits=limits,
    )


def back_off_types(
    state: CoreState, project: int, asked: Collection[str], jobs: Sequence[ClientJob], *, rng: random.Random
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


def first_supplier_of(state: CoreState, kinds: Collection[str]) -> float:
    """Return from when on some project may be asked for one of these device types; infinite if none ever."""
    times = [
        max(project.not_before, project.backoffs.get(kind, (0.0, 0.0))[1])
        for project in state.projects
        if project.open
        for kind in kinds
        if kind in project.description.supplies
    ]
    return min(times, default=NEVER)


def explained(state: CoreState, plan: PlannedFetch) -> PlannedFetch:
    """Return a plan whose reasons name projects by identity, and let these know why they are asked for work, or are not."""
    reasons = named(plan.why, [project.description.id for project in state.projects])
    for reason in reasons:
        if "project" in reason.values:
            state.projects[state.position(str(reason.values["project"]))].why = (reason,)
    return changed(plan, why=reasons)


def together(plan: PlannedFetch, more: PlannedFetch) -> PlannedFetch:
    """Return one plan of two that ask for different device types; who is to be contacted for ``more`` goes first."""
    others = {i: {**plan.others.get(i, {}), **more.others.get(i, {})} for i in {**plan.others, **more.others}}
    for each in (plan, more):
        if each.project is not None:
            others[each.project] = {**others.get(each.project, {}), **each.requests}
    first = plan.project if more.project is None else more.project
    requests = {} if first is None else others.pop(first)
    return PlannedFetch(first, requests, others, (*plan.why, *more.why))
