"""Options shared by many commands, and the connection to a project that is made from them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from cobblestone.cli.output import Output
from cobblestone.cli.parameters import Option

if TYPE_CHECKING:
    from cobblestone.sdk.project import Project

T = TypeVar("T")

ProjectOption = Annotated[
    str | None,
    Option(
        "--project -p",
        metavar="DIR|URL",
        help="The project: its folder or address. Default: COBBLESTONE_PROJECT, the current folder, "
        "its parent, or a subfolder.",
    ),
]
TokenOption = Annotated[
    str | None,
    Option(
        "--token",
        metavar="TOKEN",
        help="Token for a project given by its address. Default: COBBLESTONE_TOKEN.",
    ),
]
HostOption = Annotated[str | None, Option(help="Address to listen on. Else that of the settings.")]
PortOption = Annotated[
    int | None, Option(min=1, max=65535, help="Port to listen on. Else that of the settings.")
]
JsonOption = Annotated[bool, Option("--json", help="Print JSON.")]
QuietOption = Annotated[bool, Option("--quiet -q", help="Print only ids or the essential values.")]


@contextmanager
def open_project(project: str | None, token: str | None) -> Generator[Project]:
    """Connect to the project given by the options."""
    # HTTP: not for commands that need none
    from cobblestone.sdk.api.connection import locate, open_connection
    from cobblestone.sdk.project import Project

    target = locate(project, token)
    # this process opens the project itself: the server's own words are not for its output
    if not target.urls:
        from cobblestone.ops.logging import configure_logging

        configure_logging(level="warning")
    with Project(open_connection(target)) as connected:
        yield connected


@dataclass(frozen=True, kw_only=True)
class OutputOptions(Output):
    """How to print."""

    json: JsonOption = False
    quiet: QuietOption = False


@dataclass(frozen=True, kw_only=True)
class Common:
    """Options of most commands: the project, and how to print."""

    project: ProjectOption = None
    token: TokenOption = None
    json: JsonOption = False
    quiet: QuietOption = False

    def connect(self) -> AbstractContextManager[Project]:
        """Connect to the project."""
        return open_project(self.project, self.token)

    def ask(self, question: Callable[[Project], T]) -> T:
        """Connect to the project for one question, and return the answer."""
        with self.connect() as connected:
            return question(connected)

    @property
    def out(self) -> Output:
        """Return the printer."""
        return Output(self.json, self.quiet)


@dataclass(frozen=True, kw_only=True)
class PageOptions:
    """The requested part of a long list."""

    limit: Annotated[int, Option(min=1, max=1000, help="How many to show, newest first.")] = 50
    before: Annotated[
        int | None,
        Option(min=1, metavar="ID", help="Continue below this one, the last of the previous page."),
    ] = None


def given(*groups: object) -> dict[str, Any]:
    """Return the options that were given, by field name."""
    return {
        each.name: value
        for group in groups
        for each in fields(group)  # pyright: ignore[reportArgumentType]  # groups are dataclasses
        if (value := getattr(group, each.name)) is not None
    }


def local_folder(project: str | None) -> Path:
    """Return the folder of a project on this machine.

    Raises:
        ConfigError: there is none, or an address was given.
    """
    from cobblestone.domain.errors import ConfigError
    from cobblestone.ops.environment import connection_defaults
    from cobblestone.sdk.api.connection import find_folder

    wanted = project or connection_defaults().project
    if wanted.startswith(("http://", "https://")):
        raise ConfigError(
            f"This needs the project's folder, not its address ({wanted}). Run it on the server's machine."
        )
    return Path(wanted).expanduser().absolute() if wanted else find_folder()
