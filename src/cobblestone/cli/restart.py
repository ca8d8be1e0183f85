"""``cobblestone restart``: begin a running server anew."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from cobblestone.cli.options import JsonOption, ProjectOption, QuietOption, local_folder, output
from cobblestone.domain.errors import Busy, ConfigError


class _Running(msgspec.Struct):
    pid: int
    started: float = 0.0


def register(root: typer.Typer) -> None:
    """Add the command."""
    root.command("restart")(restart)


def restart(
    wait: Annotated[float, typer.Option(min=1, max=3600, help="Seconds to wait for the new start.")] = 120,
    project: ProjectOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Restart the project's server without a failed request: for new settings, or a new version of cobblestone."""
    from cobblestone.server.core.project import ProjectFolder
    from cobblestone.server.run import check_start

    folder = ProjectFolder(local_folder(project))
    check_start(folder.root)
    before = _running(folder.run_file)
    if before is None:
        raise ConfigError(
            f"Nobody runs the project in {folder.root}. Start it: cobblestone run {folder.root}"
        )
    try:
        os.kill(before.pid, signal.SIGHUP)
    except (ProcessLookupError, PermissionError) as error:
        raise ConfigError(f"Process {before.pid} cannot be told to restart: {error.strerror}.") from error
    end = time.monotonic() + wait
    while time.monotonic() < end:
        time.sleep(0.1)
        again = _running(folder.run_file)
        if again is not None and again.started > before.started:
            output(json, quiet).show(
                again, lines=[f"Restarted (process {again.pid})."], essential=[again.pid]
            )
            return
    raise Busy(f"The server has not started again after {wait:g} s. Its log says why (restart_refused).")


def _running(run_file: Path) -> _Running | None:
    """What the server wrote when it started; None while nobody runs it."""
    try:
        return msgspec.json.decode(run_file.read_bytes(), type=_Running)
    except (OSError, msgspec.DecodeError):
        return None
