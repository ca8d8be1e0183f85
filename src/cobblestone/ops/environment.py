"""The environment of a process: clock, environment variables and the project they name, command line, service manager."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from subprocess import CompletedProcess

#: Returns Unix seconds.
Clock = Callable[[], float]

system_clock: Clock = time.time


_PROXY_VARIABLES = frozenset({"http_proxy", "https_proxy", "all_proxy", "no_proxy"})


def environment_without_proxies() -> dict[str, str]:
    """Return our environment for a program that must talk to loopback directly."""
    return {key: value for key, value in os.environ.items() if key.lower() not in _PROXY_VARIABLES}


def cache_folder() -> Path:
    """Return the user's folder for files that can be made or downloaded again."""
    root = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (root if root.is_absolute() else Path.home() / ".cache") / "cobblestone"


def launchers_folder() -> Path | None:
    """Return the folder with native launchers built by the distribution; None if there is none."""
    given = os.environ.get("COBBLESTONE_LAUNCHERS", "")
    return Path(given) if given else None


def environment_with(**values: str) -> dict[str, str]:
    """Return our environment with other values, for a program that takes its options from it."""
    return {**os.environ, **values}


def run_and_read(
    words: Sequence[str], *, timeout: float, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> CompletedProcess[str]:
    """Run a program to its end; return its status and what it wrote.

    Raises:
        OSError: it cannot be run.
        subprocess.TimeoutExpired: it took more than ``timeout`` seconds.
    """
    import subprocess  # not for commands that run none

    return subprocess.run(
        words,
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=timeout,
    )


def person() -> str:
    """Return the log-in name of the user running this program, for records; ``unknown`` if there is none."""
    try:
        import getpass

        name = getpass.getuser()
    except (OSError, KeyError):  # no environment and no entry in the list of users
        return "unknown"
    return re.sub(r"[^A-Za-z0-9_.\-]", "_", name)[:60] or "unknown"


#: Of a project's settings, in its folder.
FILE_NAME = "cobblestone.toml"
#: Of a backup, in its folder.
BACKUP_MANIFEST = "manifest.json"

PROJECT_VARIABLE = "COBBLESTONE_PROJECT"
TOKEN_VARIABLE = "COBBLESTONE_TOKEN"  # noqa: S105  # the name of a variable


@dataclass(frozen=True, slots=True)
class ConnectionDefaults:
    """Values used where no argument is given; empty: none."""

    project: str  #: address or folder
    token: str


@cache
def connection_defaults() -> ConnectionDefaults:
    """Read the variables once, and remove them from the environment.

    Settings are overridden by variables of the same prefix, so COBBLESTONE_PROJECT would else be taken for the
    settings' section ``[project]``; and no program that we start needs the token.
    """
    return ConnectionDefaults(
        project=os.environ.pop(PROJECT_VARIABLE, "").strip(), token=os.environ.pop(TOKEN_VARIABLE, "").strip()
    )


def typed_noun() -> str:
    """Return the command already typed completely; empty if there is none, or no shell is asking for completion."""
    typed = os.environ.get("COMP_WORDS", "")
    try:
        words = shlex.split(typed)
    except ValueError:  # a quote is open
        return ""
    return words[1] if len(words) > 2 or (len(words) == 2 and typed[-1:].isspace()) else ""


_FIRST_DESCRIPTOR = 3


def inherited_listener() -> socket.socket | None:
    """Return the listening socket opened by the service manager, or by this process before its restart.

    Source: sd_listen_fds(3).
    """
    process, count = os.environ.pop("LISTEN_PID", ""), os.environ.pop("LISTEN_FDS", "")
    os.environ.pop("LISTEN_FDNAMES", None)
    if process != str(os.getpid()) or not count.isdecimal() or int(count) < 1:
        return None
    os.set_inheritable(_FIRST_DESCRIPTOR, False)
    return socket.socket(fileno=_FIRST_DESCRIPTOR)


def notify(text: str) -> None:
    """Notify the service manager of our state, such as ``READY=1``; does nothing without one.  Source: sd_notify(3)."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.connect("\0" + address[1:] if address.startswith("@") else address)
        channel.sendall(text.encode())


def replace_process(listener: socket.socket) -> None:
    """Restart this program in the same process, with the same arguments, and pass it the listening socket.

    The process id stays, connections that arrive meanwhile wait in the socket.  Does not return.
    """
    descriptor = listener.fileno()
    if descriptor == _FIRST_DESCRIPTOR:
        os.set_inheritable(descriptor, True)
    else:
        os.dup2(descriptor, _FIRST_DESCRIPTOR, inheritable=True)
    environment = {**os.environ, "LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1"}
    if connection_defaults().project:
        environment[PROJECT_VARIABLE] = connection_defaults().project
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)  # noqa: S606  # our own program


def typed_word(word: str | Path, *, windows: bool = os.name == "nt") -> str:
    """Return a word as it is typed into a shell, quoted where that is needed: for commands that are proposed."""
    import subprocess

    return subprocess.list2cmdline([str(word)]) if windows else shlex.quote(str(word))


def quoted_word(word: str) -> str:
    """Return a word quoted for a unit file (systemd.service(5), command lines)."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"' if re.search(r"[\s'\"\\;]", word) else escaped
