"""Write a client's records in BOINC's form, for GUI RPC and account files.

Order and number formats are those of client 7.20.5, whose answers are recorded under tests/golden/gui_rpc.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from cobblestone.wire.client.records import DailyCredit, JobRecord, ProjectContent, ProjectRecord
from cobblestone.wire.scheduler.job import AppBlock, AppVersionBlock, FileRef, WorkunitBlock
from cobblestone.wire.scheduler.reply import GuiUrl
from cobblestone.wire.text.writer import scalar

_IN = "    "
_BEGINS = (
    "symstore",
    "user_name",
    "team_name",
    "host_venue",
    "email_hash",
    "cross_project_id",
    "external_cpid",
)


def flags(names: Iterable[str], values: object, indent: str = _IN) -> str:
    """``<name/>`` for each attribute that is true."""
    return "".join(f"{indent}<{name}/>\n" for name in names if getattr(values, name))


def number(name: str, value: float, indent: str = _IN) -> str:
    """Return a number with six decimals."""
    return scalar(name, float(value), indent)


def device_name(device: str) -> str:
    """How the family calls a device type; ours for the CPU is the empty text."""
    return device or "CPU"


# -- projects -------------------------------------------------------------------------------------------


def _account_fields(project: ProjectRecord) -> str:
    user, host = project.user, project.host
    texts = (project.symstore, user.name, user.team_name, host.venue)
    texts = (*texts, user.email_hash, user.cross_project_id, user.external_cpid)
    return "".join(
        (
            scalar("master_url", project.master_url, _IN),
            scalar("project_name", project.project_name, _IN),
            *(scalar(name, text, _IN) for name, text in zip(_BEGINS, texts, strict=True)),
            number("cpid_time", user.cpid_time),
            number("user_total_credit", user.total_credit),
            number("user_expavg_credit", user.expavg_credit),
            number("user_create_time", user.create_time),
            scalar("rpc_seqno", project.rpc_seqno, _IN),
            scalar("userid", user.id, _IN),
            scalar("teamid", user.team_id, _IN),
            scalar("hostid", host.id, _IN),
            number("host_total_credit", host.total_credit),
            number("host_expavg_credit", host.expavg_credit),
            number("host_create_time", host.create_time),
        )
    )


_FLAGS = (
    "anonymous_platform", "master_url_fetch_pending", "trickle_up_pending", "send_full_workload", "dont_use_dcf",
    "non_cpu_intensive", "strict_memory_bound", "suspended_via_gui", "dont_request_more_work", "detach_when_done", "ended",
    "attached_via_acct_mgr",
)  # fmt: skip
_FIGURES = (
    "min_rpc_time", "next_rpc_time", "rec", "rec_time", "resource_share", "disk_usage", "disk_share", "desired_disk_usage",
    "duration_correction_factor",
)  # fmt: skip


def write_project_fields(project: ProjectRecord) -> str:
    """Write what every form of a project begins with."""
    out = [
        _account_fields(project),
        scalar("nrpc_failures", project.nrpc_failures, _IN),
        scalar("master_fetch_failures", project.master_fetch_failures, _IN),
    ]
    out += (number(name, getattr(project, name)) for name in _FIGURES)
    out += (
        scalar("sched_rpc_pending", int(project.sched_rpc_pending), _IN),
        scalar("send_time_stats_log", 0, _IN),
        scalar("send_job_log", 0, _IN),
        scalar("njobs_success", project.njobs_success, _IN),
        scalar("njobs_error", project.njobs_error, _IN),
        number("elapsed_time", project.elapsed_time),
        number("last_rpc_time", project.last_rpc_time),
        flags(_FLAGS, project),
    )
    for device in dict.fromkeys(("", *project.backoff_time, *project.backoff_interval)):
        for element, values in (
            ("rsc_backoff_time", project.backoff_time),
            ("rsc_backoff_interval", project.backoff_interval),
        ):
            name, value = scalar("name", device_name(device), _IN * 2), values.get(device, 0.0)
            out.append(f"{_IN}<{element}>\n{name}{number('value', value, _IN * 2)}{_IN}</{element}>\n")
    for element in ("no_rsc_ams", "no_rsc_apps", "no_rsc_pref"):
        out += (scalar(element, device_name(device), _IN) for device in getattr(project, element))
    return "".join(out)


def write_gui_urls(urls: Sequence[GuiUrl]) -> str:
    """Links that managers show."""
    if not urls:
        return ""
    inner = "".join(
        f"    <gui_url>\n{scalar('name', url.name, _IN * 2)}{scalar('description', url.description, _IN * 2)}"
        f"{scalar('url', url.url, _IN * 2)}    </gui_url>\n"
        for url in urls
    )
    return f"<gui_urls>\n{inner}</gui_urls>\n"


def write_gui_project(project: ProjectRecord) -> str:
    """Return a project as GUI RPC shows it."""
    progress = "    <scheduler_rpc_in_progress/>\n" if project.scheduler_rpc_in_progress else ""
    return (
        f"<project>\n{write_project_fields(project)}{progress}{write_gui_urls(project.gui_urls)}"
        f"{number('sched_priority', project.sched_priority)}"
        f"{number('project_files_downloaded_time', project.project_files_downloaded_time)}"
        f"{scalar('project_dir', project.project_dir, _IN)}</project>\n"
    )


def write_account_file(project: ProjectRecord) -> str:
    """``account_*.xml``: what makes the client belong to the project."""
    preferences = f"{project.project_preferences}\n" if project.project_preferences else ""
    return (
        f"<account>\n{scalar('master_url', project.master_url, _IN)}"
        f"{scalar('authenticator', project.authenticator, _IN)}"
        f"{scalar('project_name', project.project_name, _IN)}"
        f"{preferences}{write_gui_urls(project.gui_urls)}</account>\n"
    )


def write_statistics(master_url: str, days: Iterable[DailyCredit]) -> str:
    """Return a project's credit by day: a statistics file, or a part of the answer about all."""
    names = ("day", "user_total_credit", "user_expavg_credit", "host_total_credit", "host_expavg_credit")
    inner = "".join(
        "    <daily_statistics>\n"
        + "".join(number(name, getattr(day, name), _IN * 2) for name in names)
        + "    </daily_statistics>\n"
        for day in days
    )
    return f"<project_statistics>\n{scalar('master_url', master_url, _IN)}{inner}</project_statistics>\n"


