"""Builds the scheduler request of one contact from the client's state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cobblestone.client.conditions.host import ReportedHost
from cobblestone.client.records.decisions import job_place
from cobblestone.client.records.identity import BRAND, VERSION_NUMBER, VERSION_TEXT
from cobblestone.client.records.state import ClientDatabase
from cobblestone.domain.values import form_of
from cobblestone.policy.client.core.events import ContactProject
from cobblestone.policy.client.core.values import CPU, FetchRequest
from cobblestone.wire.client.records import (
    ClientJobState,
    FileAnswer,
    FileRecord,
    FileStatus,
    JobRecord,
    ProjectContent,
)
from cobblestone.wire.project.preferences import GlobalPreferences, UserKeywords
from cobblestone.wire.scheduler.host import CoprocRequest, DiskUsage
from cobblestone.wire.scheduler.job import AppVersionBlock
from cobblestone.wire.scheduler.report import (
    MsgFromHost,
    ReportedFile,
    ReportedResult,
    StickyFile,
    write_stderr,
)
from cobblestone.wire.scheduler.request import (
    ClientAppVersion,
    InProgressResult,
    OtherResult,
    SchedulerRequest,
)

NOTHING = FetchRequest(0.0)
#: Jobs that are reported in one request, and bytes of what they wrote.
MOST_REPORTS, MOST_STDERR = 1000, 4_000_000


def make_request(
    state: ClientDatabase, content: ProjectContent, contact: ContactProject, facts: ReportedHost
) -> SchedulerRequest:
    """Return the request of one contact."""
    project = content.project
    reported = [content.jobs[name] for name in map(_name, contact.report) if name in content.jobs]
    others = [job for job in content.jobs.values() if not job.ready_to_report]
    versions = _versions(content, others)
    cpu, manager = contact.requests.get(CPU, NOTHING), state.notes.manager
    shares = [c.project.resource_share for c in state.contents.values()]
    runnable = [c.project.resource_share for c in state.contents.values() if not c.project.suspended_via_gui]
    return form_of(
        SchedulerRequest,
        project,
        project.user,
        facts,
        state.notes,
        hostid=project.host.id,
        client_version=VERSION_NUMBER,
        client_version_text=VERSION_TEXT,
        resource_share_fraction=_part(project.resource_share, shares),
        rrs_fraction=_part(project.resource_share, runnable),
        prrs_fraction=_part(project.resource_share, runnable),
        duration_correction_factor=contact.correction,
        allow_multiple_clients=facts.several_clients,
        sandbox=facts.sandboxed,
        work_req_seconds=max((each.seconds for each in contact.requests.values()), default=0.0),
        cpu_req_secs=cpu.seconds,
        cpu_req_instances=cpu.instances,
        cpu_estimated_delay=cpu.delay,
        client_cap_plan_class=True,
        client_cap_file_challenge=project.asks_about_files,
        platforms=("anonymous", *facts.platforms) if project.anonymous_platform else facts.platforms,
        working_global_preferences=GlobalPreferences(text=facts.preferences) if facts.preferences else None,
        global_preferences=GlobalPreferences(text=facts.stored_preferences)
        if facts.stored_preferences
        else None,
        host_info=facts.host,
        disk_usage=DiskUsage(
            d_boinc_used_total=facts.used_by_all,
            d_boinc_used_project=project.disk_usage,
            d_project_share=project.disk_share,
        ),
        coprocs=tuple(_coproc(each, contact.requests) for each in facts.coprocs),
        results=tuple(_report(content, job) for job in reported),
        trickles=tuple(
            MsgFromHost(result_name=job, time=time, variety=variety, text=text)
            for _, job, time, variety, text in state.trickles(project.master_url)
        ),
        sticky_files=tuple(
            _sticky_file(file, project.file_answer)
            for file in content.files.values()
            if file.keep and file.status in (FileStatus.PRESENT, FileStatus.UPLOADED)
        ),
        app_versions=tuple(form_of(ClientAppVersion, each) for each in versions),
        other_results=tuple(_other(content, job, versions) for job in others),
        other_results_listed=True,
        in_progress_results=_in_progress(contact),
        client_brand=BRAND,
        user_keywords=manager.keywords if manager else UserKeywords(),
    )


def together(content: ProjectContent, report: tuple[str, ...]) -> tuple[str, ...]:
    """Return the first jobs to be reported: as many as servers take in one request."""
    room = MOST_STDERR
    for number, name in enumerate(map(_name, report[:MOST_REPORTS])):
        if job := content.jobs.get(name):
            room -= len(write_stderr(job.stderr, job.error_message, ""))
        if room < 0:
            return report[: max(1, number)]
    return report[:MOST_REPORTS]


def _name(identity: str) -> str:
    return job_place(identity)[1]


def _sticky_file(file: FileRecord, answer: FileAnswer | None) -> StickyFile:
    if answer is None or answer.file_name != file.name:
        return StickyFile(name=file.name, nbytes=file.nbytes, status=1)
    return StickyFile(name=file.name, nbytes=file.nbytes, status=1, nonce=answer.nonce, answer=answer.answer)


def _part(share: float, shares: Sequence[float]) -> float:
    total = sum(shares)
    return share / total if total > 0 else 1.0


def _coproc(coproc: CoprocRequest, requests: Mapping[str, FetchRequest]) -> CoprocRequest:
    wanted = requests.get(coproc.type, NOTHING)
    return replace(
        coproc, req_secs=wanted.seconds, req_instances=wanted.instances, estimated_delay=wanted.delay
    )


def _versions(content: ProjectContent, jobs: Sequence[JobRecord]) -> list[AppVersionBlock]:
    if content.project.anonymous_platform:
        return list(content.versions)
    used = [version for job in jobs if (version := content.version_of(job)) is not None]
    return list(dict.fromkeys(used))


def _other(content: ProjectContent, job: JobRecord, versions: Sequence[AppVersionBlock]) -> OtherResult:
    version = content.version_of(job)
    index = versions.index(version) if version in versions else -1
    return OtherResult(name=job.name, app_version=index, plan_class=job.result.plan_class)


def _in_progress(contact: ContactProject) -> tuple[InProgressResult, ...]:
    return tuple(
        InProgressResult(
            name=_name(each.job),
            report_deadline=each.report_deadline,
            time_remaining=max(0.0, each.remaining),
            avg_ncpus=each.cpus,
        )
        for each in contact.workload or ()
    )


def _report(content: ProjectContent, job: JobRecord) -> ReportedResult:
    version = content.version_of(job)
    number = job.result.version_num or (version.version_num if version else 0)
    return form_of(
        ReportedResult,
        job,
        exit_status_present=True,
        state=int(job.state),
        platform=job.result.platform,
        version_num=number,
        app_version_num=number,
        plan_class=job.result.plan_class,
        files=tuple(_reported_files(content, job)) if job.state is not ClientJobState.ABORTED else (),
    )


def _reported_files(content: ProjectContent, job: JobRecord) -> list[ReportedFile]:
    found: list[ReportedFile] = []
    for ref in job.result.file_refs:
        file = content.files.get(ref.file_name)
        if file is None or file.upload is None or (file.status is FileStatus.ABSENT and not file.error):
            continue
        found.append(
            form_of(
                ReportedFile,
                file,
                max_nbytes=float(file.upload.max_nbytes),
                upload_url=file.upload.upload_url,
                error_msg=file.error,
            )
        )
    return found
