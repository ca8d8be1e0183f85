"""Confinement of jobs on this computer: which bounds hold, what enforces them, and how a command line is wrapped."""

from __future__ import annotations

import os
import pwd
import resource
import shutil
import subprocess
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from cobblestone.client.sandbox.processes import (
    ControlGroups,
    JobGroup,
    find_control_groups,
    tasks_of_account,
)
from cobblestone.client.sandbox.slot_files import JobAccount
from cobblestone.domain.errors import ConfigError, words_of
from cobblestone.domain.reasons import Reason, reason

#: Between two looks at each job: orders, reports, run time.
POLL_SECONDS = 1.0
#: Between two measurements of a job's memory, processes and disk space.
MEASURE_SECONDS = 10.0
_AS_A_SERVICE = "run the client as a service of systemd (cobblestone client unit)"


class Holder(StrEnum):
    """What enforces a bound."""

    SYSTEM = "system"  #: it cannot be passed
    CLIENT = "client"  #: it can be passed for a while, until the client looks
    NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class Bound:
    """One bound of jobs."""

    name: str
    holder: Holder
    means: str  #: what holds it; empty: nothing
    #: for the volunteer: that it does not hold at every moment, why, and what can be done
    remark: Reason | None = None

    def as_json(self) -> dict[str, object]:
        """Return a form for JSON."""
        return {
            "bound": self.name,
            "held_by": self.holder.value,
            "means": self.means,
            "remark": self.remark.text() if self.remark else None,
        }


def job_bounds(
    *, bubblewrap: bool, account: bool, groups: Collection[str], counted: bool, why_not_counted: str = ""
) -> tuple[Bound, ...]:
    """Return all bounds of a job.

    ``account``: jobs have one of their own; ``groups``: control groups that can be made; ``counted``: the system counts a job's
    processes apart from others.
    """
    box = "bubblewrap" if bubblewrap else ""
    return (
        _processes(
            "control groups" if "pids" in groups else "a user namespace" if counted else "", why_not_counted
        ),
        _memory("control groups" if "memory" in groups else ""),
        Bound(
            "space of the slot",
            Holder.CLIENT,
            _looks(MEASURE_SECONDS),
            reason(
                "disk_watched",
                "The space of a job's slot is looked at every {seconds:.0f} seconds only; the "
                "system bounds single files.",
                seconds=MEASURE_SECONDS,
            ),
        ),
        Bound("size of single files, core dumps", Holder.SYSTEM, "resource limits"),
        Bound("run time", Holder.CLIENT, _looks(POLL_SECONDS)),
        Bound("size of outputs", Holder.CLIENT, "before the upload"),
        Bound(
            "processors",
            Holder.NOBODY,
            "lowest priority",
            reason(
                "processors_free",
                "Nothing limits a job to its number of processors; its low priority lets other "
                "programs go first.",
            ),
        ),
        # That there is no sandbox, and why, is a separate sentence.
        _held("network", box),
        _held("files of others", box or ("an account of their own" if account else "")),
        _held(
            "no process outlives its job",
            box or ("control groups" if groups else ""),
            "parents and a mark",
            reason(
                "processes_may_hide",
                "A job can hide processes from the client, so that they outlive it. To prevent "
                "this, install bubblewrap.",
            ),
        ),
    )


def _looks(seconds: float) -> str:
    return "a look each second" if seconds == 1 else f"a look every {seconds:.0f} s"


def _held(name: str, by_system: str, by_client: str = "", remark: Reason | None = None) -> Bound:
    """Return a bound that the system enforces, by the means named; else the client, with a remark, or nothing does."""
    if by_system:
        return Bound(name, Holder.SYSTEM, by_system)
    return Bound(name, Holder.CLIENT if by_client else Holder.NOBODY, by_client, remark)


def _processes(by_system: str, why_not: str) -> Bound:
    return _held(
        "number of processes and threads",
        by_system,
        _looks(MEASURE_SECONDS),
        reason(
            "processes_watched",
            "A job's processes are counted only every {seconds:.0f} seconds: there are no "
            "control groups, and {why}. In between, the system limits the processes of the "
            "whole account. To improve this: {remedy}, or let bubblewrap work.",
            seconds=MEASURE_SECONDS,
            why=why_not,
            remedy=_AS_A_SERVICE,
        ),
    )


def _memory(by_system: str) -> Bound:
    return _held(
        "memory",
        by_system,
        _looks(MEASURE_SECONDS),
        reason(
            "memory_watched",
            "A job's memory is checked only every {seconds:.0f} seconds, since there are no "
            "control groups; when the computer runs out of memory, the system ends jobs first. "
            "To improve this: {remedy}.",
            seconds=MEASURE_SECONDS,
            remedy=_AS_A_SERVICE,
        ),
    )


