"""Client and running job: ``init_data.xml``, the messages of the shared segment, checkpoints and trickle-up messages.

``init_data.xml``: what the client tells a job when it starts it.

Source: BOINC's ``lib/app_ipc.cpp`` (names, order and units: facts only) and files that client 7.20.5 was seen to write.

Client and running job: the messages of the shared segment, soft links, and the file that remembers a checkpoint.

The segment has eight channels of 1024 bytes: one byte that is not 0 while the message is unread, then a text that ends with NUL.
Everything that comes from a job is untrusted.  Source: BOINC's ``lib/app_ipc.h`` and ``client/app_control.cpp`` (facts only),
and what client 7.20.5 was seen to do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Annotated

from cobblestone.domain.values import value
from cobblestone.wire.scheduler.host import MAX_OPERATIONS, CoprocRequest, HostInfo, write_host_info
from cobblestone.wire.text.reader import FieldReader, unescape
from cobblestone.wire.text.table import FieldTable, Number, Text
from cobblestone.wire.text.writer import escape, number, numbers, scalar, scalars


@dataclass(frozen=True, slots=True, kw_only=True)
class InitData:
    """The facts about project, user and computer for a job that do not change between starts."""

    client_version: tuple[int, int, int] = (0, 0, 0)
    app_name: str = ""
    app_version: int = 0  #: version number
    plan_class: str = ""
    wu_name: str = ""
    user_id: int = 0
    team_id: int = 0
    host_id: int = 0
    user_name: str = ""
    team_name: str = ""
    authenticator: str = ""
    acct_mgr_url: str = ""
    project_preferences: str = ""  #: the element, verbatim
    global_preferences: str = ""  #: the element in force, verbatim
    user_total_credit: float = 0.0
    user_expavg_credit: float = 0.0
    host_total_credit: float = 0.0
    host_expavg_credit: float = 0.0
    resource_share_fraction: float = 1.0
    checkpoint_period: float = 60.0  #: s
    ncpus: float = 1.0
    gpu_type: str = ""
    gpu_device_num: int = -1  #: among all devices, and among those of OpenCL
    gpu_usage: float = 0.0
    rsc_fpops_est: float = 0.0
    rsc_fpops_bound: float = 0.0
    rsc_memory_bound: float = 0.0
    rsc_disk_bound: float = 0.0
    computation_deadline: float = 0.0  #: Unix s
    vm_extensions_disabled: bool = False
    host: HostInfo = field(default_factory=HostInfo)
    coprocs: tuple[CoprocRequest, ...] = ()
    app_files: tuple[str, ...] = ()  #: physical names of the version's files


@dataclass(frozen=True, slots=True, kw_only=True)
class StartData:
    """The facts that change between starts; paths and process ids are those that the job itself sees."""

    result_name: str
    slot: int
    project_dir: str
    boinc_dir: str
    client_pid: int
    mapped: bool  #: whether there is a memory-mapped segment
    cpu_time: float = 0.0  #: s, at the last checkpoint
    elapsed: float = 0.0  #: s, at the last checkpoint
    using_sandbox: bool = False


def write_init_data(init: InitData, start: StartData) -> str:
    """Return the whole file.  It contains the user's key: the slot must not be readable by others."""
    major, minor, release = init.client_version
    parts = [
        scalar("major_version", major),
        scalar("minor_version", minor),
        scalar("release", release),
        scalar("app_version", init.app_version),
        scalar("userid", init.user_id),
        scalar("teamid", init.team_id),
        scalar("hostid", init.host_id),
        scalars(init, "app_name plan_class"),
        scalar("symstore", ""),
        scalar("acct_mgr_url", init.acct_mgr_url),
        _verbatim(init.project_preferences),
        scalars(init, "team_name user_name"),
        scalars(start, "project_dir boinc_dir"),
        scalars(init, "authenticator wu_name"),
        scalar("result_name", start.result_name),
        scalar("shm_key", -1 if start.mapped else 0),
        scalars(start, "slot client_pid"),
        number("wu_cpu_time", start.cpu_time, ""),
        number("starting_elapsed_time", start.elapsed, ""),
        scalar("using_sandbox", start.using_sandbox),
        scalar("vm_extensions_disabled", init.vm_extensions_disabled),
        numbers(init, "user_total_credit user_expavg_credit host_total_credit host_expavg_credit"),
        numbers(init, "resource_share_fraction checkpoint_period"),
        scalar("fraction_done_start", 0.0),
        scalar("fraction_done_end", 1.0),
        scalars(init, "gpu_type gpu_device_num"),
        scalar("gpu_opencl_dev_index", init.gpu_device_num),
        numbers(init, "gpu_usage ncpus rsc_fpops_est rsc_fpops_bound rsc_memory_bound rsc_disk_bound"),
        number("computation_deadline", init.computation_deadline, ""),
        scalar("vbox_window", False),
        scalar("no_priority_change", False),
        scalar("process_priority", -1),
        scalar("process_priority_special", -1),
        write_host_info(init.host, init.coprocs, with_coprocs=True),
        _verbatim(init.global_preferences),
        *(scalar("app_file", name) for name in init.app_files),
    ]
    return f"<app_init_data>\n{''.join(parts)}</app_init_data>\n"


def _verbatim(element: str) -> str:
    return f"{element.strip()}\n" if element.strip() else ""


def read_result_name(text: str) -> str:
    """Return the result that a file was written for; empty without one."""
    found = re.search(r"<result_name>([^<]{1,255})</result_name>", text)
    return unescape(found[1]) if found else ""


