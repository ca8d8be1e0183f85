"""The state file of a BOINC client with its account and statistics files: complete reading and writing.

A client goes on from it where another one stopped, and a simulation takes the computer and its projects from it.  For the
latter the extra elements of BOINC's emulator are read too (`ProjectHints`).  Order and form are those of client 7.20.5.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cobblestone.domain.errors import RemoteProtocolError
from cobblestone.wire.client.objects import (
    CREDIT,
    DAY,
    JOB,
    PROJECT,
    TASK,
    write_known_app,
    write_known_file_refs,
    write_known_version,
    write_known_workunit,
    write_project_fields,
)
from cobblestone.wire.client.records import (
    ClientJobState,
    DailyCredit,
    FileRecord,
    FileStatus,
    JobRecord,
    ProjectContent,
    ProjectRecord,
)
from cobblestone.wire.project.pages import canonical_master_url
from cobblestone.wire.scheduler.host import (
    MAX_TIME,
    TIME_STATS,
    CoprocRequest,
    HostInfo,
    NetStats,
    TimeStats,
    read_coprocs,
    read_host_info,
    read_net_stats,
    read_time_stats,
    write_host_info,
    write_net_stats,
)
from cobblestone.wire.scheduler.job import (
    RESULT,
    is_output,
    read_app,
    read_app_version,
    read_file,
    read_output,
    read_result,
    read_workunit,
    write_hex_element,
)
from cobblestone.wire.scheduler.reply import HOST, USER, whole_element
from cobblestone.wire.scheduler.report import write_stderr
from cobblestone.wire.text.reader import Lenience
from cobblestone.wire.text.tree import Node, read_tree
from cobblestone.wire.text.writer import number, printable, scalar, whole

_VERBATIM = ("stderr_out", "project_preferences", "command_line")


@dataclass(slots=True, kw_only=True)
class AppHints:
    """Values of a file for BOINC's emulator about an app; None where they are missing."""

    latency_bound: float | None = None  #: seconds
    fpops_est: float | None = None
    fpops_mean: float | None = None
    fpops_stdev: float | None = None
    weight: float = 1.0
    ignore: bool = False
    has_flops: bool = True  #: whether its latest version says how fast it is


@dataclass(slots=True, kw_only=True)
class ProjectHints:
    """Values of such a file about a project."""

    available_frac: float = 1.0
    available_lambda: float = 3600.0  #: mean seconds that it can be reached
    apps: dict[str, AppHints] = field(default_factory=dict[str, AppHints])
    bounds: dict[str, float] = field(default_factory=dict[str, float])
    """Seconds from receipt to deadline, by workunit: of jobs without names too, as in a file that was made anonymous."""


@dataclass(slots=True, kw_only=True)
class StateFile:
    """The content of a state file."""

    host: HostInfo
    time_stats: TimeStats
    net_stats: NetStats
    modes: tuple[int, int, int] = (2, 2, 2)  #: run, GPU, network
    contents: dict[str, ProjectContent] = field(default_factory=dict[str, ProjectContent])
    # For simulations alone, and not written again:
    gpus: tuple[CoprocRequest, ...] = field(default=(), compare=False)
    on_lambda: float = field(default=3600.0, compare=False)  #: mean seconds that the computer is on
    hints: dict[str, ProjectHints] = field(default_factory=dict[str, ProjectHints], compare=False)
    notes: list[Lenience] = field(default_factory=list[Lenience], compare=False)  #: what was forgiven


def state_tree(body: bytes) -> tuple[Node, Node]:
    """Return the elements of ``client_state.xml``, and those of the computer.  Raises RemoteProtocolError if it is not one."""
    root = read_tree(body, "client_state", _VERBATIM)
    host = root.find("host_info")
    if host is None:
        raise RemoteProtocolError("the state file holds no <host_info>")
    return root, host


def read_whole_state(body: bytes) -> StateFile:
    """Read ``client_state.xml``.  Raises RemoteProtocolError."""
    root, host_node = state_tree(body)
    notes: list[Lenience] = []
    top, times = root.reader(notes), root.inner("time_stats").reader(notes)
    adopted = StateFile(
        host=read_host_info(host_node.reader(notes)),
        time_stats=read_time_stats(times),
        net_stats=read_net_stats(root.inner("net_stats").reader(notes)),
        modes=(
            top.integer("user_run_request", 2, 1, 3),
            top.integer("user_gpu_request", 2, 1, 3),
            top.integer("user_network_request", 2, 1, 3),
        ),
        gpus=read_coprocs(host_node, notes),
        on_lambda=times.number("on_lambda", 3600.0, 1.0, 1e9),
        notes=notes,
    )
    current, hints = None, ProjectHints()
    for node in root.children:
        if node.tag == "project":
            project = _read_project(node, notes)
            current = adopted.contents[project.master_url] = ProjectContent(project=project)
            hints = adopted.hints[project.master_url] = _project_hints(node, notes)
        elif current is not None:
            _part(node, current, notes)
            _hint(node, hints, notes)
    for node in root.inner("active_task_set").all("active_task"):
        _read_task(node, adopted, notes)
    return adopted


