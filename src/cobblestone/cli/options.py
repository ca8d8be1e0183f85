"""Options shared by many commands, the connection made from them, and their shell completion.

Options that many commands share, and the connection that they lead to.

Options that belong together are a dataclass: a command that takes it as a parameter has all of its options, in that place.
The text below a field is the help of the option.

What the shell's Tab key offers beyond commands and options: names of apps, numbers of batches.

A completion must never get in the way of typing: without a project, or when it does not answer, nothing is offered.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, wraps
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup
from typer.models import OptionInfo

from cobblestone.cli.help import ARGUMENTS, COMMANDS, OPTIONS, Rows, show
from cobblestone.cli.output import Output

if TYPE_CHECKING:
    from cobblestone.sdk.project import Project

T = TypeVar("T")

ProjectOption = Annotated[
    str | None,
    typer.Option(
        "--project",
        "-p",
        metavar="DIR|URL",
        help="The project: its folder or address. Default: COBBLESTONE_PROJECT, the current folder, "
        "its parent, or a subfolder.",
    ),
]
TokenOption = Annotated[
    str | None,
    typer.Option(
        "--token",
        metavar="TOKEN",
        help="Token for a project given by its address. Default: COBBLESTONE_TOKEN.",
    ),
]
HostOption = Annotated[str | None, typer.Option(help="Address to listen on. Else that of the settings.")]
PortOption = Annotated[
    int | None, typer.Option(min=1, max=65535, help="Port to listen on. Else that of the settings.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print only ids or the essential values.")]


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

    limit: Annotated[int, typer.Option(min=1, max=1000)] = 50
    """How many to show, newest first."""
    before: Annotated[int | None, typer.Option(min=1, metavar="ID")] = None
    """Continue below this one, the last of the previous page."""


class Command(TyperCommand):
    """A command that shows its help as all do."""

    def format_help(self, ctx: Any, formatter: Any) -> None:  # Any: those of Typer's own copy of Click
        """Print the help."""
        _show_help(self, ctx)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the usage line; names of arguments stand as they are written."""
        return [re.sub(r"[{}]", "", piece) for piece in super().collect_usage_pieces(ctx)]


class Group(TyperGroup):
    """A group of commands that shows its help in the same way."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help."""
        _show_help(self, ctx)


def _show_help(command: TyperCommand | TyperGroup, ctx: Any) -> None:
    """Print the help of a command or group; the panels of groups of options come before the common options."""
    panels: dict[str, Rows] = {ARGUMENTS: [], COMMANDS: [], "": []}
    if isinstance(command, TyperGroup):
        panels[COMMANDS] = [(name, _first_words(each.help)) for name, each in command.commands.items()]
    for each in command.get_params(ctx):
        if isinstance(each, TyperArgument):
            panels[ARGUMENTS].append((each.display_name_raw, each.help or ""))
        elif record := each.get_help_record(ctx):
            panels.setdefault(getattr(each, "rich_help_panel", None) or "", []).append(record)
    panels[OPTIONS] = panels.pop("")
    show(" ".join((ctx.command_path, *command.collect_usage_pieces(ctx))), command.help or "", panels)


def _first_words(text: str | None) -> str:
    """Return the first paragraph of a help text, on one line."""
    return " ".join((text or "").partition("\n\n")[0].split())


class Commands(typer.Typer):
    """Commands whose parameters can be groups of options."""

    def __init__(self, **options: Any) -> None:
        """Make a group; called without a command, it shows its help."""
        super().__init__(cls=Group, no_args_is_help=True, **options)

    def command(self, *args: Any, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Add a command; the values are those of Typer, which knows their types."""
        add = super().command(*args, cls=Command, **options)
        return lambda function: add(_spread(function))


def _spread(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function with the fields of its option groups as its own parameters, as Typer expects."""
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, Any] = {}  # classes, which have no common type
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(function).parameters.values():
        kind = hints[parameter.name]
        if not is_dataclass(kind):
            parameters.append(_option(parameter.name, kind, parameter.default))
            continue
        groups[parameter.name] = kind
        of_group = get_type_hints(kind, include_extras=True)
        parameters += [
            _grouped(kind, field.name, of_group[field.name], field.default) for field in fields(kind)
        ]

    @wraps(function)
    def command(**values: Any) -> Any:
        for name, kind in groups.items():
            values[name] = kind(**{field.name: values.pop(field.name) for field in fields(kind)})
        return function(**values)

    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what Typer reads
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


@cache
def _texts(module: str) -> dict[tuple[str, str], str]:
    """Return the texts below the fields of a module's classes, by class and field: only the source has them."""
    found: dict[tuple[str, str], str] = {}
    source = ast.parse(inspect.getsource(sys.modules[module]))
    for kind in (each for each in source.body if isinstance(each, ast.ClassDef)):
        for pair in pairwise(kind.body):
            match pair:
                case (ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text)))):
                    found[kind.name, name] = " ".join(text.split())
                case _:
                    pass
    return found


def _grouped(group: Any, name: str, kind: Any, default: object) -> inspect.Parameter:
    """Return an option of a group, with its help and in the group's panel."""
    described: Any = kind if hasattr(kind, "__metadata__") else Annotated[kind, typer.Option()]
    option: OptionInfo = described.__metadata__[0]
    option.help = option.help or _texts(group.__module__)[group.__name__, name]
    option.rich_help_panel = getattr(group, "panel", option.rich_help_panel)
    return _option(name, described, default)


def _option(name: str, kind: Any, default: object) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


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


BATCHES = 50


def app_names(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return names of apps, with their titles."""
    with suppress(Exception), _project(ctx) as connected:
        return [(app.name, app.title) for app in connected.apps() if app.name.startswith(incomplete)]
    return []


def batch_ids(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
    """Return numbers of batches, newest first, with names and states."""
    with suppress(Exception), _project(ctx) as connected:
        found = connected.batches(limit=BATCHES)
        return [
            (str(each.id), f"{each.name}, {each.state}")
            for each in found
            if str(each.id).startswith(incomplete)
        ]
    return []


@contextmanager
def _project(ctx: typer.Context) -> Generator[Project]:
    """Open the project given by the options typed so far."""
    from cobblestone.ops.environment import connection_defaults

    connection_defaults()
    with open_project(ctx.params.get("project"), ctx.params.get("token")) as connected:
        yield connected
