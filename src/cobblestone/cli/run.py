"""``cobblestone run``: run a project's server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from cobblestone.cli.options import ProjectOption, local_folder


def register(root: typer.Typer) -> None:
    """Add the command."""
    root.command("run")(run)


def run(
    folder: Annotated[Path | None, typer.Argument(metavar="[DIR]", help="The project's folder.")] = None,
    project: ProjectOption = None,
    check: Annotated[
        bool, typer.Option("--check", help="Only check that it could run: settings, keys, database.")
    ] = False,
    role: Annotated[
        str,
        typer.Option(
            "--role",
            metavar="ROLE,...",
            help="On PostgreSQL: do only this part of the work, beside other processes. Else everything. Roles: scheduler,"
            " upload, web, transitioner, validator, assimilator, file_deleter, purger, statistics.",
        ),
    ] = "",
    host: Annotated[str | None, typer.Option(help="Address to listen on. Else that of the settings.")] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port to listen on. Else that of the settings.")
    ] = None,
) -> None:
    """Run the project's server until Ctrl-C."""
    from cobblestone.cli.output import print_error
    from cobblestone.ops.logging import configure_logging
    from cobblestone.server.core.context import ServerContext
    from cobblestone.server.core.project import ProjectFolder
    from cobblestone.server.core.roles import parse_roles
    from cobblestone.server.run import check_start, serve

    root = folder or local_folder(project)
    if check:
        check_start(root, replaces=os.getppid())  # a server asks, which then begins anew
        return
    settings = ProjectFolder(root).settings()
    configure_logging(level=settings.log.level, json=settings.log.json_lines)

    roles = parse_roles(role)

    def ready(ctx: ServerContext) -> None:
        part = f" ({', '.join(sorted(roles))})" if role else ""
        print_error(f"{ctx.settings.project.name} runs at {ctx.master_url}{part} – stop it with Ctrl-C.")

    serve(root, roles=roles, host=host, port=port, ready=ready)