SEGMENT_FILE = "boinc_mmap_file"
CHANNEL_BYTES = 1024
SEGMENT_BYTES = 8 * CHANNEL_BYTES
MAX_MESSAGE = CHANNEL_BYTES - 2
MAX_CPU_SECONDS = 1e10
_SCALAR = re.compile(r"<(\w{1,40})>([^<]{0,900})</\1>", re.ASCII)


class Channel(IntEnum):
    """The purpose of a channel; each is used in one direction only."""

    CONTROL = 0  #: client to job
    CONTROL_REPLY = 1  #: not used
    GRAPHICS_REQUEST = 2  #: not used
    GRAPHICS_REPLY = 3  #: job to client
    HEARTBEAT = 4  #: client to job
    STATUS = 5  #: job to client
    TRICKLE_UP = 6  #: job to client
    TRICKLE_DOWN = 7  #: client to job


class TaskOrders(StrEnum):
    """Orders to a job."""

    SUSPEND = "<suspend/>"
    RESUME = "<resume/>"
    QUIT = "<quit/>"
    ABORT = "<abort/>"


NEW_TRICKLE_UP = "<have_new_trickle_up/>"
NEW_UPLOAD_FILE = "<have_new_upload_file/>"
HAVE_TRICKLE_DOWN = "<have_trickle_down/>\n"
UPLOAD_FILE_STATUS = "<upload_file_status/>\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReport:
    """A job's report on itself; seconds of CPU time since its first start."""

    cpu_time: float = 0.0
    checkpoint_cpu_time: float = 0.0
    fraction_done: float | None = None  #: None: it does not say
    intops_cumulative: float = 0.0  #: operations that it has counted since its first start


def _reader(text: str, where: str) -> FieldReader:
    data = text.encode("utf-8", "replace").decode("latin-1")  # the form in which the reader takes texts
    return FieldReader(dict(_SCALAR.findall(data)), where, [])


def read_status(text: str) -> TaskReport:
    """Read a message of the status channel; values out of bounds count as missing."""
    reader = _reader(text, "status")
    fraction = reader.number("fraction_done", -1.0, 0.0, 1.0)
    return TaskReport(
        cpu_time=reader.number("current_cpu_time", high=MAX_CPU_SECONDS),
        checkpoint_cpu_time=reader.number("checkpoint_cpu_time", high=MAX_CPU_SECONDS),
        fraction_done=fraction if fraction > 0 else None,  # the family ignores 0
        intops_cumulative=reader.number("intops_cumulative", high=MAX_OPERATIONS),
    )


def read_graphics(text: str) -> tuple[str, str]:
    """Return the addresses of a job's own web page and remote desktop; empty where it has none."""
    reader = _reader(text, "graphics")
    return reader.text("web_graphics_url", 256), reader.text("remote_desktop_addr", 256)


def write_heartbeat(*, working_set: float, allowed: float, network_suspended: bool) -> str:
    """Return the message sent every second; bytes."""
    network = "<network_suspended/>" if network_suspended else ""
    return f"<heartbeat/><wss>{working_set:e}</wss><max_wss>{allowed:e}</max_wss>{network}"


def write_soft_link(path: str) -> str:
    """Return the content of a file that links to another one; ``path`` is relative to the slot."""
    return f"<soft_link>{escape(path)}</soft_link>\n"


def read_soft_link(text: str) -> str:
    """Return the target of a soft link; empty for another file."""
    found = re.match(r"<soft_link>([^<\n]{1,4096})</soft_link>\s*\Z", text)
    return unescape(found[1]) if found else ""


@value(kw_only=True)
class CheckpointState:
    """A task at its last checkpoint; seconds and bytes."""

    project_url: Annotated[str, Text(256, element="project_master_url")]
    result_name: Annotated[str, Text(256)]
    cpu_time: Annotated[float, Number(high=MAX_CPU_SECONDS, element="checkpoint_cpu_time")] = 0.0
    elapsed: Annotated[float, Number(high=MAX_CPU_SECONDS, element="checkpoint_elapsed_time")] = 0.0
    fraction_done: Annotated[float, Number(high=1.0)] = 0.0
    peak_working_set: Annotated[float, Number(element="peak_working_set_size", digits=0)] = 0.0


_STATE = FieldTable(CheckpointState)
_WRITTEN_STATE = _STATE.layout(tag="active_task")


def write_task_state(state: CheckpointState) -> str:
    """Return the content of ``boinc_task_state.xml``."""
    return _WRITTEN_STATE.write(state)


def read_task_state(text: str) -> CheckpointState | None:
    """Read it back; None for another text (a power loss may leave an empty file, a job may overwrite it)."""
    if not text.lstrip().startswith("<active_task>") or not text.rstrip().endswith("</active_task>"):
        return None
    return _STATE.read(_reader(text, "active_task"))


def read_variety(text: str) -> str:
    """Return the variety that a job's ``trickle_up.xml`` names; empty without one."""
    return _reader(text[:2048], "trickle_up").text("variety", 255)


def write_upload_status(status: int) -> str:
    """Return the content of a ``boinc_ufs_`` file."""
    return f"<status>{status}</status>\n"


#: Variety of these messages (BOINC's name of the handler).
CREDIT_VARIETY = "trickle_credit"

_RUN_TIME = re.compile(r"<runtime>\s*([^<\s]{1,64})\s*</runtime>")


def read_run_time(text: str) -> float:
    """Return the seconds of run time in a message; NaN if there are none."""
    found = _RUN_TIME.search(text[:100_000])
    try:
        return float(found[1]) if found else float("nan")
    except ValueError:
        return float("nan")