def sentences(bounds: Collection[Bound]) -> tuple[Reason, ...]:
    """Return what the system enforces, in one sentence, and everything that it does not."""
    enforced = [f"{each.name} ({each.means})" for each in bounds if each.holder is Holder.SYSTEM]
    return (
        reason("enforced", "The system enforces: {what}.", what=", ".join(enforced)),
        *(each.remark for each in bounds if each.remark),
    )


#: Where the client's data directory seems to be for a job under bubblewrap; its true place says who the volunteer is.
INSIDE = Path("/boinc")
#: The process that stands for the client there: when the client dies the system ends the whole sandbox, this process too.
CLIENT_PID_INSIDE = 1
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
ACCOUNTS = ("boinc", "nobody")
_SYSTEM_FOLDERS = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "opt", "sys")
_GPU_DEVICES = (
    "/dev/nvidiactl",
    "/dev/nvidia-uvm",
    "/dev/nvidia-uvm-tools",
    "/dev/nvidia-modeset",
    "/dev/dri",
    "/dev/kfd",
)
_TRIAL_SECONDS = 10
#: Begins one process more, without trying again as some shells do.
_FORK = ("unshare", "--fork", "true")


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxChoice:
    """The volunteer's choice of sandbox."""

    bubblewrap: str = "auto"  #: ``auto``: where present; ``always``: no job without it; ``never``
    #: account for the jobs when the client is root; empty: the first of `ACCOUNTS` that exists
    account: str = ""
    control_groups: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """One job's surroundings."""

    slot: Path
    project_dir: Path
    needs_network: bool = False
    uses_gpu: bool = False
    processes: int = 0  #: how many processes and threads the job may have; 0: as many as it likes


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapped:
    """A started job's command, and what it sees."""

    argv: list[str]
    boinc_dir: Path
    project_dir: Path
    client_pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """The sandbox in force."""

    bubblewrap: str = ""  #: the program; empty: not used
    account: JobAccount | None = None
    control_groups: ControlGroups | None = None
    counting: tuple[str, ...] | None = None
    """Words that give a job a count of processes of its own; none where bubblewrap does.  None: not to be had, or not needed."""
    bounds: tuple[Bound, ...] = ()
    report: tuple[Reason, ...] = ()

    def wrap(self, room: Room, argv: Sequence[str]) -> Wrapped:
        """Wrap a job's command line, whose first word is relative to the slot."""
        if self.counting is not None and room.processes > 0:
            argv = [*self.counting, *_at_most(room.processes), *argv]
        if not self.bubblewrap:
            return Wrapped(
                argv=[*_drop(self.account), *argv],
                boinc_dir=room.slot.parent.parent,
                project_dir=room.project_dir,
                client_pid=os.getpid(),
            )
        slot, project = INSIDE / "slots" / room.slot.name, INSIDE / "projects" / room.project_dir.name
        command = [
            *_bubblewrap(self.bubblewrap),
            *_open_folders(INSIDE, slot.parent, project.parent),
            *([] if room.needs_network else ["--unshare-net"]),
            *(_gpu_devices() if room.uses_gpu else []),
            "--ro-bind",
            str(room.project_dir),
            str(project),
            "--bind",
            str(room.slot),
            str(slot),
            "--chdir",
            str(slot),
            "--",
            *_drop(self.account, "--no-new-privs"),
            *argv,
        ]
        return Wrapped(argv=command, boinc_dir=INSIDE, project_dir=project, client_pid=CLIENT_PID_INSIDE)

    def outside(self) -> Sandbox:
        """Return the sandbox for jobs that start container engines, which need accounts and files of the system."""
        return replace(self, bubblewrap="", counting=None)

    @property
    def hides_signals(self) -> bool:
        """Return whether the end of a job by signal n appears as exit code 128 + n."""
        return bool(self.bubblewrap)

    def open_group(self, slot: int, *, memory_bytes: float, processes: int) -> JobGroup | None:
        """Return the control group of a slot; None without control groups."""
        if self.control_groups is None:
            return None
        try:
            return self.control_groups.open(slot, memory_bytes=memory_bytes, processes=processes)
        except OSError:
            return None  # full, or taken away: the client watches the limits instead


