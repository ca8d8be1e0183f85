"""What the shell's Tab key offers beyond commands and options, names of apps and numbers of batches; and how it gets there.

A completion must never get in the way of typing: without a project, or when it does not answer, nothing is offered.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem, get_completion_class

from cobblestone.cli.options import open_project
from cobblestone.domain.errors import ConfigError

if TYPE_CHECKING:
    from cobblestone.sdk.project import Project

BATCHES = 50
#: By shell: where its script goes, and what its start-up file must say; fish reads its folder by itself.
_PLACES = {
    "bash": (".bash_completions/cobblestone.sh", ".bashrc", "source ~/.bash_completions/cobblestone.sh"),
    "zsh": (".zfunc/_cobblestone", ".zshrc", "fpath+=~/.zfunc; autoload -Uz compinit; compinit"),
    "fish": (".config/fish/completions/cobblestone.fish", "", ""),
}


def app_names(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return names of apps, with their titles."""
    with suppress(Exception), _project(ctx) as connected:
        found = [app for app in connected.apps() if app.name.startswith(incomplete)]
        return [CompletionItem(app.name, help=app.title) for app in found]
    return []


def batch_ids(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return numbers of batches, newest first, with names and states."""
    with suppress(Exception), _project(ctx) as connected:
        found = [each for each in connected.batches(limit=BATCHES) if str(each.id).startswith(incomplete)]
        return [CompletionItem(str(each.id), help=f"{each.name}, {each.state}") for each in found]
    return []


@contextmanager
def _project(ctx: click.Context) -> Generator[Project]:
    """Open the project given by the options typed so far."""
    from cobblestone.ops.environment import connection_defaults

    connection_defaults()
    with open_project(ctx.params.get("project"), ctx.params.get("token")) as connected:
        yield connected


def install(command: click.Command) -> str:
    """Write the script of the shell that called us into the home folder, and return what was done.

    What already stands in the shell's start-up file stays; one line is added at its end.

    Raises:
        ConfigError: it was called by no shell that we know.
    """
    import psutil

    callers = [each.name().removesuffix(".exe") for each in psutil.Process().parents()]
    shell = next((each for each in callers if each in _PLACES), "")
    kind = get_completion_class(shell)
    if kind is None:
        raise ConfigError(f"Call this in one of these shells: {', '.join(_PLACES)}.")
    script, start, line = _PLACES[shell]
    place = Path.home() / script
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(kind(command, {}, "cobblestone", "_COBBLESTONE_COMPLETE").source(), encoding="utf-8")
    if start:
        with (Path.home() / start).open("a+", encoding="utf-8", errors="surrogateescape") as file:
            file.seek(0)
            if line not in file.read():
                file.write(f"\n{line}\n")
    return f"{shell} completion installed in {place}. It works in shells that are started from now on."
