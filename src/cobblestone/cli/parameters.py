"""Commands made from functions: what a parameter's annotation says becomes an option or an argument of Click.

::

    @batch_commands.verb("list")
    def list_batches(page: PageOptions = PageOptions(), common: Common = Common()) -> None:
        ...

A parameter is ``Annotated`` with an :class:`Option` or an :class:`Argument`; without one it is an option if it has a default,
else an argument.  Options that belong together are a dataclass: a command that takes it as a parameter has all of its
options, in that place.  The text below a field is the help of the option.
"""

from __future__ import annotations

import ast
import enum
import inspect
import sys
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache, partial
from itertools import pairwise
from math import isfinite
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import click

from cobblestone.cli.help import ARGUMENTS, COMMANDS, OPTIONS, Rows, show

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Function = TypeVar("Function", bound=Callable[..., Any])

#: How values of a kind are called where an option does not say it.
_METAVARS: dict[Any, str] = {str: "TEXT", int: "N", float: "N", Path: "PATH"}


@dataclass(frozen=True, kw_only=True)
class Argument:
    """An argument: its help, its name in the usage, the bounds of a number, and what the Tab key offers."""

    help: str = ""
    metavar: str | None = None
    min: Any = None  # a number of the parameter's own type
    max: Any = None
    complete: Callable[[click.Context, click.Parameter, str], list[CompletionItem]] | None = None


@dataclass(frozen=True)
class Option(Argument):
    """An option: ``names`` as in ``--project -p`` or ``--hidden/--shown``, if they do not follow from the parameter's."""

    names: str = ""
    envvar: str | None = None


class Command(click.Command):
    """A command that shows its help as all do."""

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print the help."""
        _show_help(self, ctx)


class Commands(click.Group):
    """A group of commands, made from functions; called without a command, it shows its help."""

    def __init__(self, help: str) -> None:  # noqa: A002  # as Click names it
        """Make an empty group."""
        super().__init__(
            no_args_is_help=True, help=help, context_settings={"help_option_names": ["-h", "--help"]}
        )

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print the help."""
        _show_help(self, ctx)

    def verb(self, name: str, about: str = "", **settings: Any) -> Callable[[Function], Function]:
        """Return a decorator that adds a function as a command; ``about``: its help, else that is its docstring.

        ``settings`` are further ones of Click's commands.
        """

        def add(function: Function) -> Function:
            self.add_command(_command(name, function, about, settings))
            return function

        return add


def switch(name: str, text: str, answer: Callable[[], str]) -> click.Option:
    """Return an option that prints an answer and does nothing else; ``text`` is its help."""

    def act(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
        if wanted:
            click.echo(answer())
            ctx.exit()

    return click.Option([name], is_flag=True, is_eager=True, expose_value=False, callback=act, help=text)


def _command(name: str, function: Callable[..., Any], about: str, settings: dict[str, Any]) -> Command:
    """Return the command that calls a function; the fields of its option groups are options of the command."""
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, Any] = {}  # classes, which have no common type
    parameters: list[click.Parameter] = []
    for each in inspect.signature(function).parameters.values():
        kind = hints[each.name]
        if is_dataclass(kind):
            groups[each.name] = kind
            parameters += _of_group(kind)
        else:
            parameters.append(_parameter(each.name, kind, each.default))

    def call(**values: Any) -> Any:
        for word, kind in groups.items():
            values[word] = kind(**{field.name: values.pop(field.name) for field in fields(kind)})
        return function(**values)

    return Command(name, params=parameters, callback=call, help=about or inspect.getdoc(function), **settings)


def _of_group(group: Any) -> list[click.Parameter]:
    """Return the options of a group, in its panel."""
    hints = get_type_hints(group, include_extras=True)
    panel = getattr(group, "panel", "")
    return [
        _parameter(each.name, hints[each.name], each.default, group=group, panel=panel)
        for each in fields(group)
    ]


class _Option(click.Option):
    """An option, and the title of the panel in which the help shows it."""

    panel = ""


class _Argument(click.Argument):
    """An argument whose brackets and dots in the usage say how often it may be there."""

    def make_metavar(self, ctx: click.Context) -> str:
        word = self.human_readable_name
        return (word if self.required else f"[{word}]") + ("..." if self.nargs == -1 else "")


