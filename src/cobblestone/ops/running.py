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
    begun: float | None = None  #: as `begun` says; older versions did not note it

    def is_here(self) -> bool:
        """Return whether it runs on this machine."""
        return self.host in ("", socket.gethostname())

    def is_alive(self) -> bool:
        """Return whether it still runs, which is only known of this machine's processes."""
        import psutil

        try:
            if not self.is_here():
                return True
            # One whose parent has not taken note of its end yet is over all the same, and later its number is another's.
            is_over = psutil.Process(self.pid).status() == psutil.STATUS_ZOMBIE
            return not is_over and (self.begun is None or abs(begun(self.pid) - self.begun) < 2.0)
        except (psutil.NoSuchProcess, OverflowError):
            return False


def begun(pid: int | None = None) -> float:
    """Return how many seconds after the machine's start a process (this one) began, however the clock was set since."""
    import psutil

    return psutil.Process(pid).create_time() - psutil.boot_time()


def read_note(path: Path) -> RunningServer | None:
    """Return the data that a server wrote; None if it is missing or cannot be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=RunningServer)
    except (OSError, msgspec.DecodeError):
        return None
