"""The content of a slot: files, the shared segment, the environment; and how a slot is set up, read and emptied.

Our side of the shared segment.

The file is read and written, not mapped: a job that cuts its segment short would kill a client that maps it (SIGBUS), while a
read only comes back short.  On Linux both ways see the same pages.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from cobblestone.client.sandbox.containers import CONTAINERS_FOLDER
from cobblestone.client.sandbox.sandbox import SYSTEM_PATH
from cobblestone.client.sandbox.slot_files import SlotFolder, checked_open_name, checked_physical_name
from cobblestone.client.tasks.description import ProducedFile, TaskOutput, TaskSpec
from cobblestone.domain.errors import CobblestoneError, JobError
from cobblestone.launcher.cobblestone_runtime import HOME_FOLDER, home_variables
from cobblestone.policy.client.host.tasks import (
    DEFAULT_DEFERRAL,
    ERR_FILE_MISSING,
    ERR_FILE_TOO_BIG,
    FinishFile,
    TemporaryExit,
)
from cobblestone.wire.client.task_messages import (
    CHANNEL_BYTES,
    HAVE_TRICKLE_DOWN,
    MAX_MESSAGE,
    SEGMENT_BYTES,
    SEGMENT_FILE,
    UPLOAD_FILE_STATUS,
    Channel,
    CheckpointState,
    StartData,
    TaskOrders,
    read_result_name,
    read_soft_link,
    read_task_state,
    read_variety,
    write_init_data,
    write_soft_link,
    write_task_state,
    write_upload_status,
)

INIT_FILE = "init_data.xml"
STATE_FILE = "boinc_task_state.xml"
FINISH_FILE = "boinc_finish_called"
TEMPORARY_EXIT_FILE = "boinc_temporary_exit"
STDERR_FILE = "stderr.txt"
PACK_BYTES = 256 * 1024
_GZIP_BEGINS = b"\x1f\x8b"
TRICKLE_UP_FILE = "trickle_up.xml"
READY_FILE = "boinc_setup_complete"
UPLOAD_REQUEST = "boinc_ufr_"
UPLOAD_STATUS = "boinc_ufs_"
#: Where outputs lie that the job opens through a link: in the slot, so that it need not write anywhere else.
OUTPUTS = "outputs"
RESERVED = frozenset(
    {
        INIT_FILE,
        STATE_FILE,
        FINISH_FILE,
        TEMPORARY_EXIT_FILE,
        STDERR_FILE,
        READY_FILE,
        SEGMENT_FILE,
        OUTPUTS,
        HOME_FOLDER,
        "boinc_lockfile",
    }
)
STDERR_BYTES = 63 * 1024
MAX_TEXT_FILE = 1 << 20


class OutputProblem(CobblestoneError):
    """An output of a finished job cannot be used."""

    def __init__(self, exit_status: int, message: str) -> None:
        super().__init__(message)
        self.exit_status = exit_status


def is_set_up_for(folder: SlotFolder, name: str) -> bool:
    """Return whether the slot holds this task, complete, from an earlier start."""
    mark = folder.read(READY_FILE, 300)
    if mark is None:
        return False
    # The family's client leaves the mark empty.
    written_for = mark.decode(errors="replace").strip() or read_result_name(_text(folder, INIT_FILE))
    return written_for == name


def set_up(folder: SlotFolder, spec: TaskSpec) -> None:
    """Put links and copies of a job's files into an empty slot; the last step marks it complete.

    Raises JobError for names that lead out of the slot, OSError when the disk is full or a file is missing.
    """
    folder.empty()
    folder.make()
    project = f"../../projects/{spec.project_dir.name}"
    for file in spec.inputs:
        name = _free_name(file.open_name)
        source = checked_physical_name(file.physical_name)
        if file.copy:
            folder.copy_in(spec.project_dir / source, name, executable=file.executable)
        else:
            _link(folder, f"{project}/{source}", name)
    main = checked_physical_name(spec.main_program)
    _link(folder, f"{project}/{main}", main)
    for output in spec.outputs:
        checked_physical_name(output.physical_name)
        if not output.copy:
            _link_output(folder, output)
    _complete(folder, spec)


def take_over(folder: SlotFolder, spec: TaskSpec) -> bool:
    """Take over a slot in which BOINC's client has saved a checkpoint of the job; return whether it has.

    Debian's client 7.20.5 leaves no mark of completeness, but writes the task's state at each checkpoint, as we do.  Its jobs
    write their outputs to the project's directory, where ours may not write: what is there already comes into the slot.
    """
    if read_state(folder, spec.result_name) is None:
        return False
    folder.make()
    begun: list[Path] = []
    for output in spec.outputs:
        written = spec.project_dir / checked_physical_name(output.physical_name)
        name = _free_name(output.open_name)
        if output.copy or (folder.exists(name) and not read_soft_link(_head(folder, name))):
            continue
        if written.is_file() and not written.is_symlink():
            folder.copy_in(written, f"{OUTPUTS}/{output.physical_name}", executable=False)
            begun.append(written)
        _link_output(folder, output)
    folder.own_everything()
    _complete(folder, spec)
    for written in begun:
        written.unlink(missing_ok=True)
    return True


def _link_output(folder: SlotFolder, output: TaskOutput) -> None:
    _link(folder, f"{OUTPUTS}/{output.physical_name}", _free_name(output.open_name))


def _complete(folder: SlotFolder, spec: TaskSpec) -> None:
    folder.write(f"{OUTPUTS}/.keep", b"")
    folder.write(READY_FILE, f"{spec.result_name}\n".encode())


def _free_name(open_name: str) -> str:
    name = str(checked_open_name(open_name))
    if name.partition("/")[0] in RESERVED:
        raise JobError(
            f"A file of the job is called {name!r}, a name that the client itself uses in the slot."
        )
    return name


def _link(folder: SlotFolder, target: str, name: str) -> None:
    folder.write(name, write_soft_link(target).encode())


def prepare_start(folder: SlotFolder, spec: TaskSpec, start: StartData) -> int | None:
    """Write what each start needs; return the descriptor of the segment, None for an app without one."""
    for name in (FINISH_FILE, TEMPORARY_EXIT_FILE):
        folder.remove(name)
    folder.write(f"{HOME_FOLDER}/tmp/.keep", b"")  # noqa: S108  # in the slot
    # Only the job and we may read it, since it contains the user's key.
    folder.write(INIT_FILE, write_init_data(spec.init, start).encode(), mode=0o640)
    return folder.open_for_exchange(SEGMENT_FILE, SEGMENT_BYTES) if spec.mapped else None


def _text(folder: SlotFolder, name: str) -> str:
    data = folder.read(name, MAX_TEXT_FILE)
    return data.decode(errors="replace") if data else ""


def read_state(folder: SlotFolder, name: str) -> CheckpointState | None:
    """Return the task's last checkpoint; None without one."""
    state = read_task_state(_head(folder, STATE_FILE))
    return state if state and state.result_name == name else None