# -- apps, files, jobs ----------------------------------------------------------------------------------


def write_known_app(app: AppBlock) -> str:
    """Write an app."""
    return (
        f"<app>\n{scalar('name', app.name, _IN)}"
        f"{scalar('user_friendly_name', app.user_friendly_name or app.name, _IN)}"
        f"{scalar('non_cpu_intensive', app.non_cpu_intensive, _IN)}</app>\n"
    )


def write_known_file_refs(refs: Iterable[FileRef]) -> str:
    """Write files as something uses them."""
    return "".join(
        f"{_IN}<file_ref>\n{scalar('file_name', ref.file_name, _IN * 2)}"
        f"{scalar('open_name', ref.open_name, _IN * 2) if ref.open_name else ''}"
        f"{flags(('main_program', 'copy_file', 'optional'), ref, _IN * 2)}{_IN}</file_ref>\n"
        for ref in refs
    )


def write_known_version(version: AppVersionBlock) -> str:
    """Write an app version."""
    coproc = ""
    if version.coproc_type:
        coproc = (
            f"{_IN}<coproc>\n{scalar('type', version.coproc_type, _IN * 2)}"
            f"{number('count', version.coproc_count, _IN * 2)}{_IN}</coproc>\n"
        )
    return "".join(
        (
            f"<app_version>\n{scalar('app_name', version.app_name, _IN)}",
            scalar("version_num", version.version_num, _IN),
            scalar("platform", version.platform, _IN),
            number("avg_ncpus", version.avg_ncpus),
            number("flops", version.flops),
            scalar("plan_class", version.plan_class, _IN) if version.plan_class else "",
            scalar("api_version", version.api_version, _IN) if version.api_version else "",
            scalar("cmdline", version.cmdline, _IN) if version.cmdline else "",
            write_known_file_refs(version.file_refs),
            coproc,
            number("gpu_ram", version.gpu_ram) if version.gpu_ram else "",
            flags(("dont_throttle", "is_wrapper", "needs_network"), version),
            "</app_version>\n",
        )
    )


