"""A client's records in BOINC's form, for its state file, GUI RPC and account files: tables and writers.

Order and number formats are those of client 7.20.5, whose answers are recorded under tests/golden/gui_rpc.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from cobblestone.domain.values import changed
from cobblestone.wire.client.records import (
    DailyCredit,
    EstimatedCredit,
    JobRecord,
    ProjectContent,
    ProjectRecord,
    TaskFigures,
)
from cobblestone.wire.scheduler.job import (
    APP,
    FILE_REF,
    RESULT,
    VERSION,
    WORKUNIT,
    AppBlock,
    AppVersionBlock,
    FileRef,
    WorkunitBlock,
    write_coproc_use,
)
from cobblestone.wire.scheduler.reply import GUI_URL, HOST, USER, GuiUrl
from cobblestone.wire.text.table import FieldTable
from cobblestone.wire.text.writer import line_text, number, scalar, scalars

_IN = "    "
_SIZES = ("swap_size", "working_set_size", "working_set_size_smoothed")
_RUNNING = ("fraction_done", "current_cpu_time", "elapsed_time", *_SIZES)

CREDIT = FieldTable(EstimatedCredit)
PROJECT = FieldTable(
    ProjectRecord, {"account": "rpc_seqno", "ids": "nrpc_failures", "logs": "njobs_success", "devices": ""}
)
JOB = FieldTable(
    JobRecord,
    {"names": "project", "report_deadline": "received_time", "order": "edf_scheduled", "wait": "task"},
)
TASK = FieldTable(TaskFigures)
DAY = FieldTable(DailyCredit)

_USER_NAMES, _VENUE = USER.layout("name", "team_name", plain=True), HOST.layout("venue", plain=True)
_USER_FIGURES = USER.layout(
    "email_hash", "cross_project_id", "external_cpid", "cpid_time", "total_credit", "expavg_credit", "create_time",
    plain=True,
)  # fmt: skip
_USER_IDS = USER.layout("id", "team_id", plain=True)
_HOST_FIGURES = HOST.layout("id", "total_credit", "expavg_credit", "create_time", plain=True)
_PROJECT = PROJECT.layout()
_GUI_URL = GUI_URL.layout(tag="gui_url", indent=_IN * 2, outside=_IN, plain=True)
_DAY = DAY.layout(tag="daily_statistics", indent=_IN * 2, outside=_IN)
_APP = APP.layout("name", "user_friendly_name", "non_cpu_intensive", tag="app", plain=True)
_FILE_REF = FILE_REF.layout(tag="file_ref", indent=_IN * 2, outside=_IN, plain=True)
_VERSION = VERSION.layout(
    "app_name", "version_num", "platform", "avg_ncpus", "flops", "plan_class", "api_version", "cmdline", "file_refs", "coproc",
    "gpu_ram", "dont_throttle", "is_wrapper", "needs_network",
    tag="app_version", optional=("api_version",), plain=True,
)  # fmt: skip
_WORKUNIT = WORKUNIT.layout(
    "name", "app_name", "version", "rsc_fpops_est", "rsc_fpops_bound", "rsc_memory_bound", "rsc_disk_bound", "command",
    "file_refs", tag="workunit", plain=True,
)  # fmt: skip
_RESULT_NAMES = RESULT.layout("name", "wu_name", "platform", "version_num", "plan_class", plain=True)
_DEADLINE = RESULT.layout("report_deadline", plain=True)
_ORDER = RESULT.layout("suspended", "report_immediately")
_GUI_RESULT = JOB.layout(tag="result")
_GUI_TASK = TASK.layout(
    "state", "version", "slot", "pid", "scheduler_state", "checkpoint_cpu_time", *_RUNNING, "figures", "too_large",
    "web_graphics_url", "remote_desktop_addr",
    tag="active_task",
)  # fmt: skip


def device_name(device: str) -> str:
    """Return BOINC's name of a device type; ours for the CPU is the empty text."""
    return device or "CPU"


# -- projects -------------------------------------------------------------------------------------------