def write_state(folder: SlotFolder, state: CheckpointState) -> None:
    """Store a checkpoint."""
    folder.write(STATE_FILE, write_task_state(state).encode())


def read_finish(folder: SlotFolder) -> FinishFile | None:
    """Return the job's final message; None if it has not ended by itself."""
    if not folder.exists(FINISH_FILE):
        return None
    lines = [*_text(folder, FINISH_FILE).splitlines(), "", "", ""]
    status = _number(lines[0], 0.0)
    return FinishFile(
        status=int(status), message=lines[1].strip()[:1000], as_notice=lines[2].strip() == "notice"
    )


def read_temporary_exit(folder: SlotFolder) -> TemporaryExit | None:
    """Return the pause that the job requests; None if there is none."""
    if not folder.exists(TEMPORARY_EXIT_FILE):
        return None
    lines = [*_text(folder, TEMPORARY_EXIT_FILE).splitlines(), "", "", ""]
    seconds = _number(lines[0], DEFAULT_DEFERRAL)
    return TemporaryExit(
        seconds=seconds, reason=lines[1].strip()[:1000], as_notice=lines[2].strip() == "notice"
    )


def _number(text: str, default: float) -> float:
    try:
        number = float(text)
    except ValueError:
        return default
    return number if -1e9 < number < 1e9 else default


def read_stderr(folder: SlotFolder, *, head: bool = False) -> bytes:
    """Return the end of the job's error output, or its start."""
    if head:
        return folder.read(STDERR_FILE, STDERR_BYTES) or b""
    return folder.read_tail(STDERR_FILE, STDERR_BYTES)