def _read_project(node: Node, notes: list[Lenience]) -> ProjectRecord:
    r = node.reader(notes)
    return PROJECT.read(
        r,
        authenticator="",
        scheduler_urls=tuple(each.text for each in node.all("scheduler_url"))[:20],
        master_url_fetch_pending=not node.has("scheduler_url"),
        code_sign_key=node.inner("code_sign_key").text,
        user=USER.read(r),
        host=HOST.read(r),
        credit=CREDIT.read(r),
    )


def _project_hints(node: Node, notes: list[Lenience]) -> ProjectHints:
    r = node.inner("available").reader(notes)
    return ProjectHints(
        available_frac=r.number("frac", 1.0, 0.001, 1.0),
        available_lambda=r.number("lambda", 3600.0, 1.0, 1e9),
    )


def _hint(node: Node, hints: ProjectHints, notes: list[Lenience]) -> None:
    if node.tag == "app_version":
        app = hints.apps.get(node.reader(notes).name("app_name"))
        if app is not None:
            app.has_flops = node.has("flops")
    elif node.tag == "result":
        r = node.reader(notes)
        received, deadline = (r.number(tag, high=MAX_TIME) for tag in ("received_time", "report_deadline"))
        if 0 < received < deadline:
            hints.bounds.setdefault(r.name("wu_name"), deadline - received)
    elif node.tag == "app":
        r, sizes = node.reader(notes), node.inner("fpops").reader(notes)
        hints.apps[r.name()] = AppHints(
            latency_bound=r.number("latency_bound", high=1e30) or None,
            fpops_est=r.number("fpops_est", high=1e30) or None,
            fpops_mean=sizes.number("mean", high=1e30) or None,
            fpops_stdev=sizes.number("std_dev", high=1e30) or None,
            weight=r.number("weight", 1.0, 0.0, 1e9),
            ignore=node.has("ignore"),
        )


def _part(node: Node, content: ProjectContent, notes: list[Lenience]) -> None:
    """Read something that belongs to the project before it."""
    if node.tag == "app":
        app = read_app(node, notes)
        content.apps[app.name] = app
    elif node.tag in ("file", "file_info"):
        file = _read_file(node, content.project.master_url, notes)
        content.files[file.name] = file
    elif node.tag == "app_version":
        content.versions.append(read_app_version(node, notes))
    elif node.tag == "workunit":
        workunit = read_workunit(node, notes)
        content.workunits[workunit.name] = workunit
    elif node.tag == "result" and node.has("name"):
        job = _job(node, content.project.master_url, notes)
        content.jobs[job.name] = job


def _read_file(node: Node, project: str, notes: list[Lenience]) -> FileRecord:
    r = node.reader(notes)
    output = is_output(node)
    status = r.integer("status", 0, -(2**31))
    uploaded = r.flag("uploaded")
    file = FileRecord(
        project=project,
        name=read_output(node, notes).name if output else read_file(node, notes).name,
        download=None if output else read_file(node, notes),
        upload=read_output(node, notes) if output else None,
        nbytes=r.number("nbytes"),
        md5_cksum=r.text("md5_cksum", 64),
        keep=r.flag("sticky"),
    )
    if uploaded:
        file.status = FileStatus.UPLOADED
    elif status < 0:
        file.status, file.error = FileStatus.FAILED, f"{status} (given up by the client before)"
    elif status == 1:
        file.status, file.wanted_upload = FileStatus.PRESENT, output
    return file


def _job(node: Node, project: str, notes: list[Lenience]) -> JobRecord:
    r = node.reader(notes)
    return JOB.read(
        r,
        project=project,
        result=read_result(node, notes),
        state=ClientJobState(r.integer("state", 0, 0, 7)),
        stderr=_stderr(node.inner("stderr_out").raw),
    )


def _stderr(raw: str) -> str:
    text = raw.partition("<stderr_txt>")[2].rpartition("</stderr_txt>")[0]
    return text.strip("\r\n").encode("latin-1").decode("utf-8", "replace")


def _read_task(node: Node, adopted: StateFile, notes: list[Lenience]) -> None:
    r = node.reader(notes)
    content = adopted.contents.get(canonical_master_url(r.text("project_master_url")))
    job = content.jobs.get(r.name("result_name")) if content else None
    if job is not None:
        task = job.task = TASK.read(r, started=True)
        task.elapsed_time = max(task.elapsed_time, task.checkpoint_elapsed_time)
        task.fraction_done = max(task.fraction_done, task.checkpoint_fraction_done)


