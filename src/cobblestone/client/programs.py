"""Start a client with its interfaces, as a program."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path

from cobblestone.client.daemon import Client
from cobblestone.client.gui_rpc_server import GuiRpcServer
from cobblestone.client.json_interface import JsonInterface


@dataclass(frozen=True, slots=True, kw_only=True)
class Faces:
    """How the client can be controlled."""

    gui_port: int = 31416  #: 0: any free one
    json_port: int = 0
    remote: bool = False
    certificate: Path | None = None
    certificate_key: Path | None = None


def run_client(root: Path, faces: Faces, *, policy: str = "") -> None:
    """Run a client until it is told to stop."""
    # httpx would load its command line, with Rich and Pygments, which takes as long as all of ours and 8 MB
    sys.modules.setdefault("httpx._main", None)  # pyright: ignore[reportArgumentType]  # None: not to be imported
    asyncio.run(_run(root, faces, policy))


async def _run(root: Path, faces: Faces, policy: str) -> None:
    client = Client(root, policy=policy)
    gui_rpc = GuiRpcServer(client, port=faces.gui_port)
    json = JsonInterface(
        client,
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
