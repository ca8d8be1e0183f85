"""The command line: ``cobblestone NOUN VERB``.

Exit status: 0 done; 1 refused or failed (one message on standard error says what to do); 2 wrong usage; 3 done, but
some jobs have no answer; 4 done, but the project is not sound (doctor); 130 interrupted.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cobblestone.domain.errors import CobblestoneError

if TYPE_CHECKING:
    from cobblestone.cli.options import Commands

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130

# The module of this package with each command, in the order of the help text: a group ``NAME_commands``, or a function ``NAME``.
COMMANDS = {
    "project": "project.setup",
    "run": "project.server",
    "restart": "project.server",
    "stop": "project.server",
    "upgrade": "project.upkeep",
    "app": "work.app",
    "submit": "work.jobs",
    "batch": "work.jobs",
    "workunit": "work.workunit",
    "status": "project.server",
    "token": "project.access",
    "key": "project.access",
    "user": "project.people",
    "host": "project.hosts",
    "team": "project.people",
    "news": "project.people",
    "credit": "project.credit",
    "creditbench": "lab.creditbench",
    "scales": "services.scales",
    "statistics": "services.statistics",
    "manager": "services.account_manager",
    "trickle": "work.workunit",
    "archive": "project.records",
    "backup": "project.upkeep",
    "restore": "project.upkeep",
    "export": "project.records",
    "doctor": "project.upkeep",
    "audit": "project.records",
    "find": "project.records",
    "config": "project.setup",
    "docs": "docs",
    "client": "client.client",
    "demo": "demo",
    "examples": "demo",
    "explain": "project.hosts",
    "simulate": "lab.sweeps",
    "advise": "lab.advise",
    "paper": "lab.sweeps",
    "frontier": "lab.sweeps",
}
OPTIONAL = ("client", "demo", "lab")
"""Rooms, or modules beside them, that may be absent."""


def build(first: str = "") -> Commands:
    """Return all commands, or only the one named ``first``, so that a server does not load the simulator."""
    import typer

    from cobblestone.cli.options import Commands

    root = Commands(
        no_args_is_help=True,
        add_completion=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    def show_version(wanted: bool) -> None:
        if wanted:
            from cobblestone import __version__

            typer.echo(f"cobblestone {__version__}")
            raise typer.Exit

    @root.callback()
    def _root(
        version: bool = typer.Option(  # Typer's way
            False, "--version", callback=show_version, is_eager=True, help="Show the version and exit."
        ),
    ) -> None:
        """Volunteer computing: from a program to results of many computers.

        Begin with: cobblestone project create DIR
        """

    for name in (first,) if first in COMMANDS else COMMANDS:
        room = COMMANDS[name].partition(".")[0]
        if room not in OPTIONAL or importlib.util.find_spec(f"{__name__}.{room}") is not None:
            module = importlib.import_module(f"{__name__}.{COMMANDS[name]}")
            if group := getattr(module, f"{name}_commands", None):
                root.add_typer(group, name=name)
            else:
                root.command(name, **getattr(module, f"{name}_options", {}))(getattr(module, name))
    return root


def run_command(arguments: Sequence[str]) -> int:
    """Run a command and return its exit status."""
    try:
        if arguments and arguments[0] == "simulate":
            # not the others' parser: to load it takes longer than a run
            from cobblestone.cli.lab import simulating

            return simulating.main(arguments[1:])
        if list(arguments[:2]) == ["client", "run"]:
            from cobblestone.cli.client import run

            return run.main(arguments[2:])
        return _run_program(arguments)
    except SystemExit as exit_:  # Typer ends so, after it has shown what is wrong with the usage
        return exit_.code if isinstance(exit_.code, int) else 0
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted.\n")
        return EXIT_INTERRUPTED
    except ModuleNotFoundError as error:
        from cobblestone.ops.installation import extra_of, how_to_install

        if not (extra := extra_of(error.name or "")):
            raise
        sys.stderr.write(
            f"Error: This needs {error.name}, which is not installed. Install it with: {how_to_install(extra)}\n"
        )
        return EXIT_FAILED
    except (CobblestoneError, TimeoutError) as error:
        from cobblestone.cli.arguments import error_text

        text = error_text(error) if isinstance(error, CobblestoneError) else str(error)
        sys.stderr.write("\n".join([f"Error: {text}", *getattr(error, "__notes__", [])]) + "\n")
        return EXIT_FAILED


def _run_program(arguments: Sequence[str]) -> int:
    from typer.main import get_command

    from cobblestone.cli.arguments import spread_lists
    from cobblestone.ops.environment import connection_defaults, typed_noun

    connection_defaults()  # takes its variables out of the environment before settings look there
    noun = next(iter(arguments), "") or typed_noun()
    get_command(build(noun)).main(spread_lists(arguments), prog_name="cobblestone")
    return 0


def main() -> None:
    """Entry point of the installed command."""
    sys.exit(run_command(sys.argv[1:]))
