"""Client and running job: the messages of the shared segment, soft links, and the file that remembers a checkpoint.

The segment has eight channels of 1024 bytes: one byte that is not 0 while the message is unread, then a text that ends with NUL.
Everything that comes from a job is untrusted.  Source: BOINC's ``lib/app_ipc.h`` and ``client/app_control.cpp`` (facts only),
and what client 7.20.5 was seen to do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum, StrEnum

from cobblestone.wire.scheduler_request import MAX_OPERATIONS
from cobblestone.wire.xml_reader import FieldReader, unescape
from cobblestone.wire.xml_writer import escape, scalar

SEGMENT_FILE = "boinc_mmap_file"
CHANNEL_BYTES = 1024
SEGMENT_BYTES = 8 * CHANNEL_BYTES
MAX_MESSAGE = CHANNEL_BYTES - 2
MAX_CPU_SECONDS = 1e10
_SCALAR = re.compile(r"<(\w{1,40})>([^<]{0,900})</\1>", re.ASCII)


class Channel(IntEnum):
    """What a channel is for; each is used in one direction only."""

    CONTROL = 0  #: client to job
    CONTROL_REPLY = 1  #: not used
    GRAPHICS_REQUEST = 2  #: not used
    GRAPHICS_REPLY = 3  #: job to client
    HEARTBEAT = 4  #: client to job
    STATUS = 5  #: job to client
    TRICKLE_UP = 6  #: job to client
    TRICKLE_DOWN = 7  #: client to job


class Control(StrEnum):
    """Orders to a job."""

    SUSPEND = "<suspend/>"
    RESUME = "<resume/>"
    QUIT = "<quit/>"
    ABORT = "<abort/>"
    REREAD = "<reread_app_info/>"


NEW_TRICKLE_UP = "<have_new_trickle_up/>"
NEW_UPLOAD_FILE = "<have_new_upload_file/>"
HAVE_TRICKLE_DOWN = "<have_trickle_down/>\n"
UPLOAD_FILE_STATUS = "<upload_file_status/>\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """What a job says of itself; seconds of CPU time since its first start."""

    cpu_time: float = 0.0
    checkpoint_cpu_time: float = 0.0
    fraction_done: float | None = None  #: None: it does not say
    intops_cumulative: float = 0.0  #: operations that it has counted since its first start
    other_pid: int = 0
    wants_network: bool = False


def _reader(text: str, where: str) -> FieldReader:
    data = text.encode("utf-8", "replace").decode("latin-1")  # the form in which the reader takes texts
    return FieldReader(dict(_SCALAR.findall(data)), where, [])


def read_status(text: str) -> JobStatus:
    """Read a message of the status channel; what is out of bounds counts as not said."""
    reader = _reader(text, "status")
    fraction = reader.number("fraction_done", -1.0, 0.0, 1.0)
    return JobStatus(
        cpu_time=reader.number("current_cpu_time", high=MAX_CPU_SECONDS),
        checkpoint_cpu_time=reader.number("checkpoint_cpu_time", high=MAX_CPU_SECONDS),
        fraction_done=fraction if fraction > 0 else None,  # the family ignores 0
        intops_cumulative=reader.number("intops_cumulative", high=MAX_OPERATIONS),
        other_pid=reader.integer("other_pid", high=2**22),
        wants_network=reader.flag("want_network"),
    )


def read_graphics(text: str) -> tuple[str, str]:
    """Return the addresses of a job's own web page and remote desktop; empty where it has none."""
    reader = _reader(text, "graphics")
    return reader.text("web_graphics_url", 256), reader.text("remote_desktop_addr", 256)


def write_heartbeat(*, working_set: float, allowed: float, network_suspended: bool) -> str:
    """Return the message of each second; bytes."""
    network = "<network_suspended/>" if network_suspended else ""
    return f"<heartbeat/><wss>{working_set:e}</wss><max_wss>{allowed:e}</max_wss>{network}"


def write_soft_link(path: str) -> str:
    """Return the content of a file that stands in a slot for another one; ``path`` is relative to the slot."""
    return f"<soft_link>{escape(path)}</soft_link>\n"


def read_soft_link(text: str) -> str:
    """Where a soft link leads; empty for a file that is none."""
    found = re.match(r"<soft_link>([^<\n]{1,4096})</soft_link>\s*\Z", text)
    return unescape(found[1]) if found else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskState:
    """A task at its last checkpoint; seconds and bytes."""

    project_url: str
    result_name: str
    cpu_time: float = 0.0
    elapsed: float = 0.0
    fraction_done: float = 0.0
    peak_working_set: float = 0.0


def write_task_state(state: TaskState) -> str:
    """Return the content of ``boinc_task_state.xml``."""
    return (
        "<active_task>\n"
        + scalar("project_master_url", state.project_url, "    ")
        + scalar("result_name", state.result_name, "    ")
        + scalar("checkpoint_cpu_time", float(state.cpu_time), "    ")
        + scalar("checkpoint_elapsed_time", float(state.elapsed), "    ")
        + scalar("fraction_done", float(state.fraction_done), "    ")
        + scalar("peak_working_set_size", int(state.peak_working_set), "    ")
        + "</active_task>\n"
    )


def read_task_state(text: str) -> TaskState | None:
    """Read it back; None for a text that is not one (a power cut may leave an empty file, a job may overwrite it)."""
    if not text.lstrip().startswith("<active_task>") or not text.rstrip().endswith("</active_task>"):
        return None
    reader = _reader(text, "active_task")
    return TaskState(
        project_url=reader.text("project_master_url", 256),
        result_name=reader.text("result_name", 256),
        cpu_time=reader.number("checkpoint_cpu_time", high=MAX_CPU_SECONDS),
        elapsed=reader.number("checkpoint_elapsed_time", high=MAX_CPU_SECONDS),
        fraction_done=reader.number("fraction_done", high=1.0),
        peak_working_set=reader.number("peak_working_set_size"),
    )


def read_variety(text: str) -> str:
    """Return the variety that a job's ``trickle_up.xml`` names; empty without one."""
    return _reader(text[:2048], "trickle_up").text("variety", 255)


def write_upload_status(status: int) -> str:
    """Return the content of a ``boinc_ufs_`` file."""
    return f"<status>{status}</status>\n"