class _Integer(click.IntRange):
    """An integer within bounds."""

    name = "integer"


class _Number(click.FloatRange):
    """A number within bounds."""

    name = "number"


class _Word(click.Choice[str]):
    """One of a few words, of a ``Literal`` or the values of an enumeration."""

    def __init__(self, kind: Any) -> None:
        self._kind = kind
        super().__init__(get_args(kind) or [each.value for each in kind])

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        word = super().convert(value, param, ctx)
        return word if get_origin(self._kind) is Literal else self._kind(word)


def _type_of(kind: Any, about: Argument) -> click.ParamType[Any]:
    bounds = about.min, about.max
    if kind in (int, float) and bounds != (None, None):
        return _Integer(*bounds) if kind is int else _Number(*bounds)
    if kind is Path:
        return click.Path(path_type=Path)
    if kind in (str, bool, int, float):
        return click.types.convert_type(kind)
    return _Word(kind)


def _parameter(name: str, hint: Any, default: Any, *, group: Any = None, panel: str = "") -> click.Parameter:
    """Return the option or argument of Click for a parameter, or for a field of an option group."""
    required = default in (inspect.Parameter.empty, MISSING)
    about = next(
        (each for each in getattr(hint, "__metadata__", ()) if isinstance(each, Argument)),
        Argument() if required else Option(),
    )
    kind = get_args(hint)[0] if hasattr(hint, "__metadata__") else hint
    if NoneType in get_args(kind):
        kind = next(each for each in get_args(kind) if each is not NoneType)
    if several := get_origin(kind) is list:
        (kind,) = get_args(kind)
    attributes: dict[str, Any] = {
        "type": _type_of(kind, about),
        "required": required,
        **({} if required else {"default": default.value if isinstance(default, enum.Enum) else default}),
        "help": about.help or (_texts(group.__module__)[group.__name__, name] if group else ""),
        "metavar": about.metavar,
        "shell_complete": about.complete,
    }
    if several:
        attributes["callback"] = partial(_as_list, default)
    elif kind is float:
        attributes["callback"] = _finite
    if not isinstance(about, Option):
        return _Argument([name], nargs=-1 if several else 1, **attributes)
    names = about.names.split()
    if not names:
        word = name.replace("_", "-")
        names = [f"--{word}/--no-{word}" if kind is bool else f"--{word}"]
    if kind is bool:
        attributes["is_flag"] = True
    elif kind in _METAVARS:
        attributes["metavar"] = about.metavar or _METAVARS[kind]
    shown = default is not None and default is not False and default != ""
    option = _Option([name, *names], multiple=several, show_default=shown, **attributes)
    option.panel, option.envvar, option.show_envvar = panel, about.envvar, bool(about.envvar)
    return option


def _as_list(default: Any, _ctx: click.Context, _param: click.Parameter, values: tuple[Any, ...]) -> Any:
    return list(values) if values else default


def _finite(_ctx: click.Context, _param: click.Parameter, value: float | None) -> float | None:
    """Refuse NaN, which is within any bounds, and infinity: JSON has no word for them."""
    if value is not None and not isfinite(value):
        raise click.BadParameter(f"{value} is not a number.")
    return value


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


def _show_help(command: click.Command, ctx: click.Context) -> None:
    """Print the help of a command or group; the panels of groups of options come before the common options."""
    panels: dict[str, Rows] = {ARGUMENTS: [], COMMANDS: [], "": []}
    if isinstance(command, click.Group):
        panels[COMMANDS] = [(name, _first_words(each.help)) for name, each in command.commands.items()]
    for each in command.get_params(ctx):
        if isinstance(each, click.Argument):
            panels[ARGUMENTS].append((each.human_readable_name, each.help or ""))
        elif record := each.get_help_record(ctx):
            panels.setdefault(getattr(each, "panel", ""), []).append(record)
    panels[OPTIONS] = panels.pop("")
    show(" ".join((ctx.command_path, *command.collect_usage_pieces(ctx))), command.help or "", panels)


def _first_words(text: str | None) -> str:
    """Return the first paragraph of a help text, on one line."""
    return " ".join((text or "").partition("\n\n")[0].split())
