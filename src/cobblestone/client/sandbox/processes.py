"""Processes of jobs: started behind a gate, measured with all descendants, limited by control groups, and ended.

Control groups for jobs: memory and number of processes, enforced by the kernel.

Version 2 (one tree) and version 1 (a tree for each controller) are used, whichever lets us make groups.  Version 2 forbids
processes beside sub-groups, so there the client itself moves into a group of its own below the one that it was started in.
"""

from __future__ import annotations

import errno
import hashlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

#: Marks all processes of a job, also those that left their session or lost their parent.
SLOT_VARIABLE = "COBBLESTONE_SLOT"
_MARK = f"\0{SLOT_VARIABLE}=".encode()
#: The shell waits until limits are set, and ends if we die before: so no process of a job ever runs without its limits.
_GATE = 'read -r go && exec "$@" </dev/null'
_FOLDERS_IN_MEMORY = ("/", "/dev", "/dev/shm", "/run", "/tmp")  # noqa: S108  # inside of the sandbox
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """One process as the system accounts it; seconds and bytes."""

    parent: int
    cpu_seconds: float  #: its own and that of ended children
    resident: float
    virtual: float
    threads: int
    is_zombie: bool


@dataclass(frozen=True, slots=True)
class TreeUsage:
    """The usage of a process and its descendants."""

    pids: frozenset[int]  #: without zombies
    cpu_seconds: float
    resident: float
    virtual: float
    threads: int  #: of all of them; each process has at least one


NOTHING = TreeUsage(frozenset(), 0.0, 0.0, 0.0, 0)


def read_processes() -> dict[int, ProcessFacts]:
    """Return all processes of the system."""
    found: dict[int, ProcessFacts] = {}
    for name in _process_names():
        if name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                fields = _read(f"/proc/{name}/stat").rpartition(b") ")[2].split()
                found[int(name)] = ProcessFacts(
                    parent=int(fields[1]),
                    cpu_seconds=sum(map(int, fields[11:15])) / _TICKS,
                    resident=int(fields[21]) * _PAGE,
                    virtual=float(int(fields[20])),
                    threads=int(fields[17]),
                    is_zombie=fields[0] in (b"Z", b"X"),
                )
    return found


def _process_names() -> list[str]:
    return os.listdir("/proc")  # noqa: PTH208  # names only, several times as fast


def _read(path: str, limit: int = 1 << 17) -> bytes:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(file, limit)
    finally:
        os.close(file)


def usage_by_root(
    processes: Mapping[int, ProcessFacts], roots: Mapping[int, Collection[int]]
) -> dict[int, TreeUsage]:
    """Return the usage of each given process with its descendants, and of further processes with theirs."""
    children: dict[int, list[int]] = {}
    for pid, facts in processes.items():
        children.setdefault(facts.parent, []).append(pid)
    found: dict[int, TreeUsage] = {}
    for root, others in roots.items():
        pids: set[int] = set()
        cpu = resident = virtual = 0.0
        threads = 0
        waiting = [root, *others]
        while waiting:
            pid = waiting.pop()
            facts = processes.get(pid)
            if facts is None or pid in pids:
                continue
            waiting += children.get(pid, [])
            cpu += facts.cpu_seconds
            if not facts.is_zombie:
                pids.add(pid)
                resident += facts.resident
                virtual += facts.virtual
                threads += facts.threads
        found[root] = TreeUsage(frozenset(pids), cpu, resident, virtual, threads)
    return found


def files_in_memory(pids: Collection[int]) -> int:
    """Return the bytes of files that a sandbox keeps in memory, seen from inside; no process's size includes them.

    A process whose sandbox is still being set up sees the computer's own file systems, which do not count.
    """
    outside = _used_by_device("")
    for pid in pids:
        inside = _used_by_device(f"/proc/{pid}/root")
        if own := inside.keys() - outside.keys():
            return sum(inside[device] for device in own)
    return 0


def _used_by_device(root: str) -> dict[int, int]:
    found: dict[int, int] = {}
    for folder in _FOLDERS_IN_MEMORY:
        with suppress(OSError):
            device, seen = Path(root + folder).stat().st_dev, os.statvfs(root + folder)
            found[device] = (seen.f_blocks - seen.f_bfree) * seen.f_frsize
    return found


def tasks_of_account(uid: int) -> int:
    """Count the processes and threads that run under an account."""
    found = 0
    for pid, facts in read_processes().items():
        with suppress(OSError):
            found += facts.threads if Path(f"/proc/{pid}").stat().st_uid == uid else 0
    return found


