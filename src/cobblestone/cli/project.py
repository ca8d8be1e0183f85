"""``cobblestone project``: make a project."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from cobblestone.cli.options import JsonOption, QuietOption, output

commands = typer.Typer(no_args_is_help=True, help="Make a project.")


def register(root: typer.Typer) -> None:
    """Add the commands."""
    root.add_typer(commands, name="project")


@commands.command("create")
def create(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that is empty or does not exist.")],
    name: Annotated[str, typer.Option(help="Shown to volunteers. Else the folder's name.")] = "",
    url: Annotated[
        str,
        typer.Option(
            help="Address that volunteers attach to. They keep it for ever: choose it before the first one comes."
        ),
    ] = "",
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for all.")] = "127.0.0.1",
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port to listen on. Else 8080, or the next free one.")
    ] = None,
    offline_key: Annotated[
        Path | None,
        typer.Option(
            metavar="PUBLICKEYFILE",
            help="Public key made with `cobblestone key create` on the machine that keeps the private one.",
        ),
    ] = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Make a project: settings, keys, database, and a token for you."""
    from cobblestone.domain.errors import ConfigError
    from cobblestone.server.creation import DEFAULT_PORT, NewProject, create_project, port_is_free

    public_key = ""
    if offline_key is not None:
        try:
            public_key = offline_key.read_text(encoding="ascii", errors="replace")
        except OSError as error:
            raise ConfigError(f"--offline-key: {offline_key} cannot be read: {error.strerror}.") from error
    wish = NewProject(name=name, url=url, host=host, port=port, public_key=public_key)
    created = create_project(folder, wish, now=time.time())
    out = output(json, quiet)
    if port is None and not url and created.port != DEFAULT_PORT:
        out.warn(f"Port {DEFAULT_PORT} is taken; the project has {created.port}.")
    elif not port_is_free(host, created.port):
        out.warn(f"Something else listens on port {created.port} now; stop it before you run the project.")
    key = (
        "The private code signing key lies in keys/ inside. For a public project keep it on another machine: see"
        " `cobblestone key --help`."
        if created.has_private_key
        else "App files must be signed on the machine with the private key: cobblestone key manifest, sign, import."
    )
    out.show(
        {
            "folder": str(created.folder.root),
            "url": created.url,
            "port": created.port,
            "private_key_here": created.has_private_key,
        },
        lines=[
            f"Created a project in {created.folder.root} for {created.url}",
            f"Its settings, with comments: {created.folder.root / 'cobblestone.toml'}",
            key,
            "",
            "Next:",
            f"  cobblestone run {folder}",
            (
                f'  cobblestone app create NAME --project {folder} --command "python3 program.py {{input}} {{output}}"'
                " --files program.py"
            ),
        ],
        essential=[created.folder.root],
    )
