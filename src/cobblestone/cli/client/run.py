"""``cobblestone client run``: start the client.

The command has a parser of its own, from the standard library: Typer with all that it loads would stay in the memory of a
program that runs for months on computers of volunteers.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from cobblestone.cli.help import ShowHelp

DEFAULT_FOLDER = Path("~/.local/share/cobblestone-client")
SUMMARY = "Run a client until it is stopped; jobs then save their work."
GUI_PORT = 31416
MAX_PORT = 65535
EXIT_USAGE = 2


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command's arguments."""
    made = argparse.ArgumentParser(
        prog="cobblestone client run", description=SUMMARY, allow_abbrev=False, add_help=False
    )
    add = made.add_argument
    add("folder", metavar="DIR", nargs="?", type=Path, default=DEFAULT_FOLDER,
        help="The data directory; created if missing.")  # fmt: skip
    add("--policy", default="", metavar="NAME",
        help="How it decides: recent (as BOINC's current client), own, published ... (CPUs only), an installed policy, or"
             " FILE.py:Name.")  # fmt: skip
    add("--gui-port", type=_port, default=GUI_PORT, metavar="N", help="Port of GUI RPC; 0: any.")
    add("--json-port", type=_port, default=0, metavar="N", help="Port of the JSON interface; 0: any.")
    add("--remote", action="store_true", help="Let other computers control it, with TLS and a token.")
    add("--tls-certificate", dest="certificate", type=Path, metavar="FILE", help="TLS certificate, PEM.")
    add("--tls-key", dest="certificate_key", type=Path, metavar="FILE", help="Private key for it, PEM.")
    add("-h", "--help", action=ShowHelp)
    return made


def _port(text: str) -> int:
    if not (text.isdecimal() and int(text) <= MAX_PORT):
        raise argparse.ArgumentTypeError(f"{text!r} is not a port; allowed: 0 to {MAX_PORT}")
    return int(text)


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit status."""
    try:
        options = parser().parse_args(arguments)
    except SystemExit as exit_:  # argparse ends so, after it has shown help or what is wrong
        return exit_.code if isinstance(exit_.code, int) else EXIT_USAGE
    from cobblestone.client.daemon.programs import Faces, run_client

    given = vars(options)
    folder, policy = given.pop("folder"), given.pop("policy")
    run_client(folder.expanduser(), Faces(**given), policy=policy)
    return 0