def processes_by_slot() -> dict[str, set[int]]:
    """Return living processes by the slot for which they were started, from the mark in their environment."""
    found: dict[str, set[int]] = {}
    for name in _process_names():
        if name.isdigit():
            with suppress(OSError):
                _, mark, rest = (b"\0" + _read(f"/proc/{name}/environ")).partition(_MARK)
                if mark:
                    found.setdefault(os.fsdecode(rest.partition(b"\0")[0]), set()).add(int(name))
    return found


def marked_processes(slot: Path) -> set[int]:
    """Return living processes that were started for this slot."""
    return processes_by_slot().get(str(slot), set())


def send(pids: Collection[int], number: signal.Signals) -> None:
    """Send a signal to processes that may have ended."""
    for pid in pids:
        if pid > 1:
            with suppress(OSError):
                os.kill(pid, number)


class JobProcess:
    """The main process of a running job; ``pidfd`` becomes readable when it ends, and then it must be reaped."""

    def __init__(
        self,
        argv: list[str],
        *,
        slot: Path,
        stderr: int,
        environment: Mapping[str, str],
        prepare: Callable[[int], None],
    ) -> None:
        """Start the process; ``prepare`` gets its id and sets its limits before the program starts.  Raises OSError."""
        waiting_end, our_end = os.pipe2(os.O_CLOEXEC)
        with os.fdopen(waiting_end), os.fdopen(our_end, "wb", buffering=0) as gate:
            self._popen = subprocess.Popen(
                ["/bin/sh", "-c", _GATE, "job", *argv],
                stdin=waiting_end,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                cwd=slot,
                env={**environment, SLOT_VARIABLE: str(slot)},
                start_new_session=True,
            )
            self.pid = self._popen.pid
            self.slot = slot
            self.cpu_seconds = 0.0
            try:
                self.pidfd = os.pidfd_open(self.pid)
                prepare(self.pid)
            except BaseException:
                self._popen.kill()
                self._popen.wait()
                raise
            with suppress(BrokenPipeError):  # killed at once: its end is seen like any other
                gate.write(b"go\n")

    def reap(self) -> tuple[int, int]:
        """Reap the ended process; return exit code and signal, one of which is 0."""
        os.close(self.pidfd)
        try:
            _, status, usage = os.wait4(self.pid, 0)
        except ChildProcessError:  # someone else waited for it; no status is left
            self._popen.returncode = -signal.SIGKILL
            return 0, signal.SIGKILL
        self.cpu_seconds = usage.ru_utime + usage.ru_stime
        self._popen.returncode = os.waitstatus_to_exitcode(status)
        return (0, -self._popen.returncode) if self._popen.returncode < 0 else (self._popen.returncode, 0)

    def tree(self, processes: Mapping[int, ProcessFacts]) -> set[int]:
        """Return which of these processes are the job's and live."""
        return set(usage_by_root(processes, {self.pid: ()})[self.pid].pids)


ROOT = Path("/sys/fs/cgroup")
CONTROLLERS = ("memory", "pids")
#: For which the end of the client waits for processes that were killed.
LEAVING_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class ControlGroups:
    """The location of our groups: a directory for each controller, the same one for all in version 2."""

    version: int
    folders: Mapping[str, Path]

    def open(self, slot: int, *, memory_bytes: float, processes: int) -> JobGroup:
        """Create the group of one slot with its limits; 0 means none.  Limits that the system refuses are left out."""
        group = JobGroup(
            self.version, {name: folder / f"slot-{slot}" for name, folder in self.folders.items()}
        )
        for folder in set(group.folders.values()):
            folder.mkdir(exist_ok=True)
        if memory := group.folders.get("memory"):
            limit = f"{memory_bytes:.0f}" if memory_bytes > 0 else ""
            if self.version == 2:
                _write(memory / "memory.max", limit or "max")
                _write(memory / "memory.swap.max", "0" if limit else "max")
            else:
                _write(memory / "memory.limit_in_bytes", limit or "-1")
        if pids := group.folders.get("pids"):
            group.enforces_processes = _write(pids / "pids.max", str(processes) if processes > 0 else "max")
        return group

    def remove(self) -> None:
        """Remove our own, now empty, groups; a process that was killed may leave its group a moment later."""
        end = time.monotonic() + LEAVING_SECONDS
        for folder in set(self.folders.values()):
            for group in folder.glob("slot-*"):
                while _is_busy(group) and time.monotonic() < end:
                    time.sleep(0.01)
            _is_busy(folder)  # of version 2: it holds the client itself, and stays


