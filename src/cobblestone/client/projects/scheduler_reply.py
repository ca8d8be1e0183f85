"""Take over a scheduler's reply: into the client's records, and as the event for the core.

Everything is marked in the state and flushed by the caller together with the event: a reply counts wholly or not at all.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import TypeVar

from cobblestone.client.records.app_versions import version_in_force
from cobblestone.client.records.decisions import job_id
from cobblestone.client.records.journal import Journal
from cobblestone.client.records.state import ClientDatabase
from cobblestone.domain.errors import CobblestoneError
from cobblestone.domain.values import DAY, changed
from cobblestone.policy.client.core.events import ReplyReceived
from cobblestone.policy.client.core.values import CPU, JobDescription
from cobblestone.policy.client.host.tasks import limits_of
from cobblestone.wire.client.records import (
    ClientJobState,
    DailyCredit,
    FileRecord,
    FileStatus,
    JobRecord,
    ProjectContent,
    ProjectRecord,
)
from cobblestone.wire.project.preferences import read_project_preferences
from cobblestone.wire.scheduler.reply import HOST, USER, MessagePriority, ReadReply, SchedulerReply
from cobblestone.wire.text.table import FieldTable

T = TypeVar("T")


@dataclass(slots=True)
class TakenReply:
    """The changes by a reply beyond the records."""

    event: ReplyReceived
    preferences: str = ""  #: global ones, to be considered
    trickle_downs: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])  #: job name and text
    description_changed: bool = False
    moved_to: str = ""  #: the master URL that the project calls its own, if another


def take_reply(
    state: ClientDatabase,
    journal: Journal,
    content: ProjectContent,
    read: ReadReply,
    *,
    reported: tuple[str, ...],
    now: float,
) -> TakenReply:
    """Take over a reply; ``reported`` are the identities of the jobs that were in the request."""
    project, reply = content.project, read.reply
    before = (project.resource_share, project.dont_use_dcf, project.non_cpu_intensive, project.no_rsc_pref)
    project.project_name = reply.project_name or project.project_name  # what it says stands under its name
    _say(journal, project, reply)
    if reply.project_is_down:
        event = ReplyReceived(
            now, project.master_url, acknowledged=(), request_delay=max(reply.request_delay, 3600.0)
        )
        return TakenReply(event)
    _take_account(state, journal, project, read, now)
    _take_key(journal, project, reply)
    _take_flags(project, read)
    acknowledged = [content.jobs[name] for name in reply.result_acks if name in content.jobs]
    for job in acknowledged:
        job.got_server_ack = True
        state.put_job(job)
    if reply.message_ack:
        state.drop_trickles([row[0] for row in state.trickles(project.master_url)])
        project.trickle_up_pending = False
    _take_work(state, content, reply)
    for name in reply.delete_files:
        if name in content.files:
            content.files[name].keep = False
            state.put_file(content.files[name])
    jobs = _take_jobs(state, journal, content, reply, now)
    state.put_project(project)
    acked = {job_id(project.master_url, job.name) for job in acknowledged}
    event = ReplyReceived(
        now,
        project.master_url,
        jobs=tuple(describe_job(content, job) for job in jobs),
        acknowledged=tuple(identity for identity in reported if identity in acked),
        abort=_known(content, reply.result_aborts),
        abort_unstarted=_known(content, reply.result_aborts_if_not_started),
        request_delay=reply.request_delay,
        next_contact=reply.next_rpc_delay,
    )
    after = (project.resource_share, project.dont_use_dcf, project.non_cpu_intensive, project.no_rsc_pref)
    return TakenReply(
        event,
        preferences=reply.global_preferences,
        trickle_downs=[(t.result_name, t.text) for t in reply.trickle_downs if t.result_name in content.jobs],
        description_changed=before != after,
        moved_to=reply.master_url if reply.master_url and reply.master_url != project.master_url else "",
    )


def _known(content: ProjectContent, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(job_id(content.project.master_url, name) for name in names if name in content.jobs)


def _say(journal: Journal, project: ProjectRecord, reply: SchedulerReply) -> None:
    name = journal.project_name(project.master_url)
    if not any(message.priority is MessagePriority.NOTICE for message in reply.messages):
        journal.notices.drop_of_scheduler(name)
    for message in reply.messages:
        journal.say(message.text, project.master_url)
        if message.priority is MessagePriority.NOTICE:
            journal.notices.add(title="", text=message.text, category="scheduler", project_name=name)
    if reply.project_is_down and not reply.messages:
        journal.say("The project is down for maintenance", project.master_url)


# -- account, key, flags --------------------------------------------------------------------------------


def _take_account(
    state: ClientDatabase, journal: Journal, project: ProjectRecord, read: ReadReply, now: float
) -> None:
    reply = read.reply
    if reply.user is not None:
        project.user = _with_known(reply.user, project.user, USER, read.unsaid)
    host = reply.host
    if host is not None:
        host = _with_known(host, project.host, HOST, read.unsaid)
        if host.announce_id and host.id and host.id != project.host.id:
            if project.host.id:
                journal.say(f"The project gave this computer a new number: {host.id}", project.master_url)
            project.rpc_seqno = 0
        project.host = replace(host, id=host.id if host.announce_id and host.id else project.host.id)
    if reply.project_preferences:
        project.project_preferences = reply.project_preferences
    chosen = read_project_preferences(project.project_preferences, project.host.venue)
    if not project.share_from_manager:
        project.resource_share = chosen.resource_share
    project.no_rsc_pref = ((CPU,) if chosen.no_cpu else ()) + tuple(sorted(chosen.no_gpu_types))
    if reply.user is not None and host is not None:
        state.add_credit_day(
            project.master_url,
            DailyCredit(
                day=now // DAY * DAY,
                user_total_credit=project.user.total_credit,
                user_expavg_credit=project.user.expavg_credit,
                host_total_credit=project.host.total_credit,
                host_expavg_credit=project.host.expavg_credit,
            ),
        )


def _with_known(said: T, known: T, table: FieldTable[T], unsaid: Collection[str]) -> T:
    """Return what a reply says of account or computer, with what is known of the rest: absent is not zero."""
    kept = [name for name, kind in table.scalars.items() if (kind.element or name) in unsaid]
    return changed(said, **{name: getattr(known, name) for name in kept})


def _take_key(journal: Journal, project: ProjectRecord, reply: SchedulerReply) -> None:
    """Trust the first key, and a new one only with a signature by the previous one."""
    from cobblestone.wire.project.signatures import decode_public_key, same_key, verify_bytes

    new = reply.code_sign_key
    if not new or same_key(new, project.code_sign_key):
        return
    try:
        decode_public_key(new)
        if project.code_sign_key:
            old = decode_public_key(project.code_sign_key)
            if not verify_bytes(old, new.strip().encode(), reply.code_sign_key_signature):
                journal.alert(
                    "The project sent a new code-signing key without the old key's signature: "
                    "it was refused. If the project says that it lost its key, remove the "
                    "project and attach again.",
                    project.master_url,
                )
                return
            journal.say("The project has a new code-signing key, signed with the old one", project.master_url)
    except CobblestoneError as error:
        journal.alert(f"The project's code-signing key cannot be used: {error}", project.master_url)
        return
    project.code_sign_key = new


def _take_flags(project: ProjectRecord, read: ReadReply) -> None:
    reply = read.reply
    project.symstore = reply.symstore
    project.dont_use_dcf = reply.dont_use_dcf
    project.send_full_workload = reply.send_full_workload
    project.non_cpu_intensive = reply.non_cpu_intensive
    project.strict_memory_bound = reply.strict_memory_bound
    project.ended = reply.ended
    project.desired_disk_usage = reply.desired_disk_usage
    project.no_rsc_apps = ((CPU,) if reply.no_cpu_apps else ()) + tuple(
        n for n in reply.no_rsc_apps if n != "CPU"
    )
    project.trickle_up_urls = read.trickle_up_urls
    project.project_files = reply.project_files
    if reply.gui_urls:
        project.gui_urls = reply.gui_urls
    if reply.rss_feeds:
        project.rss_feeds = reply.rss_feeds


# -- work -----------------------------------------------------------------------------------------------


def _take_work(state: ClientDatabase, content: ProjectContent, reply: SchedulerReply) -> None:
    url = content.project.master_url
    content.users.clear()
    for app in reply.apps:
        content.apps[app.name] = app
        state.put("app", url, app.name, app)
    for info in reply.files:
        known = content.files.get(info.name)
        if known is None:
            known = FileRecord(project=url, name=info.name, download=info, keep=info.sticky)
            content.files[info.name] = known
        else:  # the same content by definition; it may lie elsewhere now, or have been given up
            known.download, known.keep = info, known.keep or info.sticky
            if known.status is FileStatus.FAILED:
                known.status, known.error = FileStatus.ABSENT, ""
                known.num_retries, known.first_request_time = 0, 0.0
        state.put_file(known)
    for output in reply.output_files:
        if output.name not in content.files:
            file = FileRecord(project=url, name=output.name, upload=output, keep=output.sticky)
            content.files[output.name] = file
            state.put_file(file)
    for version in () if content.project.anonymous_platform else reply.app_versions:
        content.versions = [known for known in content.versions if known.key != version.key]
        content.versions.append(version)
        state.put_version(url, version)
    for workunit in reply.workunits:
        content.workunits.setdefault(workunit.name, workunit)
        state.put("workunit", url, workunit.name, workunit)


def _take_jobs(
    state: ClientDatabase, journal: Journal, content: ProjectContent, reply: SchedulerReply, now: float
) -> list[JobRecord]:
    url = content.project.master_url
    taken: list[JobRecord] = []
    for result in reply.results:
        if result.name in content.jobs:
            continue  # sent again because a reply was lost
        job = JobRecord(project=url, result=result, received_time=now, state=ClientJobState.DOWNLOADING)
        if content.version_of(job) is None:
            journal.say(f"{result.name} came without an app version to run it", url)
            continue
        content.jobs[result.name] = job
        if not missing_files(content, job):
            job.state = ClientJobState.DOWNLOADED
        taken.append(job)
        state.put_job(job)
    if taken:
        journal.say(f"Got {len(taken)} new task{'s' if len(taken) > 1 else ''}", url, flag="sched_ops")
    return taken


def needed_files(content: ProjectContent, job: JobRecord) -> list[str]:
    """Return the names of the files without which a job cannot start."""
    version = content.version_of(job)
    workunit = content.workunits.get(job.result.wu_name)
    refs = (*(version.file_refs if version else ()), *(workunit.file_refs if workunit else ()))
    return [ref.file_name for ref in refs if not ref.optional]


def missing_files(content: ProjectContent, job: JobRecord) -> list[FileRecord]:
    """Return the files that a job waits for, or that could not be downloaded."""
    found = (content.files.get(name) for name in needed_files(content, job))
    return [file for file in found if file is not None and file.status is not FileStatus.PRESENT]


def describe_job(content: ProjectContent, job: JobRecord) -> JobDescription:
    """Return a job's description for the core."""
    version = version_in_force(content, job)
    workunit = content.workunits[job.result.wu_name]
    app = content.apps.get(workunit.app_name)
    wishes, limits = content.app_config, limits_of(content.app_config, workunit.app_name)
    flops = version.flops if version and version.flops > 0 else 1e9
    project = content.project
    key = f"{job.result.version_num} {job.result.platform} {job.result.plan_class}".strip()
    return JobDescription(
        id=job_id(project.master_url, job.name),
        project=project.master_url,
        app=workunit.app_name,
        version=key,
        cpus=version.avg_ncpus if version else 1.0,
        gpu=version.coproc_type if version else "",
        gpus=version.coproc_count if version else 0.0,
        estimate=workunit.rsc_fpops_est / flops,
        received=job.received_time,
        deadline=job.result.report_deadline,
        memory_bound=workunit.rsc_memory_bound,
        strict_memory_bound=project.strict_memory_bound,
        exact_fraction=bool(app and app.fraction_done_exact) or limits.fraction_done_exact,
        non_cpu_intensive=project.non_cpu_intensive or bool(app and app.non_cpu_intensive),
        needs_network=bool(version and version.needs_network),
        ready=job.state is ClientJobState.DOWNLOADED,
        report_immediately=job.result.report_immediately
        or bool(app and app.report_results_immediately)
        or wishes.report_results_immediately
        or limits.report_results_immediately,
    )