def collect_outputs(folder: SlotFolder, spec: TaskSpec) -> tuple[ProducedFile, ...]:
    """Move a finished job's outputs to the project's directory, and hash them.

    May be repeated after an interruption: what has been moved already is found there.  Raises OutputProblem.
    """
    produced: list[ProducedFile] = []
    for output in spec.outputs:
        file = hand_over(folder, spec, output)
        if file is not None:
            produced.append(file)
        elif not output.optional and not folder.exists(f"{UPLOAD_STATUS}{output.open_name}"):
            raise OutputProblem(
                ERR_FILE_MISSING, f"the job finished without its output file {output.open_name}"
            )
    for file, output in (
        (f, o) for f in produced for o in spec.outputs if o.physical_name == f.physical_name
    ):
        if 0 < output.max_nbytes < file.nbytes:
            raise OutputProblem(
                ERR_FILE_TOO_BIG,
                f"the output file {output.open_name} has {file.nbytes} bytes, the project allows {output.max_nbytes:.0f}",
            )
    return tuple(produced)


def hand_over(folder: SlotFolder, spec: TaskSpec, output: TaskOutput) -> ProducedFile | None:
    """Move one output to the project's directory; return None if there is none."""
    target = spec.project_dir / checked_physical_name(output.physical_name)
    places = [f"{OUTPUTS}/{output.physical_name}", str(checked_open_name(output.open_name))]
    for place in reversed(places) if output.copy else places:
        if place == places[0] or not read_soft_link(_head(folder, place)):
            size = folder.move_out(place, target)
            if size is not None:
                break
    else:
        if target.is_symlink() or not target.is_file():
            return None
        size = target.stat().st_size
    if output.packed and not 0 < output.max_nbytes < size:
        size = _pack(target)
    return ProducedFile(physical_name=output.physical_name, path=target, nbytes=size, md5=_md5(target))


def _pack(path: Path) -> int:
    """Compress a file in place, unless it is compressed; return its new size.  Equal files give equal files."""
    with path.open("rb") as source:
        if source.read(2) == _GZIP_BEGINS:
            return path.stat().st_size
        source.seek(0)
        growing = path.with_name(f".{path.name}.packing")  # no name from a server begins with a dot
        with growing.open("wb") as sink:
            with gzip.GzipFile("", "wb", fileobj=sink, mtime=0) as packed:
                shutil.copyfileobj(source, packed, PACK_BYTES)
            sink.flush()
            os.fsync(sink.fileno())
    growing.replace(path)
    return path.stat().st_size


def _head(folder: SlotFolder, name: str) -> str:
    return (folder.read(name, 5000) or b"").decode(errors="replace")


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def upload_requests(folder: SlotFolder, spec: TaskSpec) -> list[TaskOutput]:
    """Return outputs that the job wants uploaded now."""
    asked = {name.removeprefix(UPLOAD_REQUEST) for name in folder.names(UPLOAD_REQUEST)}
    return [output for output in spec.outputs if output.open_name in asked]


def note_upload(folder: SlotFolder, open_name: str, status: int) -> None:
    """Tell the job that an upload is done."""
    folder.write(f"{UPLOAD_STATUS}{open_name}", write_upload_status(status).encode())
    folder.remove(f"{UPLOAD_REQUEST}{open_name}")


def take_trickle(folder: SlotFolder, spec: TaskSpec, now: float) -> Path | None:
    """Move the job's message to where the job cannot change it, under the name that BOINC's client uses."""
    target = spec.project_dir / f"trickle_up_{checked_physical_name(spec.result_name)}_{now:.0f}.xml"
    while target.exists():
        now += 1
        target = spec.project_dir / f"trickle_up_{spec.result_name}_{now:.0f}.xml"
    with suppress(FileNotFoundError):
        if folder.move_out(TRICKLE_UP_FILE, target) is not None:
            return target
    return None


def trickle_variety(path: Path) -> str:
    """Return the variety named in a message from a job."""
    with path.open("rb") as file:
        return read_variety(file.read(2048).decode(errors="replace"))


_OPPOSITES = {TaskOrders.SUSPEND: TaskOrders.RESUME, TaskOrders.RESUME: TaskOrders.SUSPEND}


