"""Convert a scheduler request and the stored state of its host to the request for work that the dispatch rule sees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from cobblestone.domain.apps import generalised_on_gpu, is_generalised
from cobblestone.domain.computing import DispatchPreferences
from cobblestone.domain.hosts import CPU, Coprocessor, Host, HostAppVersion, HostDescription
from cobblestone.domain.people import ProjectPreferences, User
from cobblestone.domain.reasons import Reason
from cobblestone.domain.values import DAY, AppVersionId, HostId, changed, form_of
from cobblestone.policy.dispatch.budget import usable_capacity
from cobblestone.policy.dispatch.catalogue import Catalogue, availability
from cobblestone.policy.dispatch.deadline_check import BookedJob
from cobblestone.policy.dispatch.limits import DispatchLimits
from cobblestone.policy.dispatch.request import ANONYMOUS_PLATFORM, ResourceRequest, WorkRequest
from cobblestone.policy.dispatch.versions import OwnVersion, own_version_faults
from cobblestone.store.engine.database import Database
from cobblestone.store.people import hosts, users
from cobblestone.store.work import dispatch, messages
from cobblestone.store.work.dispatch import JobInProgress
from cobblestone.wire.project.preferences import NO_KEYWORDS, UserKeywords, read_project_preferences
from cobblestone.wire.scheduler.host import ALWAYS_SENT
from cobblestone.wire.scheduler.request import SchedulerRequest


def first_questions(db: Database, message: SchedulerRequest) -> None:
    """Ask about account, computer, its records, messages and jobs, and the results that it reports."""
    users.user_by_authenticator(db, message.authenticator)
    if message.hostid > 0:
        host_id = HostId(message.hostid)
        hosts.host_by_id(db, host_id)
        hosts.records_of_host(db, host_id)
        messages.waiting_messages(db, host_id)
        dispatch.jobs_in_progress(db, host_id)
    dispatch.rows_to_report(db, [item.name for item in message.results])


_GPU_TYPES = {"CUDA": "NVIDIA", "AMD": "ATI"}  # old and new names of the same


def describe_host(message: SchedulerRequest) -> HostDescription:
    """Return the host as this request describes it."""
    info, stats, disk = message.host_info, message.time_stats, message.disk_usage
    return form_of(
        HostDescription,
        info,
        disk,
        stats,
        n_bwup=message.net_stats.bwup,
        n_bwdown=message.net_stats.bwdown,
        client_version=message.client_version,
        coprocessors=tuple(form_of(Coprocessor, gpu) for gpu in message.coprocs),
    )


#: The fields of a description that an element about the computer tells.
_FIELDS: Mapping[str, tuple[str, ...]] = {
    **{name: (name,) for name in ALWAYS_SENT},
    "bwup": ("n_bwup",),
    "bwdown": ("n_bwdown",),
    "os_name": ("os_name", "product_name", "virtualbox_version", "docker_version"),  # some have no others
}


def with_known(
    description: HostDescription, known: HostDescription, message: SchedulerRequest
) -> HostDescription:
    """Return the description with what is known already where an element is absent or no usable number: absent is not zero."""
    names = [name for element in message.unsaid for name in _FIELDS[element]]
    return changed(description, **{name: getattr(known, name) for name in names}) if names else description


def own_versions(message: SchedulerRequest) -> tuple[OwnVersion, ...]:
    """Return the app versions of an anonymous-platform client."""
    if not message.platforms or message.platforms[0] != ANONYMOUS_PLATFORM:
        return ()
    return tuple(
        form_of(
            OwnVersion,
            each,
            gpu_type=_GPU_TYPES.get(each.coproc_type, each.coproc_type) if each.coproc_count > 0 else "",
            ngpus=each.coproc_count,
        )
        for each in message.app_versions
        if each.app_name
    )


def faults_of_the_day(
    message: SchedulerRequest, host: Host, catalogue: Catalogue, *, now: float
) -> tuple[Reason, ...]:
    """Return what the client's ``app_info.xml`` lacks, in the first request of a day (UTC); otherwise nothing."""
    brought = own_versions(message)
    said_today = host.create_time < now and now // DAY == host.rpc_time // DAY
    if not brought or said_today:
        return ()
    return own_version_faults(brought, catalogue, platforms=message.platforms[1:])


STICKY_PRESENT = 1


def with_capacity(
    description: HostDescription,
    message: SchedulerRequest,
    *,
    preferences: ProjectPreferences,
    limits: DispatchLimits,
) -> HostDescription:
    """Return the description with the resources that the volunteer's preferences leave to the client."""
    computing = message.working_global_preferences or message.global_preferences
    capacity = usable_capacity(
        description, computing or DispatchPreferences(), preferences=preferences, limits=limits
    )
    return changed(
        description,
        platforms=message.platforms,
        usable_ncpus=capacity.ncpus,
        usable_ram=capacity.ram_bytes,
        usable_disk=capacity.disk_bytes,
    )


def project_preferences(
    user: User | None, host: Host, keywords: UserKeywords | None = None
) -> ProjectPreferences:
    """Return the user's preferences for this host's venue, with the keywords that the client has of an account manager."""
    found = read_project_preferences("" if user is None else user.project_prefs, host.venue)
    if not keywords or keywords == NO_KEYWORDS:
        return found
    return changed(
        found,
        keywords_yes=found.keywords_yes.union(keywords.yes),
        keywords_no=found.keywords_no.union(keywords.no),
    )


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
    """Return the host's request, with all that the rule may know about it."""
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
    """Return whether the version of a job uses a GPU."""
    version_id = job.app_version_id
    if version_id is not None and is_generalised(version_id):
        return generalised_on_gpu(version_id)
    plan_class = catalogue.plan_class_of(version_id)
    return plan_class is not None and bool(plan_class.gpu_type)


def _workload(message: SchedulerRequest, host: Host, now: float) -> tuple[BookedJob, ...]:
    """Return the jobs that the client holds, of all projects: seconds to their deadlines, and seconds they take."""
    available = availability(host.description)
    computing = message.working_global_preferences or message.global_preferences
    early = DAY * computing.work_buf_min_days if computing is not None else 0.0
    return tuple(
        BookedJob(job.report_deadline - now - early, job.time_remaining / available)
        for job in message.in_progress_results
        if job.report_deadline > 0 and job.avg_ncpus > 0
    )
