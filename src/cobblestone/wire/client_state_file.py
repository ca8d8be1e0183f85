"""Read the state file of a client of the family, with its account and statistics files.

A client goes on from it where another one stopped, and a simulation takes the computer and its projects from it.  For the
latter the extra elements of BOINC's emulator are read too (`ProjectHints`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cobblestone.domain.errors import RemoteProtocolError
from cobblestone.wire.client_records import (
    DailyCredit,
    EstimatedCredit,
    FileRecord,
    FileStatus,
    JobRecord,
    JobState,
    ProjectContent,
    ProjectRecord,
    TaskFigures,
)
from cobblestone.wire.host_report import (
    MAX_TIME,
    CoprocRequest,
    HostInfo,
    NetStats,
    TimeStats,
    read_coproc,
    read_host_info,
    read_net_stats,
    read_time_stats,
)
from cobblestone.wire.lenience import Lenience
from cobblestone.wire.reply_reader import (
    is_output,
    read_app,
    read_app_version,
    read_file,
    read_output,
    read_result,
    read_workunit,
    whole_element,
)
from cobblestone.wire.request_layout import COPROC_TYPES
from cobblestone.wire.scheduler_reply import HostBlock, UserBlock
from cobblestone.wire.scheduler_request import MAX_ID
from cobblestone.wire.tag_tree import Node, read_tree
from cobblestone.wire.web_rpc_client import canonical_master_url

_VERBATIM = ("stderr_out", "project_preferences", "command_line")


@dataclass(slots=True, kw_only=True)
class AppHints:
    """What a file for BOINC's emulator says of an app; None where it does not."""

    latency_bound: float | None = None  #: seconds
    fpops_est: float | None = None
    fpops_mean: float | None = None
    fpops_stdev: float | None = None
    weight: float = 1.0
    ignore: bool = False
    has_flops: bool = True  #: whether its latest version says how fast it is


@dataclass(slots=True, kw_only=True)
class ProjectHints:
    """What such a file says of a project."""

    available_frac: float = 1.0
    available_lambda: float = 3600.0  #: mean seconds that it can be reached
    apps: dict[str, AppHints] = field(default_factory=dict[str, AppHints])
    bounds: dict[str, float] = field(default_factory=dict[str, float])
    """Seconds from receipt to deadline, by workunit: of jobs without names too, as in a file that was made anonymous."""


@dataclass(slots=True, kw_only=True)
class StateFile:
    """What a state file holds."""

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
    """Return the elements of ``client_state.xml``, and those of the computer.  Raises RemoteProtocolError if it is none."""
    root = read_tree(body, "client_state", _VERBATIM)
    host = root.find("host_info")
    if host is None:
        raise RemoteProtocolError("the state file holds no <host_info>")
    return root, host


def read_whole_state(body: bytes) -> StateFile:
    """Read ``client_state.xml``.  Raises RemoteProtocolError."""
    root, host_node = state_tree(body)
    notes: list[Lenience] = []
    times, net = root.find("time_stats"), root.find("net_stats")
    top = root.reader(notes)
    adopted = StateFile(
        host=read_host_info(host_node.reader(notes)),
        time_stats=read_time_stats(times.reader(notes)) if times else TimeStats(),
        net_stats=read_net_stats(net.reader(notes)) if net else NetStats(),
        modes=(
            top.integer("user_run_request", 2, 1, 3),
            top.integer("user_gpu_request", 2, 1, 3),
            top.integer("user_network_request", 2, 1, 3),
        ),
        gpus=_gpus(host_node, notes),
        on_lambda=times.reader(notes).number("on_lambda", 3600.0, 1.0, 1e9) if times else 3600.0,
        notes=notes,
    )
    current, hints = None, ProjectHints()
    for node in root.children:
        if node.tag == "project":
            project = _project(node, notes)
            current = adopted.contents[project.master_url] = ProjectContent(project=project)
            hints = adopted.hints[project.master_url] = _project_hints(node, notes)
        elif current is not None:
            _part(node, current, notes)
            _hint(node, hints, notes)
    tasks = root.find("active_task_set")
    for node in tasks.all("active_task") if tasks else ():
        _task(node, adopted, notes)
    return adopted


def _project(node: Node, notes: list[Lenience]) -> ProjectRecord:
    r = node.reader(notes)
    flags = (
        "dont_use_dcf", "non_cpu_intensive", "suspended_via_gui", "dont_request_more_work", "detach_when_done", "ended",
        "attached_via_acct_mgr", "anonymous_platform",
    )  # fmt: skip
    key = node.find("code_sign_key")
    project = ProjectRecord(
        master_url=canonical_master_url(r.text("master_url")),
        authenticator="",
        project_name=r.text("project_name", 255),
        scheduler_urls=tuple(each.text for each in node.all("scheduler_url"))[:20],
        master_url_fetch_pending=not node.has("scheduler_url"),
        code_sign_key=key.text if key else "",
        user=UserBlock(
            id=r.integer("userid", high=MAX_ID),
            name=r.text("user_name", 255),
            total_credit=r.number("user_total_credit"),
            expavg_credit=r.number("user_expavg_credit"),
            create_time=r.number("user_create_time", high=MAX_TIME),
            email_hash=r.text("email_hash", 64),
            cross_project_id=r.text("cross_project_id", 64),
            external_cpid=r.text("external_cpid", 64),
            cpid_time=r.number("cpid_time", high=MAX_TIME),
            team_id=r.integer("teamid", high=MAX_ID),
            team_name=r.text("team_name", 255),
        ),
        host=HostBlock(
            id=r.integer("hostid", high=MAX_ID),
            total_credit=r.number("host_total_credit"),
            expavg_credit=r.number("host_expavg_credit"),
            venue=r.text("host_venue", 64),
            create_time=r.number("host_create_time", high=MAX_TIME),
        ),
        rpc_seqno=r.integer("rpc_seqno"),
        resource_share=r.number("resource_share", 100.0, 0.0, 1e9),
        duration_correction_factor=r.number("duration_correction_factor", 1.0, 0.0, 1e6),
        njobs_success=r.integer("njobs_success"),
        njobs_error=r.integer("njobs_error"),
        elapsed_time=r.number("elapsed_time"),
        last_rpc_time=r.number("last_rpc_time", high=MAX_TIME),
        credit=EstimatedCredit(
            cpu_ec=r.number("cpu_ec"),
            cpu_time=r.number("cpu_time"),
            gpu_ec=r.number("gpu_ec"),
            gpu_time=r.number("gpu_time"),
        ),
    )
    for name in flags:
        setattr(project, name, r.flag(name))
    return project


