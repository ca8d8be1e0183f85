"""The note in a project's folder that says which process serves it, and where."""

from __future__ import annotations

import socket
from pathlib import Path

import msgspec

#: The note, in its folder.
RUN_FILE = "server.json"


class RunningServer(msgspec.Struct, frozen=True):
    """A process that serves a project."""

    pid: int
    started: float = 0.0  #: Unix seconds
    host: str = ""  #: name of its machine
    url: str = ""  #: the project's address
    direct: str = ""  #: where the process itself listens

    def is_here(self) -> bool:
        """Return whether it runs on this machine."""
        return self.host in ("", socket.gethostname())

    def is_alive(self) -> bool:
        """Return whether it still runs, which is only known of this machine's processes."""
        import psutil

        try:
            # One whose parent has not taken note of its end yet is over all the same.
            return not self.is_here() or psutil.Process(self.pid).status() != psutil.STATUS_ZOMBIE
        except (psutil.NoSuchProcess, OverflowError):
            return False


def read_note(path: Path) -> RunningServer | None:
    """Return the data that a server wrote; None if it is missing or cannot be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=RunningServer)
    except (OSError, msgspec.DecodeError):
        return None
