"""The command line: ``cobblestone NOUN VERB``.

Exit status: 0 done; 1 refused or failed (one message on standard error says what to do); 2 wrong usage; 3 done, but
some jobs have no answer; 4 done, but the project is not sound (doctor); 130 interrupted.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence

import typer
from typer.main import get_command

from cobblestone.cli import (
    app,
    archive,
    audit,
    backup,
    batch,
    config,
    credit,
    doctor,
    host,
    key,
    news,
    project,
    restart,
    run,
    scales,
    status,
    submit,
    team,
    token,
    trickle,
    user,
    workunit,
)
from cobblestone.cli.arguments import spread_lists
from cobblestone.cli.options import Commands
from cobblestone.cli.output import print_error
from cobblestone.domain.errors import CobblestoneError

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130

NOUNS = (
    project,
    run,
    restart,
    app,
    submit,
    batch,
    workunit,
    status,
    token,
    key,
    user,
    host,
    team,
    news,
    credit,
    scales,
    trickle,
    archive,
    backup,
    doctor,
    audit,
    config,
)
# Further commands come with parts that may be absent; each has a function ``register``.
OPTIONAL = ("demo", "explain", "simulate", "paper", "frontier")


def _version(wanted: bool) -> None:
    if wanted:
        from cobblestone import __version__

        typer.echo(f"cobblestone {__version__}")
        raise typer.Exit


def _root(
    version: bool = typer.Option(  # Typer's way
        False, "--version", callback=_version, is_eager=True, help="Show the version and end."
    ),
) -> None:
    """Volunteer computing: from a program to the answers of many computers.

    Begin with: cobblestone project create DIR
    """


def build(first: str = "") -> Commands:
    """All commands; or at least those that begin with ``first``, so that a server need not hold the simulator."""
    root = Commands(
        no_args_is_help=True,
        add_completion=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    root.callback()(_root)
    for noun in NOUNS:
        noun.register(root)
    known = first in OPTIONAL or first in {noun.__name__.rpartition(".")[2] for noun in NOUNS}
    for name in OPTIONAL:
        if known and name != first:
            continue
        full = f"{__name__}.{name}"
        if importlib.util.find_spec(full) is not None:
            importlib.import_module(full).register(root)
    return root


def run_command(arguments: Sequence[str]) -> int:
    """Run a command; the exit status."""
    from cobblestone.ops.connection import connection_defaults

    connection_defaults()  # takes its variables out of the environment before settings look there
    try:
        get_command(build(next(iter(arguments), ""))).main(spread_lists(arguments), prog_name="cobblestone")
    except SystemExit as exit_:  # Typer ends so, after it has shown what is wrong with the usage
        return exit_.code if isinstance(exit_.code, int) else 0
    except KeyboardInterrupt:
        print_error("Interrupted.")
        return EXIT_INTERRUPTED
    except (CobblestoneError, TimeoutError) as error:
        print_error("\n".join([f"Error: {error}", *getattr(error, "__notes__", [])]))
        return EXIT_FAILED
    return 0


def main() -> None:
    """Entry point of the installed command."""
    sys.exit(run_command(sys.argv[1:]))