def _gpus(host: Node, notes: list[Lenience]) -> tuple[CoprocRequest, ...]:
    coprocs = host.find("coprocs")
    nodes = coprocs.children if coprocs else ()
    found = (read_coproc(COPROC_TYPES.get(node.tag, ""), node.reader(notes)) for node in nodes)
    return tuple(gpu for gpu in found if gpu.type and gpu.count)


def _project_hints(node: Node, notes: list[Lenience]) -> ProjectHints:
    available = node.find("available")
    if available is None:
        return ProjectHints()
    r = available.reader(notes)
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
        r, fpops = node.reader(notes), node.find("fpops")
        sizes = fpops.reader(notes) if fpops else None
        hints.apps[r.name()] = AppHints(
            latency_bound=r.number("latency_bound", high=1e30) or None,
            fpops_est=r.number("fpops_est", high=1e30) or None,
            fpops_mean=(sizes.number("mean", high=1e30) or None) if sizes else None,
            fpops_stdev=(sizes.number("std_dev", high=1e30) or None) if sizes else None,
            weight=r.number("weight", 1.0, 0.0, 1e9),
            ignore=node.has("ignore"),
        )


def _part(node: Node, content: ProjectContent, notes: list[Lenience]) -> None:
    """Something that belongs to the project before it."""
    if node.tag == "app":
        app = read_app(node, notes)
        content.apps[app.name] = app
    elif node.tag in ("file", "file_info"):
        file = _file(node, content.project.master_url, notes)
        content.files[file.name] = file
    elif node.tag == "app_version":
        content.versions.append(read_app_version(node, notes))
    elif node.tag == "workunit":
        workunit = read_workunit(node, notes)
        content.workunits[workunit.name] = workunit
    elif node.tag == "result" and node.has("name"):
        job = _job(node, content.project.master_url, notes)
        content.jobs[job.name] = job


def _file(node: Node, project: str, notes: list[Lenience]) -> FileRecord:
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
    stderr = node.find("stderr_out")
    state = r.integer("state", 0, 0, 7)
    return JobRecord(
        project=project,
        result=read_result(node, notes),
        received_time=r.number("received_time", high=MAX_TIME),
        state=JobState(state),
        exit_status=r.integer("exit_status", 0, -(2**31)),
        final_cpu_time=r.number("final_cpu_time", high=MAX_TIME),
        final_elapsed_time=r.number("final_elapsed_time", high=MAX_TIME),
        completed_time=r.number("completed_time", high=MAX_TIME),
        ready_to_report=r.flag("ready_to_report"),
        suspended_via_gui=r.flag("suspended_via_gui"),
        stderr=_stderr(stderr.raw) if stderr else "",
    )


def _stderr(raw: str) -> str:
    text = raw.partition("<stderr_txt>")[2].rpartition("</stderr_txt>")[0]
    return text.strip("\r\n").encode("latin-1").decode("utf-8", "replace")


def _task(node: Node, adopted: StateFile, notes: list[Lenience]) -> None:
    r = node.reader(notes)
    content = adopted.contents.get(canonical_master_url(r.text("project_master_url")))
    job = content.jobs.get(r.name("result_name")) if content else None
    if job is not None:
        job.task = TaskFigures(
            slot=r.integer("slot", 0, 0, 100_000),
            started=True,
            checkpoint_cpu_time=r.number("checkpoint_cpu_time", high=MAX_TIME),
            checkpoint_elapsed_time=r.number("checkpoint_elapsed_time", high=MAX_TIME),
            checkpoint_fraction_done=r.number("checkpoint_fraction_done", 0.0, 0.0, 1.0),
        )


def read_account(body: bytes, project: ProjectRecord) -> None:
    """Take key and preferences out of ``account_*.xml``.  Raises RemoteProtocolError."""
    root = read_tree(body, "account", ("project_preferences",))
    notes: list[Lenience] = []
    project.authenticator = root.reader(notes).text("authenticator", 255).strip()
    project.project_preferences = whole_element(root, "project_preferences", notes)


def read_statistics(body: bytes) -> list[DailyCredit]:
    """Read ``statistics_*.xml``.  Raises RemoteProtocolError."""
    root = read_tree(body, "project_statistics")
    notes: list[Lenience] = []
    readers = [node.reader(notes) for node in root.all("daily_statistics")][-5000:]
    names = ("user_total_credit", "user_expavg_credit", "host_total_credit", "host_expavg_credit")
    return [
        DailyCredit(day=r.number("day", high=MAX_TIME), **{name: r.number(name) for name in names})
        for r in readers
    ]