@lru_cache(maxsize=4096)  # workunits never change, and managers ask for all of them every second
def write_known_workunit(workunit: WorkunitBlock, version_num: int) -> str:
    """Write a workunit, with the version that its job runs with."""
    figures = ("rsc_fpops_est", "rsc_fpops_bound", "rsc_memory_bound", "rsc_disk_bound")
    command = scalar("command_line", workunit.command_line).replace(
        f">{workunit.command_line}<", f">\n{workunit.command_line}\n{_IN}<"
    )
    return (
        f"<workunit>\n{scalar('name', workunit.name, _IN)}{scalar('app_name', workunit.app_name, _IN)}"
        f"{scalar('version_num', version_num, _IN)}"
        f"{''.join(number(name, getattr(workunit, name)) for name in figures)}"
        f"{_IN + command if workunit.command_line else ''}{write_known_file_refs(workunit.file_refs)}</workunit>\n"
    )


def write_outcome(job: JobRecord) -> str:
    """Write how a job ended, and where it stands."""
    return (
        f"{number('final_cpu_time', job.final_cpu_time)}{number('final_elapsed_time', job.final_elapsed_time)}"
        f"{scalar('exit_status', job.exit_status, _IN)}{scalar('state', int(job.state), _IN)}"
    )


def write_gui_result(job: JobRecord, *, project_suspended: bool = False) -> str:
    """Return a job as GUI RPC shows it, with its running task."""
    result = job.result
    reported = ("got_server_ack", "ready_to_report")
    suspended = "    <project_suspended_via_gui/>\n" if project_suspended else ""
    wait = ""
    if job.waits_for:
        wait = f"    <scheduler_wait/>\n{scalar('scheduler_wait_reason', job.waits_for, _IN)}"
    return "".join(
        (
            f"<result>\n{scalar('name', result.name, _IN)}{scalar('wu_name', result.wu_name, _IN)}",
            scalar("platform", result.platform, _IN),
            scalar("version_num", result.version_num, _IN),
            scalar("plan_class", result.plan_class, _IN),
            scalar("project_url", job.project, _IN),
            write_outcome(job),
            number("report_deadline", result.report_deadline),
            number("received_time", job.received_time),
            number("estimated_cpu_time_remaining", job.estimated_remaining),
            number("completed_time", job.completed_time) if job.completed_time else "",
            flags(reported, job),
            flags(("suspended_via_gui",), job),
            suspended,
            flags(("report_immediately",), result),
            flags(("edf_scheduled",), job),
            wait,
            _gui_active_task(job) if job.task.started else "",
            scalar("resources", job.resources, _IN) if job.resources else "",
            "</result>\n",
        )
    )


def _gui_active_task(job: JobRecord) -> str:
    task = job.task
    out = [
        f"<active_task>\n{scalar('active_task_state', task.state, _IN)}",
        scalar("app_version_num", job.result.version_num, _IN),
        scalar("slot", task.slot, _IN),
        scalar("pid", task.pid, _IN),
        scalar("scheduler_state", 2 if task.scheduled else 1, _IN),
        number("checkpoint_cpu_time", task.checkpoint_cpu_time),
        number("fraction_done", task.fraction_done),
        number("current_cpu_time", task.current_cpu_time),
        number("elapsed_time", task.elapsed_time),
        number("swap_size", task.swap_size),
        number("working_set_size", task.working_set_size),
        number("working_set_size_smoothed", task.working_set_size_smoothed),
        _traffic(),
        number("progress_rate", task.progress_rate, "   ") if task.elapsed_time else "",
        flags(("too_large",), task),
    ]
    texts = ("web_graphics_url", "remote_desktop_addr")
    out += (scalar(name, getattr(task, name), _IN) for name in texts if getattr(task, name))
    return f"{''.join(out)}</active_task>\n"


def _traffic() -> str:
    """Three figures that the family writes and leaves at 0."""
    names = ("page_fault_rate", "bytes_sent", "bytes_received")
    return "".join(number(name, 0.0) for name in names)


def write_project_content(content: ProjectContent) -> str:
    """Return a project with all that belongs to it, in the order in which readers attach each thing to what came before."""
    versions = {job.result.wu_name: job.result.version_num for job in content.jobs.values()}
    suspended = content.project.suspended_via_gui
    return "".join(
        (
            write_gui_project(content.project),
            *map(write_known_app, content.apps.values()),
            *map(write_known_version, content.versions),
            *(write_known_workunit(w, versions.get(w.name, 0)) for w in content.workunits.values()),
            *(write_gui_result(job, project_suspended=suspended) for job in content.jobs.values()),
        )
    )