def write_project_fields(project: ProjectRecord) -> str:
    """Write what every form of a project begins with."""
    user, host = project.user, project.host
    devices: list[str] = []
    for device in dict.fromkeys(("", *project.backoff_time, *project.backoff_interval)):
        for element, values in (
            ("rsc_backoff_time", project.backoff_time),
            ("rsc_backoff_interval", project.backoff_interval),
        ):
            name, value = scalar("name", device_name(device), _IN * 2), values.get(device, 0.0)
            devices.append(f"{_IN}<{element}>\n{name}{number('value', value, _IN * 2)}{_IN}</{element}>\n")
    for element in ("no_rsc_ams", "no_rsc_apps", "no_rsc_pref"):
        devices += (scalar(element, device_name(device), _IN) for device in getattr(project, element))
    return _PROJECT.write(
        project,
        account=_USER_NAMES.write(user) + _VENUE.write(host) + _USER_FIGURES.write(user),
        ids=_USER_IDS.write(user) + _HOST_FIGURES.write(host),
        logs=scalar("send_time_stats_log", 0, _IN) + scalar("send_job_log", 0, _IN),
        devices="".join(devices),
    )


def write_gui_urls(urls: Sequence[GuiUrl]) -> str:
    """Links that managers show."""
    return f"<gui_urls>\n{''.join(map(_GUI_URL.write, urls))}</gui_urls>\n" if urls else ""


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
    """Return ``account_*.xml``, which attaches the client to the project."""
    preferences = f"{project.project_preferences}\n" if project.project_preferences else ""
    return (
        f"<account>\n{scalars(project, 'master_url authenticator project_name', _IN)}"
        f"{preferences}{write_gui_urls(project.gui_urls)}</account>\n"
    )


def write_statistics(master_url: str, days: Iterable[DailyCredit]) -> str:
    """Return a project's credit by day: a statistics file, or a part of the answer about all."""
    return f"<project_statistics>\n{scalar('master_url', master_url, _IN)}{''.join(map(_DAY.write, days))}</project_statistics>\n"


# -- apps, files, jobs ----------------------------------------------------------------------------------


def write_known_app(app: AppBlock) -> str:
    """Write an app."""
    return _APP.write(app if app.user_friendly_name else changed(app, user_friendly_name=app.name))


def write_known_file_refs(refs: Iterable[FileRef]) -> str:
    """Write files as something uses them."""
    return "".join(map(_FILE_REF.write, refs))


def write_known_version(version: AppVersionBlock) -> str:
    """Write an app version."""
    coproc = write_coproc_use(version.coproc_type, version.coproc_count) if version.coproc_type else ""
    return _VERSION.write(version, coproc=coproc, file_refs=write_known_file_refs(version.file_refs))


@lru_cache(maxsize=4096)  # workunits never change, and managers ask for all of them every second
def write_known_workunit(workunit: WorkunitBlock, version_num: int) -> str:
    """Write a workunit, with the version that its job runs with."""
    command = ""
    if workunit.command_line:
        command = f"{_IN}<command_line>\n{line_text(workunit.command_line)}\n{_IN}</command_line>\n"
    return _WORKUNIT.write(
        workunit,
        version=scalar("version_num", version_num, _IN),
        command=command,
        file_refs=write_known_file_refs(workunit.file_refs),
    )


def write_gui_result(job: JobRecord, *, project_suspended: bool = False) -> str:
    """Return a job as GUI RPC shows it, with its running task."""
    result, wait = job.result, ""
    suspended = "    <project_suspended_via_gui/>\n" if project_suspended else ""
    if job.waits_for:
        wait = f"    <scheduler_wait/>\n{scalar('scheduler_wait_reason', job.waits_for, _IN)}"
    return _GUI_RESULT.write(
        job,
        names=_RESULT_NAMES.write(result),
        report_deadline=_DEADLINE.write(result),
        order=_ORDER.write(result, suspended=suspended),
        wait=wait,
        task=_gui_active_task(job) if job.task.started else "",
    )


def _gui_active_task(job: JobRecord) -> str:
    task = job.task
    # The family writes three more figures, and leaves them at 0.
    figures = "".join(number(name, 0.0) for name in ("page_fault_rate", "bytes_sent", "bytes_received"))
    if task.elapsed_time:
        figures += number("progress_rate", task.progress_rate, "   ")
    return _GUI_TASK.write(
        task,
        version=scalar("app_version_num", job.result.version_num, _IN),
        scheduler_state=scalar("scheduler_state", 2 if task.scheduled else 1, _IN),
        figures=figures,
    )


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