def _bubblewrap(program: str) -> list[str]:
    words = [program, "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    words += ["--die-with-parent", "--new-session", "--hostname", "volunteer"]
    for name in _SYSTEM_FOLDERS:
        folder = Path("/", name)
        if folder.is_symlink():
            words += ["--symlink", str(folder.readlink()), str(folder)]
        elif folder.is_dir():
            words += ["--ro-bind", str(folder), str(folder)]
    return [
        *words,
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        *_open_to_all("/dev/shm"),  # noqa: S108  # inside of the sandbox, as the next
        *_open_to_all("/tmp"),  # noqa: S108
        "--tmpfs",
        "/run",
    ]


def _open_to_all(folder: str) -> list[str]:
    """Return the options for a folder in memory that the jobs' account can write to, for any caller."""
    return ["--perms", "1777", "--tmpfs", folder]


def _open_folders(*folders: Path) -> list[str]:
    """Return folders that the jobs' account can enter; those that bubblewrap creates are closed to it."""
    return [word for folder in folders for word in ("--perms", "0755", "--dir", str(folder))]


def _gpu_devices() -> list[str]:
    devices = [*_GPU_DEVICES, *(str(each) for each in Path("/dev").glob("nvidia[0-9]*"))]
    return [word for device in devices for word in ("--dev-bind-try", device, device)]


#: The niceness of what gives way to everything else on the computer.
LOWEST = 19


def set_priority(pid: int, niceness: int | None) -> None:
    """Yield to other programs; with the lowest priority, only run when no other does.  None: leave it unchanged."""
    if niceness is None:
        return
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, niceness)
        if niceness == LOWEST:
            os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))


def set_session_priority(pid: int, niceness: int) -> bool:
    """Have the session of a job yield, too: Linux shares the processors among sessions first (sched(7), autogroup).

    Return False if it is to be tried again: Linux takes ten such changes a second from an ordinary account.
    """
    try:
        Path(f"/proc/{pid}/autogroup").write_text(str(niceness))
    except BlockingIOError:
        return False
    except OSError:  # another system, or one that groups otherwise
        pass
    return True


def set_resource_limits(pid: int, *, disk_bytes: float) -> None:
    """Set limits: no file larger than the job's disk bound, no core dumps; killed first when memory runs out."""
    with suppress(OSError):
        Path(f"/proc/{pid}/oom_score_adj").write_text("1000")
    with suppress(OSError, ValueError):
        resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))
        if disk_bytes > 0:
            bound = min(int(disk_bytes), 2**62)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (bound, bound))


def bound_account(pid: int, uid: int, *, more: int) -> None:
    """Limit the number of processes of the job's account to this many more than now: a last resort, since others count too.

    Programs that need more may raise it again, such as engines of containers.
    """
    with suppress(OSError, ValueError):
        soft, hard = resource.prlimit(pid, resource.RLIMIT_NPROC)
        most = tasks_of_account(uid) + more
        if soft == resource.RLIM_INFINITY or most < soft:
            resource.prlimit(pid, resource.RLIMIT_NPROC, (most, hard))


def detect_sandbox(choice: SandboxChoice, data_dir: Path, *, environment: Mapping[str, str]) -> Sandbox:
    """Detect what can be enforced here, by trying it.  Raises ConfigError if a required bound is not available."""
    account, account_report = _account(choice)
    program, bubblewrap_report = _find_bubblewrap(choice, account, environment)
    if account and not program and not _reachable(data_dir, account):
        raise ConfigError(
            f"Jobs run under the account {account.name}, which cannot reach the data directory {data_dir}: one of the folders "
            "above it is closed to others. Install bubblewrap, or move the data directory (for example to /var/lib/cobblestone)."
        )
    groups = find_control_groups(data_dir) if choice.control_groups else None
    grouped = set(groups.folders) if groups else set[str]()
    counting, uncounted = None, ""
    if "pids" not in grouped:
        counting, uncounted = _find_counting(program, account, environment)
    bounds = job_bounds(
        bubblewrap=bool(program),
        account=account is not None,
        groups=grouped,
        counted=counting is not None,
        why_not_counted=uncounted,
    )
    return Sandbox(
        bubblewrap=program,
        account=account,
        control_groups=groups,
        counting=counting,
        bounds=bounds,
        report=(bubblewrap_report, account_report, *sentences(bounds)),
    )


def _at_most(processes: int) -> list[str]:
    """Return the options that limit the number of processes and threads of what follows."""
    _, most = resource.getrlimit(resource.RLIMIT_NPROC)
    allowed = processes if most == resource.RLIM_INFINITY else min(processes, most)
    return ["prlimit", f"--nproc={allowed}:{allowed}", "--"]


