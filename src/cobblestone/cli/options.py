"""Options that many commands share, and the connection that they lead to."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cobblestone.cli.output import Output

if TYPE_CHECKING:
    from cobblestone.sdk import Project

ProjectOption = Annotated[
    str | None,
    typer.Option(
        "--project",
        "-p",
        metavar="DIR|URL",
        help="The project: its folder or address. Else COBBLESTONE_PROJECT, the current folder, one above it, or one in it.",
        show_default=False,
    ),
]
TokenOption = Annotated[
    str | None,
    typer.Option(
        "--token",
        metavar="TOKEN",
        help="Token for a project given by its address. Else COBBLESTONE_TOKEN.",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print only ids or the essential values.")]


@contextmanager
def open_project(project: str | None, token: str | None) -> Generator[Project]:
    """Connect to the project that the options mean."""
    from cobblestone.ops.logging import configure_logging
    from cobblestone.sdk import connect  # an HTTP client: not for commands that need none

    configure_logging(level="warning")  # the server's own words, when this process stands in for it
    with connect(project, token) as connected:
        yield connected


def output(json: bool, quiet: bool) -> Output:
    """The printer that the options mean."""
    return Output(json=json, quiet=quiet)


def local_folder(project: str | None) -> Path:
    """The folder of a project on this machine.

    Raises:
        ConfigError: there is none, or an address was given.
    """
    from cobblestone.domain.errors import ConfigError
    from cobblestone.ops.connection import connection_defaults
    from cobblestone.sdk.locate import find_folder

    wanted = project or connection_defaults().project
    if wanted.startswith(("http://", "https://")):
        raise ConfigError(
            f"This needs the project's folder, not its address ({wanted}). Run it on the server's machine."
        )
    return Path(wanted).expanduser().absolute() if wanted else find_folder()
