"""Messages to and from the task runner."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

from cobblestone.policy.client.host.tasks import Ending
from cobblestone.wire.client.task_messages import InitData


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskInput:
    """A file of the app or of the job, present in the project's directory."""

    open_name: str  #: the name under which the job opens it; may have sub-directories
    physical_name: str
    copy: bool = False
    executable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOutput:
    """A file that the job writes."""

    open_name: str
    physical_name: str
    copy: bool = False
    max_nbytes: float = 0.0  #: 0: no bound
    optional: bool = False
    packed: bool = False  #: it is to be compressed before it is uploaded


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLimits:
    """Bounds of one task; 0 means none."""

    memory_bytes: float = 0.0  #: resident size of all its processes
    disk_bytes: float = 0.0  #: slot with outputs
    elapsed_seconds: float = 0.0
    processes: int = 0  #: processes and threads


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """One job to be run.  File names were checked on arrival from the server, and are checked again here."""

    name: str  #: by which the runner knows it; results of two projects may have the same
    result_name: str
    project_url: str
    project_dir: Path
    main_program: str  #: physical name
    arguments: tuple[str, ...] = ()
    inputs: tuple[TaskInput, ...] = ()  #: files of the version and of the job, without the main program
    outputs: tuple[TaskOutput, ...] = ()
    init: InitData = field(default_factory=InitData)
    mapped: bool = True  #: the app's API is 6.0 or newer: it has a memory-mapped segment
    needs_network: bool = False
    uses_gpu: bool = False
    in_container: bool = False  #: it starts Podman or Docker, which the sandbox has not
    niceness: int | None = 19  #: of its processes; None: that of the client
    stderr_head: bool = False  #: keep the beginning of its error output rather than the end
    limits: TaskLimits = field(default_factory=TaskLimits)


class ProcessState(IntEnum):
    """States of a task's process, with the numbers used by managers."""

    EXECUTING = 1
    ABORT_PENDING = 5
    QUIT_PENDING = 8
    SUSPENDED = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducedFile:
    """An output in the project's directory, ready to be uploaded."""

    physical_name: str
    path: Path
    nbytes: int
    md5: str


@dataclass(frozen=True, slots=True)
class Started:
    """The job's process is running."""

    name: str
    slot: int
    pid: int
    resumed: bool  #: from a checkpoint or in a slot that it had used


@dataclass(frozen=True, slots=True)
class Checkpointed:
    """The job can continue from here; the slot's state file already says so."""

    name: str
    cpu_time: float
    elapsed: float
    fraction_done: float


@dataclass(frozen=True, slots=True)
class TrickleUp:
    """The job sends a message to its project.  ``path`` keeps it safe until the receiver removes the file."""

    name: str
    variety: str
    path: Path


@dataclass(frozen=True, slots=True)
class UploadWanted:
    """The job wants an output uploaded while it runs; the file has been moved to the project's directory."""

    name: str
    file: ProducedFile


@dataclass(frozen=True, slots=True)
class Notice:
    """A sentence for the event log; for people too when ``important``."""

    name: str
    text: str
    important: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The job's process is gone, with all its descendants."""

    name: str
    ending: Ending
    exit_status: int = 0
    text: str = ""  #: in words
    stderr: bytes = b""  #: at most the last 63 KB
    cpu_time: float = 0.0
    elapsed: float = 0.0
    peak_working_set: float = 0.0
    intops_cumulative: float = 0.0  #: operations that the job has counted; 0: it does not
    outputs: tuple[ProducedFile, ...] = ()
    delay_seconds: float = 0.0  #: POSTPONED: how long; RESTART: a short pause
    as_notice: bool = False


TaskEvent = Started | Checkpointed | TrickleUp | UploadWanted | Notice | Ended
