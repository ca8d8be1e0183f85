"""The server that runs a project here, as ``restart`` and ``stop`` find it."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import msgspec

from cobblestone.domain.errors import Busy, ConfigError
from cobblestone.server.core.project import ProjectFolder


class RunningServer(msgspec.Struct):
    """What a server writes into the project's folder when it starts."""

    pid: int
    started: float = 0.0  #: Unix seconds


def running_server(folder: ProjectFolder) -> RunningServer:
    """Return the server that runs a project.

    Raises:
        ConfigError: nobody does; also if one was killed and its file still lies there.
    """
    found = read_run_file(folder.run_file)
    if found is None or not is_alive(found) or not _is_open(folder):
        raise ConfigError(
            f"Nobody runs the project in {folder.root}. Start it: cobblestone run {folder.root}"
        )
    return found


def read_run_file(path: Path) -> RunningServer | None:
    """Return what a server wrote; None if there is nothing that can be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=RunningServer)
    except (OSError, msgspec.DecodeError):
        return None


def _is_open(folder: ProjectFolder) -> bool:
    """Whether a process holds the project's lock, which ends with the process."""
    try:
        folder.lock().close()
    except Busy:
        return True
    return False


def is_alive(server: RunningServer) -> bool:
    """Whether the process of a server has not ended."""
    try:
        os.kill(server.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    # One whose parent has not taken note of its end yet is over all the same.
    return not _is_zombie(server.pid)


def _is_zombie(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return False
    return status.rpartition(")")[2].split()[:1] == ["Z"]


def send_signal(server: RunningServer, number: signal.Signals, wish: str) -> None:
    """Tell a server something.  Raises ConfigError if that is not possible; ``wish`` says what it was."""
    try:
        os.kill(server.pid, number)
    except (ProcessLookupError, PermissionError) as error:
        raise ConfigError(f"Process {server.pid} cannot be told to {wish}: {error.strerror}.") from error
