"""The command line: ``cobblestone NOUN VERB``.

Exit status: 0 done; 1 refused or failed (one message on standard error says what to do); 2 wrong usage; 3 done, but
some jobs have no answer; 4 done, but the project is not sound (doctor); 130 interrupted.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cobblestone.domain.errors import CobblestoneError

if TYPE_CHECKING:
    from cobblestone.cli.parameters import Commands

_SUMMARY = """Volunteer computing: from a program to results of many computers.

Begin with: cobblestone project create DIR
"""
EXIT_FAILED = 1
EXIT_INTERRUPTED = 130

#: The module of this package with each command, in the order of the help text, and what the command does.  The module has
#: a group ``NAME_commands``, or a function ``NAME``; it is loaded when the command is called, not to list it.
COMMANDS = {
    "project": ("project.setup", "Create a project, move it, write files for systemd."),
    "run": ("project.server", "Run the project's server until Ctrl-C."),
    "restart": ("project.server", "Restart the project's server without failing a request."),
    "stop": ("project.server", "Stop the project's server."),
    "upgrade": ("project.upkeep", "Upgrade the database to the schema of this version."),
    "app": ("work.app", "Apps: what your jobs run."),
    "submit": ("work.jobs", "Submit jobs: one for each input file, or those of a list."),
    "batch": ("work.jobs", "Batches: submitted jobs and their answers."),
    "workunit": ("work.workunit", "Single workunits."),
    "status": ("project.server", "Show the state of the project."),
    "token": ("project.access", "Tokens for programs that use the project from outside."),
    "key": ("project.access", "Keys that sign what clients run."),
    "user": ("project.people", "Accounts of volunteers."),
    "host": ("project.hosts", "Computers of volunteers."),
    "team": ("project.people", "Teams of users."),
    "news": ("project.people", "News for volunteers."),
    "credit": ("project.credit", "Explain, check and correct credit."),
    "creditbench": ("lab.creditbench", "Measure what credit systems pay, and what attackers gain."),
    "scales": ("services.scales", "Credit scales of GPU versions across projects."),
    "statistics": ("services.statistics", "A site with the statistics of many projects."),
    "manager": ("services.account_manager", "An account manager: one account for all projects."),
    "trickle": ("work.workunit", "Messages of running jobs, in both directions."),
    "archive": ("project.records", "Finished jobs that left the database."),
    "backup": ("project.upkeep", "Back up a project, running or stopped."),
    "restore": ("project.upkeep", "Make a project folder from a backup."),
    "export": ("project.records", "Export users, computers and teams for statistics sites."),
    "doctor": ("project.upkeep", "Check the integrity of a live project."),
    "audit": ("project.records", "Show who did what in the project, newest first."),
    "find": ("project.records", "Find users, hosts, batches, workunits and results."),
    "config": ("project.setup", "Settings of a project: what holds, and why."),
    "docs": ("docs", "Serve the documentation on this machine until Ctrl-C."),
    "client": ("client.client", "Compute for projects on this computer."),
    "demo": ("demo", "Run a complete demonstration on this machine."),
    "examples": ("demo", "List the included examples, or copy one."),
    "explain": ("project.hosts", "Explain why something happens or does not happen."),
    "simulate": ("lab.simulating", "Simulate a host with its projects, by each policy."),
    "advise": ("lab.advise", "Recommend deadline, quorum, buffers and size of batches."),
    "paper": ("lab.sweeps", "Reproduce Kondo, Anderson, McLeod (2007)."),
    "frontier": ("lab.sweeps", "Show where one policy is better or worse than another."),
}
#: Rooms, or modules beside them, that may be absent.
OPTIONAL = ("client", "demo", "lab")


def build(only: str | None = None) -> Commands:
    """Return all commands, or ``only`` the one of that name; if there is no such command, a list to choose from."""
    from cobblestone.cli.parameters import Commands, switch

    def install_completion() -> str:
        from cobblestone.cli.completion import install

        return install(root)

    def version() -> str:
        from cobblestone import __version__

        return f"cobblestone {__version__}"

    root = Commands(_SUMMARY)
    root.params += [
        switch("--version", "Show the version and exit.", version),
        switch(
            "--install-completion", "Make the Tab key complete commands in this shell.", install_completion
        ),
    ]
    for name in (only,) if only in COMMANDS else COMMANDS:
        place, summary = COMMANDS[name]
        room = place.partition(".")[0]
        if room in OPTIONAL and importlib.util.find_spec(f"{__name__}.{room}") is None:
            continue
        if only is not None and name != only:
            root.verb(name, summary)(_listed)
            continue
        module = importlib.import_module(f"{__name__}.{place}")
        if group := getattr(module, f"{name}_commands", None):
            root.add_command(group, name)
        else:
            root.verb(name)(getattr(module, name))
    return root


def _listed() -> None:
    """Stand for a command in a list."""


def run_command(arguments: Sequence[str]) -> int:
    """Run a command and return its exit status."""
    try:
        return _run_program(arguments)
    except SystemExit as exit_:  # Click ends so after it has answered a shell
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
    except UnicodeEncodeError as error:  # the name of a file or folder
        part = error.object[max(0, error.start - 60) : error.end + 20]
        sys.stderr.write(f"Error: {part!r} is not UTF-8. Choose another name.\n")
        return EXIT_FAILED
    except (CobblestoneError, OSError) as error:
        from cobblestone.cli.arguments import error_text

        sys.stderr.write("\n".join([f"Error: {error_text(error)}", *getattr(error, "__notes__", [])]) + "\n")
        return EXIT_FAILED


def _run_program(arguments: Sequence[str]) -> int:
    import click

    from cobblestone.cli.arguments import spread_lists
    from cobblestone.ops.environment import connection_defaults, typed_noun

    connection_defaults()  # takes its variables out of the environment before settings look there
    noun = next(iter(arguments), "") or typed_noun()
    try:
        status = build(noun).main(spread_lists(arguments), prog_name="cobblestone", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:  # the help is printed
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort as error:
        raise KeyboardInterrupt from error
    return status if isinstance(status, int) else 0


def main() -> None:
    """Entry point of the installed command."""
    for name in ("stdin", "stdout", "stderr"):  # in this order each opens as the descriptor that was closed
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w", encoding="utf-8"))  # noqa: PTH123, SIM115
    # names may have characters that the terminal's encoding lacks, and file names bytes that are no text
    stdout: Any = sys.stdout
    stdout.reconfigure(errors="backslashreplace")
    status = run_command(sys.argv[1:])
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python still waits for threads: another Ctrl-C ends that
    sys.exit(status)
