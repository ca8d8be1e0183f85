"""From a scheduler request and what is stored of its host to a request for work, as the dispatch rule sees it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from cobblestone.domain.apps import generalised_on_gpu, is_generalised
from cobblestone.domain.hosts import CPU, Host, HostAppVersion, HostDescription
from cobblestone.domain.ids import AppVersionId
from cobblestone.domain.people import ProjectPreferences, User
from cobblestone.domain.values import changed
from cobblestone.policy.dispatch.capacity import usable_capacity
from cobblestone.policy.dispatch.catalogue import Catalogue
from cobblestone.policy.dispatch.deadline_check import BookedJob
from cobblestone.policy.dispatch.limits import DispatchLimits
from cobblestone.policy.dispatch.request import ResourceRequest, WorkRequest
from cobblestone.policy.estimate.speed import availability
from cobblestone.server.scheduler.request_facts import computing_preferences, own_versions
from cobblestone.store.work.dispatch import JobInProgress
from cobblestone.wire.preferences import read_project_preferences
from cobblestone.wire.scheduler_request import SchedulerRequest

DAY = 86400.0
STICKY_PRESENT = 1


def with_capacity(
    description: HostDescription,
    message: SchedulerRequest,
    *,
    preferences: ProjectPreferences,
    limits: DispatchLimits,
) -> HostDescription:
    """Return the description with what the volunteer's preferences leave to the client."""
    computing = message.working_global_preferences or message.global_preferences
    capacity = usable_capacity(
        description, computing_preferences(computing), preferences=preferences, limits=limits
    )
    return changed(
        description,
        platforms=message.platforms,
        usable_ncpus=capacity.ncpus,
        usable_ram=capacity.ram_bytes,
        usable_disk=capacity.disk_bytes,
    )


def project_preferences(user: User | None, host: Host) -> ProjectPreferences:
    """Return what the user chose for the place where this host stands."""
    return read_project_preferences("" if user is None else user.project_prefs, host.venue)


def work_request(
    message: SchedulerRequest,
    *,
    user: User,
    host: Host,
    preferences: ProjectPreferences,
    records: Mapping[AppVersionId, HostAppVersion],
    in_progress: Sequence[JobInProgress],
    catalogue: Catalogue,
    now: float,
) -> WorkRequest:
    """Return what this host asks for, with all that the rule may know of it."""
    resources = {
        CPU: ResourceRequest(
            seconds=message.cpu_req_secs or message.work_req_seconds,
            instances=message.cpu_req_instances,
            estimated_delay=message.cpu_estimated_delay,
        )
    }
    for gpu in message.coprocs:
        resources[gpu.type] = ResourceRequest(
            seconds=gpu.req_secs, instances=gpu.req_instances, estimated_delay=gpu.estimated_delay
        )
    description = host.description
    return WorkRequest(
        host=host,
        platforms=message.platforms,
        client_version=message.client_version,
        resources=resources,
        usable_ncpus=description.usable_ncpus,
        ram_bytes=description.usable_ram,
        disk_bytes=description.usable_disk,
        knows_plan_classes=message.client_cap_plan_class,
        own_versions=own_versions(message),
        in_progress=Counter(job.app_id for job in in_progress),
        in_progress_gpu=Counter(job.app_id for job in in_progress if uses_gpu(job, catalogue)),
        previous_request_time=host.rpc_time if host.rpc_seqno else 0.0,
        preferences=preferences,
        records=records,
        team_id=user.team_id,
        workload=_workload(message, host, now) if message.in_progress_results else (),
        sticky_files=frozenset(file.name for file in message.sticky_files if file.status == STICKY_PRESENT),
    )


def uses_gpu(job: JobInProgress, catalogue: Catalogue) -> bool:
    """Whether the version of a job uses a GPU."""
    version_id = job.app_version_id
    if version_id is not None and is_generalised(version_id):
        return generalised_on_gpu(version_id)
    return any(
        version.id == version_id
        and version.plan_class in catalogue.plan_classes
        and bool(catalogue.plan_classes[version.plan_class].gpu_type)
        for version in catalogue.versions.get(job.app_id, ())
    )


def _workload(message: SchedulerRequest, host: Host, now: float) -> tuple[BookedJob, ...]:
    """Return the jobs that the client holds, of all projects: seconds until each should be computed, and seconds it takes."""
    available = availability(host.description)
    computing = message.working_global_preferences or message.global_preferences
    early = DAY * computing.work_buf_min_days if computing is not None else 0.0
    return tuple(
        BookedJob(job.report_deadline - now - early, job.time_remaining / available)
        for job in message.in_progress_results
        if job.report_deadline > 0 and job.avg_ncpus > 0
    )
