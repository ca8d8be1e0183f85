"""Processes of jobs: starting one behind a gate, looking at all descendants, and ending every one of them."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cobblestone.client.tasks.slot_files import Account

SLOT_VARIABLE = "COBBLESTONE_SLOT"
"""Marks all processes of a job, also those that left their session or lost their parent."""
_GATE = 'read -r go && exec "$@" </dev/null'
"""The shell waits until limits are set, and ends if we die before: so no process of a job ever runs without its limits."""
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """One process as the system counts it; seconds and bytes."""

    parent: int
    cpu_seconds: float  #: its own and that of ended children
    resident: float
    virtual: float
    is_zombie: bool


@dataclass(frozen=True, slots=True)
class TreeUsage:
    """What a process and its descendants use."""

    pids: frozenset[int]  #: without zombies
    cpu_seconds: float
    resident: float
    virtual: float


NOTHING = TreeUsage(frozenset(), 0.0, 0.0, 0.0)


def read_processes() -> dict[int, ProcessFacts]:
    """All processes of the system."""
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


def usage_by_root(processes: Mapping[int, ProcessFacts], roots: Iterable[int]) -> dict[int, TreeUsage]:
    """Return what each of the given processes uses together with its descendants."""
    children: dict[int, list[int]] = {}
    for pid, facts in processes.items():
        children.setdefault(facts.parent, []).append(pid)
    found: dict[int, TreeUsage] = {}
    for root in roots:
        pids: set[int] = set()
        cpu = resident = virtual = 0.0
        waiting = [root]
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
        found[root] = TreeUsage(frozenset(pids), cpu, resident, virtual)
    return found


def marked_processes(slot: Path) -> set[int]:
    """Living processes that were started for this slot, by the mark in their environment."""
    mark = f"{SLOT_VARIABLE}={slot}\0".encode()
    found: set[int] = set()
    for name in _process_names():
        if name.isdigit():
            with suppress(OSError):
                if mark in _read(f"/proc/{name}/environ") + b"\0":
                    found.add(int(name))
    return found


def send(pids: Collection[int], number: signal.Signals) -> None:
    """Signal processes that may have ended by now."""
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
        account: Account | None,
        prepare: Callable[[int], None],
    ) -> None:
        """Start the process; ``prepare`` gets its id and sets its limits before the program begins.  Raises OSError."""
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
                user=account.uid if account else None,
                group=account.gid if account else None,
                extra_groups=() if account else None,
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
        """Take the status of the ended process: exit code and signal, one of which is 0."""
        os.close(self.pidfd)
        try:
            _, status, usage = os.wait4(self.pid, 0)
        except ChildProcessError:  # somebody else waited for it; no status is left
            self._popen.returncode = -signal.SIGKILL
            return 0, signal.SIGKILL
        self.cpu_seconds = usage.ru_utime + usage.ru_stime
        self._popen.returncode = os.waitstatus_to_exitcode(status)
        return (0, -self._popen.returncode) if self._popen.returncode < 0 else (self._popen.returncode, 0)

    def tree(self, processes: Mapping[int, ProcessFacts] | None = None) -> set[int]:
        """Return the job's living processes."""
        seen = read_processes() if processes is None else processes
        return set(usage_by_root(seen, [self.pid])[self.pid].pids)
