"""What a service manager hands to a server, and what it wants to hear (systemd's protocols, in the few lines they need)."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import sys

from cobblestone.ops.connection import PROJECT_VARIABLE, connection_defaults

_FIRST_DESCRIPTOR = 3


def inherited_listener() -> socket.socket | None:
    """Return the listening socket that the service manager, or this very process before its restart, opened for us.

    Source: sd_listen_fds(3).
    """
    process, count = os.environ.pop("LISTEN_PID", ""), os.environ.pop("LISTEN_FDS", "")
    os.environ.pop("LISTEN_FDNAMES", None)
    if process != str(os.getpid()) or not count.isdecimal() or int(count) < 1:
        return None
    os.set_inheritable(_FIRST_DESCRIPTOR, False)
    return socket.socket(fileno=_FIRST_DESCRIPTOR)


def notify(text: str) -> None:
    """Tell the service manager how we are, such as ``READY=1``; nobody listens: nothing happens.  Source: sd_notify(3)."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.connect("\0" + address[1:] if address.startswith("@") else address)
        channel.sendall(text.encode())


def replace_process(listener: socket.socket) -> None:
    """Begin this program again in this process, with the same arguments, and give it the listening socket.

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


def quoted_word(word: str) -> str:
    """Return a word of a unit file (systemd.service(5), command lines)."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"' if re.search(r"[\s'\"\\;]", word) else escaped
