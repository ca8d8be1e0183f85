"""Browsers at the scheduler: their requests and replies are those of BOINC clients in another form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from urllib.parse import urlsplit

from cobblestone.api_schema import batches as schema
from cobblestone.domain import pyodide
from cobblestone.domain.apps import BROWSER_PLATFORM, BROWSER_SILENCE
from cobblestone.domain.hosts import Host, HostAppVersion
from cobblestone.domain.people import User
from cobblestone.domain.values import changed, form_of
from cobblestone.domain.work import ExitStatus
from cobblestone.policy.dispatch.limits import DispatchLimits, InProgressLimits
from cobblestone.server.core.offer import Offer
from cobblestone.service.languages import gettext as _
from cobblestone.wire.project.upload import FileUpload, write_upload_header
from cobblestone.wire.scheduler.host import DiskUsage, HostInfo
from cobblestone.wire.scheduler.reply import FileInfo, FileRef, OutputFileInfo, ResultBlock, SchedulerReply
from cobblestone.wire.scheduler.report import ReportedResult
from cobblestone.wire.scheduler.request import OtherResult, SchedulerRequest

SYSTEM = "browser"
#: What a browser may keep for the project, in its memory.
DISK_BYTES = 4e9
#: Stands for the size of a file in the header of its upload, until the browser knows it.
_PLACE = 987_654_321
_COMPUTE_ERROR, _UPLOADED, _ABORTED = 3, 5, 6  # states of a result in the family's clients


def browser_limits(
    limits: DispatchLimits,
    records: Iterable[HostAppVersion],
    *,
    threads: int,
    held_in_network: int,
    jobs_per_day: int,
) -> DispatchLimits:
    """Return the limits of a browser with these records: one job, and one more for each right result in a row, up to one per
    thread and one to come.

    Of the jobs that it could have, it leaves as many to others as the browsers of its network hold.
    """
    daily = min(limits.daily_quota, jobs_per_day)
    proven = min(threads, max((record.statistics.consecutive_valid for record in records), default=0))
    return replace(
        limits,
        daily_quota=daily,
        daily_quota_init=min(limits.daily_quota_init, daily),
        max_jobs_per_rpc=1,
        max_ncpus=max(proven, 1),
        min_sendwork_interval=0.0,
        one_result_per_user_per_wu=True,
        project_in_progress=InProgressLimits(total=1 + proven),
        left_for_others=held_in_network,
    )


def browser_request(
    user: User,
    host: Host,
    offer: Offer,
    *,
    work: schema.BrowserWork | None = None,
    report: schema.BrowserReport | None = None,
) -> SchedulerRequest:
    """Return what a BOINC client would send: a request for work, or a report, or both."""
    message = SchedulerRequest(
        authenticator=user.authenticator,
        hostid=host.id,
        rpc_seqno=host.rpc_seqno + 1,
        client_version=host.description.client_version,
        platforms=(BROWSER_PLATFORM,),
        code_sign_key=offer.code_sign_key,
        allow_multiple_clients=True,
        host_info=HostInfo(
            domain_name=host.description.domain_name,
            p_ncpus=host.description.p_ncpus,
            m_nbytes=host.description.m_nbytes,
            d_total=DISK_BYTES,
            d_free=DISK_BYTES,
            os_name=SYSTEM,
        ),
        disk_usage=DiskUsage(),
        results=() if report is None else (_reported(report),),
    )
    if work is None:
        return changed(message, dont_send_work=True)
    return changed(
        message,
        cpu_req_secs=float(work.wanted),
        cpu_req_instances=float(work.wanted),
        host_info=changed(message.host_info, p_ncpus=work.threads, m_nbytes=work.memory),
        other_results=tuple(OtherResult(name=name) for name in dict.fromkeys(work.held)),
        other_results_listed=True,
    )


def _reported(report: schema.BrowserReport) -> ReportedResult:
    status = ExitStatus.ABORTED_BY_USER if report.given_up else report.exit_status
    state = _ABORTED if report.given_up else _COMPUTE_ERROR if status else _UPLOADED
    return ReportedResult(
        name=report.name,
        final_cpu_time=report.cpu_time,
        final_elapsed_time=report.elapsed_time,
        exit_status=status,
        exit_status_present=True,
        state=state,
        platform=BROWSER_PLATFORM,
        intops_cumulative=report.instructions,
        stderr=report.stderr,
    )


def browser_jobs(reply: SchedulerReply, *, replaced: Sequence[str]) -> schema.BrowserJobs:
    """Return the content of a reply for a browser; ``replaced``: jobs of it that went to another one."""
    went = _(
        "Your task went to another browser, since this page was silent for more than %(minutes)d minutes."
    ) % {"minutes": BROWSER_SILENCE / 60}
    files = {file.name: file for file in reply.files}
    outputs = {file.name: file for file in reply.output_files}
    return schema.BrowserJobs(
        jobs=[_job(result, reply, files, outputs) for result in reply.results],
        drop=[*reply.result_aborts, *replaced],
        wait=reply.request_delay,
        messages=[*(message.text for message in reply.messages), *([went] if replaced else [])],
    )


def _job(
    result: ResultBlock,
    reply: SchedulerReply,
    files: Mapping[str, FileInfo],
    outputs: Mapping[str, OutputFileInfo],
) -> schema.BrowserJob:
    (workunit,) = [each for each in reply.workunits if each.name == result.wu_name]
    (version,) = [
        each
        for each in reply.app_versions
        if each.app_name == workunit.app_name and each.version_num == result.version_num
    ]
    (app,) = [each for each in reply.apps if each.name == workunit.app_name]
    (module,) = [each for each in version.file_refs if each.main_program]
    # The module as native hosts get it is not for engines that do not count.
    others = [each for each in version.file_refs if each.copy_file]
    return schema.BrowserJob(
        name=result.name,
        workunit=workunit.name,
        app=workunit.app_name,
        title=app.user_friendly_name,
        deadline=result.report_deadline,
        instructions_est=workunit.rsc_fpops_est,
        instructions_bound=workunit.rsc_fpops_bound,
        memory_bound=workunit.rsc_memory_bound,
        disk_bound=workunit.rsc_disk_bound,
        command_line=workunit.command_line,
        module=_file(module, files),
        pyodide=pyodide.version_of(module.open_name or module.file_name),
        files=[_file(each, files) for each in (*others, *workunit.file_refs)],
        outputs=[_output(each, outputs[each.file_name]) for each in result.file_refs],
        upload_url=_path(outputs[result.file_refs[0].file_name].upload_url) if result.file_refs else "",
    )


def _file(ref: FileRef, files: Mapping[str, FileInfo]) -> schema.BrowserFile:
    info = files[ref.file_name]
    # Pages ask their own server only, which is the last of the addresses.
    return schema.BrowserFile(
        open_name=ref.open_name or ref.file_name, url=_path(info.urls[-1]), nbytes=info.nbytes
    )


def _output(ref: FileRef, info: OutputFileInfo) -> schema.BrowserOutput:
    header = write_upload_header(form_of(FileUpload, info, nbytes=_PLACE, md5_cksum="", offset=0))
    return schema.BrowserOutput(
        open_name=ref.open_name or ref.file_name,
        max_nbytes=info.max_nbytes,
        optional=ref.optional,
        upload_header=header.decode().replace(f"<nbytes>{_PLACE}<", "<nbytes>{nbytes}<"),
    )


def _path(url: str) -> str:
    return urlsplit(url).path