def read_account(body: bytes, project: ProjectRecord) -> None:
    """Read key and preferences from ``account_*.xml``.  Raises RemoteProtocolError."""
    root = read_tree(body, "account", ("project_preferences",))
    notes: list[Lenience] = []
    project.authenticator = root.reader(notes).text("authenticator", 255).strip()
    project.project_preferences = whole_element(root, "project_preferences", notes)


def read_statistics(body: bytes) -> list[DailyCredit]:
    """Read ``statistics_*.xml``.  Raises RemoteProtocolError."""
    root = read_tree(body, "project_statistics")
    notes: list[Lenience] = []
    readers = [node.reader(notes) for node in root.all("daily_statistics")][-5000:]
    return [DAY.read(reader) for reader in readers]


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
_TIME_STATS = TIME_STATS.layout(
    without=("session_active_duration", "session_gpu_active_duration"),
    tag="time_stats",
    renamed={"now": "last_update"},
)
_CREDIT = CREDIT.layout()
_NAME = RESULT.layout("name", plain=True)
_VERSION_OF_RESULT = RESULT.layout(
    "platform", "version_num", "plan_class", plain=True, optional=("plan_class",)
)
_DEADLINE = RESULT.layout("wu_name", "report_deadline", plain=True)
_IMMEDIATELY = RESULT.layout("report_immediately", "file_refs")
_RESULT = JOB.layout(
    "name", "final_cpu_time", "final_elapsed_time", "exit_status", "state", "version", "stderr_out", "ready_to_report",
    "suspended_via_gui", "completed_time", "deadline", "received_time", "rest",
    tag="result",
)  # fmt: skip
_TASK = TASK.layout(
    "names", "slot", "checkpoint_cpu_time", "checkpoint_elapsed_time", "checkpoint_fraction_done", "figures", "swap_size",
    "working_set_size", "working_set_size_smoothed",
    tag="active_task",
)  # fmt: skip


def write_whole_state(state: StateFile, *, client: tuple[int, int, int], platform: str) -> str:
    """Write ``client_state.xml``."""
    major, minor, release = client
    version = ".".join(map(str, client))
    return "".join(
        (
            "<client_state>\n",
            write_host_info(state.host, with_coprocs=True),
            _TIME_STATS.write(state.time_stats),
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
            _CREDIT.write(project.credit),
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
        out += [f"{_IN}<executable/>\n"] if known.executable else []
        if known.file_signature:
            out.append(f"{_IN}<signature_required/>\n")
            out.append(f"{_IN}{write_hex_element('file_signature', known.file_signature)}")
        out += (scalar("download_url", url, _IN) for url in known.urls)
        out += [scalar("gzipped_url", known.gzipped_url, _IN)] if known.gzipped_url else []
    if wanted is not None:
        out += [f"{_IN}<gzip_when_done/>\n"] if wanted.gzip_when_done else []
        out += (scalar("upload_url", url, _IN) for url in (wanted.upload_url, *wanted.other_upload_urls))
        out.append(f"{_IN}{write_hex_element('xml_signature', wanted.xml_signature)}")
    return f"{''.join(out)}</file>\n"


def _result(job: JobRecord, client: str) -> str:
    result = job.result
    failed = job.stderr or job.error_message
    return _RESULT.write(
        job,
        name=_NAME.write(result),
        version=_VERSION_OF_RESULT.write(result),
        stderr_out=write_stderr(job.stderr, job.error_message, client) if failed else "",
        deadline=_DEADLINE.write(result),
        rest=_IMMEDIATELY.write(result, file_refs=write_known_file_refs(result.file_refs)),
    )


def _begun(job: JobRecord) -> bool:
    return job.task.started and job.task.slot >= 0 and not job.completed_time


def _task(job: JobRecord) -> str:
    task = job.task
    names = (
        scalar("project_master_url", job.project, _IN),
        scalar("result_name", job.name, _IN),
        scalar("active_task_state", SUSPENDED if task.pid else 0, _IN),
        scalar("app_version_num", job.result.version_num, _IN),
    )
    figures = (
        number("checkpoint_fraction_done_elapsed_time", task.checkpoint_elapsed_time),
        number("current_cpu_time", task.checkpoint_cpu_time),
        scalar("once_ran_edf", 0, _IN),
    )
    return _TASK.write(task, names="".join(names), figures="".join(figures))


def write_manager_files(manager: Mapping[str, str | float | bool]) -> dict[str, str]:
    """Write ``acct_mgr_url.xml`` and ``acct_mgr_login.xml``, by their names; ``manager`` has BOINC's names of its fields."""

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
