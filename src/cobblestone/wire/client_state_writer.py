"""Write the state file of a client of the family, with what lies beside it: what `client_state_file` reads.

Order and form are those of client 7.20.5.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cobblestone.wire.client_objects import (
    flags,
    number,
    write_known_app,
    write_known_file_refs,
    write_known_version,
    write_known_workunit,
    write_outcome,
    write_project_fields,
)
from cobblestone.wire.client_records import FileRecord, FileStatus, JobRecord, ProjectContent, ProjectRecord
from cobblestone.wire.client_state_file import StateFile
from cobblestone.wire.host_report import TimeStats
from cobblestone.wire.host_writer import write_host_info
from cobblestone.wire.job_description import write_hex_element
from cobblestone.wire.request_writer import write_net_stats, write_stderr
from cobblestone.wire.xml_writer import printable, scalar, whole

_IN = "    "
GAVE_UP_DOWNLOAD, GAVE_UP_UPLOAD = -114, -115
SUSPENDED = 9
_MODES = (
    ("user_run_request", 0),
    ("user_run_prev_request", 0),
    ("user_gpu_request", 1),
    ("user_gpu_prev_request", 1),
    ("user_network_request", 2),
)
_NOT_KEPT = ("session_active_duration", "session_gpu_active_duration")


def write_whole_state(state: StateFile, *, client: tuple[int, int, int], platform: str) -> str:
    """Write ``client_state.xml``."""
    major, minor, release = client
    version = ".".join(map(str, client))
    return "".join(
        (
            "<client_state>\n",
            write_host_info(state.host, with_coprocs=True),
            _time_stats(state.time_stats),
            write_net_stats(state.net_stats),
            *(_content(content, version) for content in state.contents.values()),
            "<active_task_set>\n",
            *(
                _task(job)
                for content in state.contents.values()
                for job in content.jobs.values()
                if _begun(job)
            ),
            "</active_task_set>\n",
            scalar("platform_name", platform),
            scalar("core_client_major_version", major),
            scalar("core_client_minor_version", minor),
            scalar("core_client_release", release),
            *(scalar(name, state.modes[index]) for name, index in _MODES),
            "</client_state>\n",
        )
    )


def _time_stats(stats: TimeStats) -> str:
    """Write them as projects are told, but the time of the last update goes by another name."""
    names = {name: name for name in TimeStats.__dataclass_fields__} | {"now": "last_update"}
    inner = "".join(
        number(element, getattr(stats, name)) for name, element in names.items() if name not in _NOT_KEPT
    )
    return f"<time_stats>\n{inner}</time_stats>\n"


def _content(content: ProjectContent, client: str) -> str:
    versions = {job.result.wu_name: job.result.version_num for job in content.jobs.values()}
    return "".join(
        (
            _project(content.project),
            *map(write_known_app, content.apps.values()),
            *map(_file, content.files.values()),
            *map(write_known_version, content.versions),
            *(write_known_workunit(w, versions.get(w.name, 0)) for w in content.workunits.values()),
            *(_result(job, client) for job in content.jobs.values()),
        )
    )


def _project(project: ProjectRecord) -> str:
    key = f"{_IN}{write_hex_element('code_sign_key', project.code_sign_key)}" if project.code_sign_key else ""
    return "".join(
        (
            f"<project>\n{write_project_fields(project)}",
            *(scalar("scheduler_url", url, _IN) for url in project.scheduler_urls),
            key,
            *(scalar("trickle_up_url", url, _IN) for url in project.trickle_up_urls),
            *(
                number(name, getattr(project.credit, name))
                for name in ("cpu_ec", "cpu_time", "gpu_ec", "gpu_time")
            ),
            "</project>\n",
        )
    )


def _file(file: FileRecord) -> str:
    known, wanted = file.download, file.upload
    status = {FileStatus.ABSENT: 0, FileStatus.PRESENT: 1, FileStatus.UPLOADED: 1}.get(
        file.status, GAVE_UP_UPLOAD if wanted else GAVE_UP_DOWNLOAD
    )
    out = [
        f"<file>\n{scalar('name', file.name, _IN)}",
        number("nbytes", known.nbytes if known else file.nbytes),
        number("max_nbytes", wanted.max_nbytes if wanted else 0.0),
    ]
    checksum = known.md5_cksum if known else file.md5_cksum
    out += [scalar("md5_cksum", checksum, _IN)] if checksum else []
    out.append(scalar("status", status, _IN))
    if file.status is FileStatus.UPLOADED:
        out.append(f"{_IN}<uploaded/>\n")
    if file.keep:
        out.append(f"{_IN}<sticky/>\n")
    if known is not None:
        out.append(flags(("executable",), known))
        if known.file_signature:
            out.append(f"{_IN}<signature_required/>\n")
            out.append(f"{_IN}{write_hex_element('file_signature', known.file_signature)}")
        out += (scalar("download_url", url, _IN) for url in known.urls)
        out += [scalar("gzipped_url", known.gzipped_url, _IN)] if known.gzipped_url else []
    if wanted is not None:
        out.append(flags(("gzip_when_done",), wanted))
        out += (scalar("upload_url", url, _IN) for url in (wanted.upload_url, *wanted.other_upload_urls))
        out.append(f"{_IN}{write_hex_element('xml_signature', wanted.xml_signature)}")
    return f"{''.join(out)}</file>\n"


def _result(job: JobRecord, client: str) -> str:
    result = job.result
    return "".join(
        (
            f"<result>\n{scalar('name', result.name, _IN)}{write_outcome(job)}",
            scalar("platform", result.platform, _IN),
            scalar("version_num", result.version_num, _IN),
            scalar("plan_class", result.plan_class, _IN) if result.plan_class else "",
            write_stderr(job.stderr, job.error_message, client) if job.stderr or job.error_message else "",
            flags(("ready_to_report", "suspended_via_gui"), job),
            number("completed_time", job.completed_time) if job.completed_time else "",
            scalar("wu_name", result.wu_name, _IN),
            number("report_deadline", result.report_deadline),
            number("received_time", job.received_time),
            flags(("report_immediately",), result),
            write_known_file_refs(result.file_refs),
            "</result>\n",
        )
    )


def _begun(job: JobRecord) -> bool:
    return job.task.started and job.task.slot >= 0 and not job.completed_time


def _task(job: JobRecord) -> str:
    task = job.task
    names = ("checkpoint_cpu_time", "checkpoint_elapsed_time", "checkpoint_fraction_done")
    sizes = ("swap_size", "working_set_size", "working_set_size_smoothed")
    return "".join(
        (
            f"<active_task>\n{scalar('project_master_url', job.project, _IN)}",
            scalar("result_name", job.name, _IN),
            scalar("active_task_state", SUSPENDED if task.pid else 0, _IN),
            scalar("app_version_num", job.result.version_num, _IN),
            scalar("slot", task.slot, _IN),
            *(number(name, getattr(task, name)) for name in names),
            number("checkpoint_fraction_done_elapsed_time", task.checkpoint_elapsed_time),
            number("current_cpu_time", task.checkpoint_cpu_time),
            scalar("once_ran_edf", 0, _IN),
            *(number(name, getattr(task, name)) for name in sizes),
            "</active_task>\n",
        )
    )


def write_manager_files(manager: Mapping[str, str | float | bool]) -> dict[str, str]:
    """Write ``acct_mgr_url.xml`` and ``acct_mgr_login.xml``, by their names; ``manager`` has the family's names of its fields."""

    def elements(*names: str) -> str:
        return "".join(scalar(name, manager[name], _IN) for name in names if manager[name] != "")

    key = str(manager["signing_key"])
    signing_key = f"{_IN}<signing_key>\n{printable(key.strip())}\n{_IN}</signing_key>\n" if key else ""
    opaque = str(manager["opaque"])
    kept = f"{_IN}<opaque>\n{printable(opaque.strip())}\n{_IN}</opaque>\n" if opaque else ""
    login = elements("login", "password_hash", "authenticator", "previous_host_cpid", "next_rpc_time")
    return {
        "acct_mgr_url.xml": f"<acct_mgr>\n{elements('name', 'url')}{signing_key}</acct_mgr>\n",
        "acct_mgr_login.xml": f"<acct_mgr_login>\n{login}{kept}</acct_mgr_login>\n",
    }


def write_job_log(rows: Iterable[Mapping[str, object]]) -> str:
    """Write ``job_log_*.txt``: a line for each reported job, oldest first; the keys are those of the client's history."""
    return "".join(
        f"{whole(_figure(row, 'reported'))} ue {_figure(row, 'estimate'):.6f} ct {_figure(row, 'cpu_time'):.6f}"
        f" fe {whole(_figure(row, 'fpops'))} nm {row['job']} et {_figure(row, 'elapsed'):.6f} es {row['exit_status']}\n"
        for row in rows
    )


def _figure(row: Mapping[str, object], name: str) -> float:
    value = row[name]
    return float(value) if isinstance(value, int | float) else 0.0


def write_trickle_file(variety: str, text: str) -> str:
    """Write a message of a job that the project does not have yet, as it waits in the project's folder."""
    return f"{scalar('variety', variety) if variety else ''}{printable(text)}\n"
