"""Control groups for jobs: memory and number of processes, enforced by the kernel.

Version 2 (one tree) and version 1 (a tree for each controller) are used, whichever lets us make groups.  Version 2 forbids
processes beside sub-groups, so there the client itself moves into a group of its own below the one that it was started in.
"""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
CONTROLLERS = ("memory", "pids")


@dataclass(frozen=True, slots=True)
class ControlGroups:
    """Where our groups are: a directory for each controller, the same one for all of them in version 2."""

    version: int
    folders: Mapping[str, Path]

    def open(self, slot: int, *, memory_bytes: float, processes: int) -> JobGroup:
        """Make the group of one slot with its limits; 0 means none.  Limits that the system refuses are left out."""
        group = JobGroup(
            self.version, {name: folder / f"slot-{slot}" for name, folder in self.folders.items()}
        )
        for folder in set(group.folders.values()):
            folder.mkdir(exist_ok=True)
        if memory := group.folders.get("memory"):
            limit = f"{memory_bytes:.0f}" if memory_bytes > 0 else ""
            if self.version == 2:
                group.enforces_memory = _write(memory / "memory.max", limit or "max")
                _write(memory / "memory.swap.max", "0" if limit else "max")
            else:
                group.enforces_memory = _write(memory / "memory.limit_in_bytes", limit or "-1")
        if pids := group.folders.get("pids"):
            group.enforces_processes = _write(pids / "pids.max", str(processes) if processes > 0 else "max")
        return group

    def remove(self) -> None:
        """Remove our own, now empty, groups."""
        for folder in set(self.folders.values()):
            for group in (*folder.glob("slot-*"), folder):
                with suppress(OSError):  # a process is still in it
                    group.rmdir()


class JobGroup:
    """The group of one slot."""

    def __init__(self, version: int, folders: Mapping[str, Path]) -> None:
        self.version = version
        self.folders = folders
        self.enforces_memory = False
        self.enforces_processes = False

    def add(self, pid: int) -> None:
        """Move a process in; its children are born there."""
        for folder in set(self.folders.values()):
            _write(folder / "cgroup.procs", str(pid))

    def pids(self) -> set[int]:
        """Return the processes in it."""
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
        """How many processes the system has killed at the memory limit."""
        memory = self.folders.get("memory")
        if memory is None:
            return 0
        name = "memory.events" if self.version == 2 else "memory.oom_control"
        with suppress(OSError, ValueError):
            counts = dict(line.split() for line in (memory / name).read_text().splitlines())
            return int(counts.get("oom_kill", 0))
        return 0

    def close(self) -> None:
        """Remove the group; it stays, to be used again, while a dead process has not been buried."""
        for folder in set(self.folders.values()):
            with suppress(OSError):
                folder.rmdir()


def find_control_groups(data_dir: Path, *, root: Path = ROOT, own: str | None = None) -> ControlGroups | None:
    """Make groups for the jobs of a client in ``data_dir``; None where the system does not let us.

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