def _is_busy(group: Path) -> bool:
    """Remove a group if possible; return whether a process is still in it."""
    try:
        group.rmdir()
    except OSError as error:
        return error.errno == errno.EBUSY
    return False


class JobGroup:
    """The group of one slot."""

    def __init__(self, version: int, folders: Mapping[str, Path]) -> None:
        self.version = version
        self.folders = folders
        self.enforces_processes = False

    def add(self, pid: int) -> None:
        """Add a process; its children are born in the group."""
        for folder in set(self.folders.values()):
            _write(folder / "cgroup.procs", str(pid))

    def pids(self) -> set[int]:
        """Return the processes in the group."""
        found: set[int] = set()
        for folder in set(self.folders.values()):
            with suppress(OSError, ValueError):
                found |= set(map(int, (folder / "cgroup.procs").read_text().split()))
        return found

    def kill(self) -> None:
        """Kill all its processes."""
        if self.version == 2 and any(_write(folder / "cgroup.kill", "1") for folder in self.folders.values()):
            return
        for pid in self.pids():
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    def out_of_memory_kills(self) -> int:
        """Return how many processes the system has killed at the memory limit."""
        memory = self.folders.get("memory")
        if memory is None:
            return 0
        name = "memory.events" if self.version == 2 else "memory.oom_control"
        with suppress(OSError, ValueError):
            counts = dict(line.split() for line in (memory / name).read_text().splitlines())
            return int(counts.get("oom_kill", 0))
        return 0

    def close(self) -> None:
        """Remove the group; it stays for later use while a dead process has not been reaped."""
        for folder in set(self.folders.values()):
            with suppress(OSError):
                folder.rmdir()


def find_control_groups(data_dir: Path, *, root: Path = ROOT, own: str | None = None) -> ControlGroups | None:
    """Create groups for the jobs of a client in ``data_dir``; return None if the system does not allow it.

    ``own`` is what ``/proc/self/cgroup`` says.
    """
    name = f"cobblestone-{hashlib.sha256(str(data_dir).encode()).hexdigest()[:12]}"
    if own is None:
        try:
            own = Path("/proc/self/cgroup").read_text()
        except OSError:
            return None
    paths = dict(line.split(":", 2)[1:] for line in own.splitlines() if line.count(":") >= 2)
    return _version_2(root, paths.get("", "/"), name) or _version_1(root, paths, name)


def _version_2(root: Path, path: str, name: str) -> ControlGroups | None:
    here = root / path.strip("/")
    try:
        offered = (here / "cgroup.controllers").read_text().split()
        if not set(CONTROLLERS) & set(offered):
            return None
        ours = here / name
        (ours / "client").mkdir(parents=True, exist_ok=True)
        # A group with sub-groups that have controllers must hold no process: move whatever is in ours.
        for pid in (here / "cgroup.procs").read_text().split():
            if int(pid) == os.getpid():
                (ours / "client" / "cgroup.procs").write_text(pid)
        enabled = [
            each for each in CONTROLLERS if each in offered and _enable(here, each) and _enable(ours, each)
        ]
    except (OSError, ValueError):
        return None
    return ControlGroups(2, dict.fromkeys(enabled, ours)) if enabled else None


def _enable(folder: Path, controller: str) -> bool:
    return _write(folder / "cgroup.subtree_control", f"+{controller}")


def _version_1(root: Path, paths: Mapping[str, str], name: str) -> ControlGroups | None:
    folders: dict[str, Path] = {}
    for controllers, path in paths.items():
        for controller in set(controllers.split(",")) & set(CONTROLLERS):
            for parent in (root / controller / path.strip("/"), root / controllers / path.strip("/")):
                folder = parent / name
                with suppress(OSError):
                    if (parent / "cgroup.procs").exists():
                        folder.mkdir(exist_ok=True)
                        if os.access(folder, os.W_OK, effective_ids=True):  # another account may have left it
                            folders[controller] = folder
                            break
    return ControlGroups(1, folders) if folders else None


def _write(file: Path, text: str) -> bool:
    try:
        with file.open("r+" if file.exists() else "w") as stream:
            stream.write(text)
    except OSError:
        return False
    return True
