"""The note in a project's folder that says which process serves it, and where."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import msgspec
import psutil

from cobblestone.ops.files import write_durably
from cobblestone.server.core.context import ServerContext
from cobblestone.service.supervision import keep_running


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
        try:
            # One whose parent has not taken note of its end yet is over all the same.
            return not self.is_here() or psutil.Process(self.pid).status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False


def read_note(path: Path) -> RunningServer | None:
    """Return the data that a server wrote; None if it is missing or cannot be read."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=RunningServer)
    except (OSError, msgspec.DecodeError):
        return None


@asynccontextmanager
async def noted(ctx: ServerContext) -> AsyncGenerator[None, None]:
    """Keep a note in the folder, from before the first answer, so that a program that sees one also finds the address.

    Of several processes it is that of the last to start; when that has ended, of one that still runs.
    """
    file, own = ctx.folder.run_file, _own_note(ctx)
    write_durably(file, msgspec.json.encode(own))
    keeper = asyncio.create_task(keep_running("note", partial(_renew, file, own)), name="note")
    try:
        yield
    finally:
        keeper.cancel()
        if read_note(file) == own:
            file.unlink(missing_ok=True)


def _own_note(ctx: ServerContext) -> RunningServer:
    host, port = ctx.listens
    if host in ("0.0.0.0", "::"):  # noqa: S104  # compared
        host = "127.0.0.1"
    path = "/" + "/".join(ctx.master_url.rstrip("/").split("/")[3:])
    direct = f"http://{f'[{host}]' if ':' in host else host}:{port}{path}"
    return RunningServer(os.getpid(), ctx.started, socket.gethostname(), ctx.master_url, direct)


async def _renew(file: Path, own: RunningServer) -> None:
    """Write a process's own note where there is none, or that of a process that was killed."""
    found = read_note(file)
    if found is None or not found.is_alive():
        with suppress(OSError):  # a full disk, which others tell of
            write_durably(file, msgspec.json.encode(own))
