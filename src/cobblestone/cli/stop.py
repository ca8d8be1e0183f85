"""``cobblestone stop``: end a running server."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Annotated

import typer

from cobblestone.cli.options import JsonOption, ProjectOption, QuietOption, local_folder, output
from cobblestone.domain.errors import Busy


def register(root: typer.Typer) -> None:
    """Add the command."""
    root.command("stop")(stop)


def stop(
    folder: Annotated[Path | None, typer.Argument(metavar="[DIR]", help="The project's folder.")] = None,
    wait: Annotated[float, typer.Option(min=1, max=3600, help="Seconds to wait for its end.")] = 120,
    project: ProjectOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Stop the project's server: it answers the requests that it has, ends its daemons, and closes the database."""
    from cobblestone.cli.running_server import is_alive, read_run_file, running_server, send_signal
    from cobblestone.server.core.project import ProjectFolder

    opened = ProjectFolder((folder or local_folder(project)).resolve())
    opened.settings()  # says so when the folder is no project
    server = running_server(opened)
    began = time.monotonic()
    send_signal(server, signal.SIGTERM, "stop")
    while is_alive(server):
        if time.monotonic() - began > wait:
            raise Busy(
                f"Process {server.pid} was told to stop, but has not ended after {wait:g} s. Its log says what it waits for."
            )
        time.sleep(0.05)
    lines = [f"Stopped (process {server.pid}, after {time.monotonic() - began:.1f} s)."]
    successor = read_run_file(opened.run_file)
    if successor is not None and successor.pid != server.pid:
        lines.append(
            f"Something started it again (process {successor.pid}): a service manager? Stop it there."
        )
    output(json, quiet).show(server, lines=lines, essential=[server.pid])