class SharedSegment:
    """Eight channels in an open file; orders that do not fit wait in a queue."""

    def __init__(self, file: int) -> None:
        self.file = file
        self.orders: deque[TaskOrders] = deque()
        self.order_unread_since: float | None = None
        """Since when the job has had an order that it has not read."""
        self.listens = False
        """Whether it ever read one."""
        self._pending_down: set[str] = set()

    def close(self) -> None:
        """Close the file."""
        os.close(self.file)

    def receive(self, channel: Channel) -> str:
        """Take the unread message of a channel; empty if there is none."""
        start = channel * CHANNEL_BYTES
        data = os.pread(self.file, CHANNEL_BYTES, start)
        if not data or not data[0]:
            return ""
        self._put(start, b"\0")
        return data[1:].split(b"\0", 1)[0].decode("ascii", "replace")

    def is_free(self, channel: Channel) -> bool:
        """Return whether the last message has been read."""
        return os.pread(self.file, 1, channel * CHANNEL_BYTES) == b"\0"

    def send(self, channel: Channel, text: str) -> bool:
        """Leave a message if the last one has been read."""
        if not self.is_free(channel):
            return False
        data = text.encode("ascii", "replace")[:MAX_MESSAGE] + b"\0"
        start = channel * CHANNEL_BYTES
        self._put(start + 1, data)
        self._put(start, b"\1")  # last: it makes the message valid
        return True

    def _put(self, start: int, data: bytes) -> None:
        if os.fstat(self.file).st_size >= SEGMENT_BYTES:  # do not make a cut file grow again, hole by hole
            os.pwrite(self.file, data, start)

    def order(self, control: TaskOrders) -> None:
        """Queue an order.  A suspension and a resumption that have both not been read cancel out."""
        if self.orders and self.orders[-1] == _OPPOSITES.get(control):
            self.orders.pop()
        elif control not in self.orders:
            self.orders.append(control)

    def announce(self, message: str) -> None:
        """Tell the job about a trickle or a finished upload, once it has read the last such message."""
        self._pending_down.add(message)

    def deliver(self, now: float) -> None:
        """Send queued orders; call it once a second."""
        if self.is_free(Channel.CONTROL):
            if self.order_unread_since is not None:
                self.listens = True
            self.order_unread_since = None
            if self.orders:
                self.send(Channel.CONTROL, self.orders.popleft())
                self.order_unread_since = now
        if self._pending_down:
            text = "".join(
                each for each in (HAVE_TRICKLE_DOWN, UPLOAD_FILE_STATUS) if each in self._pending_down
            )
            if self.send(Channel.TRICKLE_DOWN, text):
                self._pending_down.clear()


_WITH_LIBRARIES = 'LD_LIBRARY_PATH=$1 && export LD_LIBRARY_PATH && shift && exec "$@"'


def job_environment(
    spec: TaskSpec, environment: Mapping[str, str], data_dir: Path, slot: Path
) -> dict[str, str]:
    """Return a job's environment: of the volunteer's own, only time zone and language.

    ``slot`` is the slot's path as the job sees it: the home of the account that it runs under may not exist.
    """
    kept = {name: environment[name] for name in ("LANG", "TZ") if name in environment}
    kept["PATH"] = environment.get("PATH", SYSTEM_PATH)
    if spec.in_container:
        return {**kept, "HOME": str(data_dir / CONTAINERS_FOLDER)}
    if spec.uses_gpu:
        kept["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # the order of the driver, from which we have the numbers
    return {**kept, **home_variables(str(slot / HOME_FOLDER))}


def with_libraries(spec: TaskSpec, environment: Mapping[str, str], words: Sequence[str]) -> list[str]:
    """Return a job's command line, to be started last, with the library search path of its program.

    Whatever starts the sandbox must not look there: what a job leaves in its slot would run outside.
    """
    if spec.in_container:  # the engine is a program of the system, not of the project
        return list(words)
    folders = [
        f"../../projects/{spec.project_dir.name}",
        ".",
        "../..",
        environment.get("LD_LIBRARY_PATH", ""),
    ]
    return ["/bin/sh", "-c", _WITH_LIBRARIES, "job", ":".join(filter(None, folders)), *words]
