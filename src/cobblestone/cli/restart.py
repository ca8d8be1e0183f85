"""``cobblestone restart``: begin a running server anew."""

from __future__ import annotations

import signal
import time
from typing import Annotated

import typer

from cobblestone.cli.options import JsonOption, ProjectOption, QuietOption, local_folder, output
from cobblestone.domain.errors import Busy


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
    from cobblestone.cli.running_server import read_run_file, running_server, send_signal
    from cobblestone.server.core.project import ProjectFolder
    from cobblestone.server.run import check_start

    folder = ProjectFolder(local_folder(project))
    before = running_server(folder)
    check_start(folder.root, replaces=before.pid)
    send_signal(before, signal.SIGHUP, "restart")
    end = time.monotonic() + wait
    while time.monotonic() < end:
        time.sleep(0.1)
        again = read_run_file(folder.run_file)
        if again is not None and again.started > before.started:
            output(json, quiet).show(
                again, lines=[f"Restarted (process {again.pid})."], essential=[again.pid]
            )
            return
    raise Busy(f"The server has not started again after {wait:g} s. Its log says why (restart_refused).")