def _find_counting(
    program: str, account: JobAccount | None, environment: Mapping[str, str]
) -> tuple[tuple[str, ...] | None, str]:
    """Try whether a job's processes can be counted separately and limited; return the options for it, or None and the reason.

    The system counts apart in each user namespace.  Bubblewrap makes one unless root has started it.  Kernels older than 5.14
    count all processes of an account instead: there the client alone and the trial are more than the trial may have.
    """
    path = environment.get("PATH", SYSTEM_PATH)
    if not all(shutil.which(each, path=path) for each in ("unshare", "prlimit")):
        return None, "unshare and prlimit are not installed (package util-linux)"
    counting = () if program and account is None else ("unshare", "--user", "--map-current-user", "--")
    start = [*_as_job(program, account), *counting]
    # With what keeps its sandbox there are two processes, so a third one may begin; and where one is allowed, no second one.
    if problem := _try([*start, *_at_most(3), *_FORK]):
        return None, f"in a user namespace jobs get no count of their own ({problem})"
    if not _try([*start, *_at_most(1), *_FORK]):
        return None, "the system does not enforce the limit of a user namespace"
    return counting, ""


def _account(choice: SandboxChoice) -> tuple[JobAccount | None, Reason]:
    if os.geteuid() != 0:
        name = pwd.getpwuid(os.geteuid()).pw_name if _has_entry(os.geteuid()) else str(os.geteuid())
        return None, reason("own_account", "Jobs run under the client's own account, {name}.", name=name)
    for name in [choice.account] if choice.account else ACCOUNTS:
        with suppress(KeyError):
            entry = pwd.getpwnam(name)
            if entry.pw_uid == 0:
                raise ConfigError(f"Jobs must not run as root: choose another account than {name}.")
            return JobAccount(name, entry.pw_uid, entry.pw_gid), reason(
                "unprivileged_account", "Jobs run under the unprivileged account {name}.", name=name
            )
    raise ConfigError(
        f"There is no account {choice.account or ' or '.join(ACCOUNTS)} for the jobs of a client that runs as root: "
        "make one (adduser --system boinc), or start the client under an ordinary account."
    )


def _has_entry(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def _find_bubblewrap(
    choice: SandboxChoice, account: JobAccount | None, environment: Mapping[str, str]
) -> tuple[str, Reason]:
    if choice.bubblewrap == "never":
        return "", reason(
            "sandbox_off",
            "Jobs run without a sandbox, as you chose: they can use the network and read what "
            "their account can read.",
        )
    program = shutil.which("bwrap", path=environment.get("PATH", SYSTEM_PATH)) or ""
    problem = "it is not installed (package bubblewrap)"
    if program:
        problem = _try([*_as_job(program, account), "true"])
    if not problem:
        return program, reason(
            "sandboxed",
            "Jobs run under bubblewrap: no network, no access to home directories, and write "
            "access only to their slot.",
        )
    if choice.bubblewrap == "always":
        raise ConfigError(f"Jobs must run under bubblewrap, but {problem}.")
    return "", reason(
        "no_sandbox",
        "Jobs run without a sandbox, so that they can use the network and see what their account may see: bubblewrap is not "
        "used, since {problem}.",
        problem=problem,
    )


def _try(line: Sequence[str]) -> str:
    """Run a command line that ends at once; return its error, or nothing."""
    try:
        subprocess.run(
            line, capture_output=True, check=True, timeout=_TRIAL_SECONDS, env={"PATH": SYSTEM_PATH}
        )
    except subprocess.CalledProcessError as error:
        lines = bytes(error.stderr).decode(errors="replace").strip().splitlines()
        return f"the system does not allow it ({lines[-1] if lines else 'no message'})"
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"it could not be tried ({words_of(error)})"
    return ""


def _as_job(program: str, account: JobAccount | None) -> list[str]:
    """Return the words that start a trial like a job."""
    sandbox = [*_bubblewrap(program), "--unshare-net", "--"] if program else []
    return [*sandbox, *_drop(account)]


def _drop(account: JobAccount | None, *more: str) -> list[str]:
    """Return the words that switch to an account; limits are set before, since they may not be afterwards."""
    if account is None:
        return []
    return ["setpriv", f"--reuid={account.uid}", f"--regid={account.gid}", "--clear-groups", *more, "--"]


def _reachable(folder: Path, account: JobAccount) -> bool:
    for each in (folder, *folder.parents):
        try:
            found = each.stat()
        except OSError:
            return False
        mode = found.st_mode
        open_to = (
            mode & 0o100
            if found.st_uid == account.uid
            else mode & (0o010 if found.st_gid == account.gid else 0o001)
        )
        if not open_to:
            return False
    return True
