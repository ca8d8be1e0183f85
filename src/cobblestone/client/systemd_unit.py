"""A unit for systemd, so that the client runs whenever the computer does."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from cobblestone.ops.service_manager import quoted_word

NAME = "cobblestone-client.service"
SYSTEM_FOLDER = Path("/etc/systemd/system")
OWN_FOLDER = Path("~/.config/systemd/user")

_UNIT = """\
# Written by `cobblestone client unit`.
[Unit]
Description=Computes for science (cobblestone's client)
After=network-online.target
Wants=network-online.target

[Service]
Type=notify
NotifyAccess=main
{user}ExecStart={command}
Restart=on-failure
RestartSec=10
# Jobs are ended by the client, which tells them to save their work first; what is left after that is killed.
KillMode=mixed
TimeoutStopSec=90
# The client makes control groups of its own, one for each job.
Delegate=yes
Nice=5

[Install]
WantedBy={target}
"""


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit's text, where it belongs, and the commands that start it."""

    text: str
    place: Path
    commands: tuple[str, ...]


def client_unit(folder: Path, *, user: str) -> Unit:
    """Return the unit for a client in ``folder``: the system's own, which runs as ``user``, or (empty) that of whoever asks."""
    command = " ".join(
        quoted_word(word) for word in (sys.executable, "-m", "cobblestone", "client", "run", str(folder))
    )
    text = _UNIT.format(
        user=f"User={user}\n" if user else "",
        command=command,
        target="multi-user.target" if user else "default.target",
    )
    manager = "systemctl" if user else "systemctl --user"
    commands = (f"{manager} daemon-reload", f"{manager} enable --now {NAME}")
    if not user:
        commands += ("loginctl enable-linger",)
    return Unit(text, (SYSTEM_FOLDER if user else OWN_FOLDER.expanduser()) / NAME, commands)
