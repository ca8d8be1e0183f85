"""The client as a program: started with its interfaces, or by systemd."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path

from cobblestone.client.daemon.daemon import Client
from cobblestone.client.remote.interfaces import GuiRpcServer, JsonInterface
from cobblestone.ops.environment import quoted_word


@dataclass(frozen=True, slots=True, kw_only=True)
class Faces:
    """The control interfaces of the client."""

    gui_port: int = 31416  #: 0: any free one
    json_port: int = 0
    remote: bool = False
    certificate: Path | None = None
    certificate_key: Path | None = None


def run_client(root: Path, faces: Faces, *, policy: str = "") -> None:
    """Run a client until it is told to stop."""
    # httpx would load its command line, with Rich and Pygments, which takes as long as all of ours and 8 MB
    sys.modules.setdefault("httpx._main", None)  # pyright: ignore[reportArgumentType]  # None: not to be imported
    while asyncio.run(_run(root, faces, policy)):
        pass


async def _run(root: Path, faces: Faces, policy: str) -> bool:
    """Run a client until it ends; return whether it is to be started again."""
    client = Client(root, policy=policy)
    gui_rpc = GuiRpcServer(client.controls, port=faces.gui_port)
    json = JsonInterface(
        client.controls,
        port=faces.json_port,
        remote=faces.remote,
        certificate=faces.certificate,
        key=faces.certificate_key,
    )
    try:
        await gui_rpc.start()
        await json.start()
        client.journal.say(f"GUI RPC on port {gui_rpc.port}, JSON interface on port {json.access.port}")
        await client.run()
    finally:
        await gui_rpc.close()
        await json.close()
    return client.restarting


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
    """A unit's text, its path, and the commands that start it."""

    text: str
    place: Path
    commands: tuple[str, ...]


def client_unit(folder: Path, *, user: str) -> Unit:
    """Return the unit for a client in ``folder``: a system unit that runs as ``user``, or (empty) a user unit."""
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
