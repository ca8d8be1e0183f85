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
        help=f"The data directory; created if missing. [default: {DEFAULT_FOLDER}]")  # fmt: skip
    add("--policy", default="", metavar="NAME",
        help="How it decides: recent (as BOINC's current client), own, published ... (CPUs only), an installed policy, or"
             " FILE.py:Name.")  # fmt: skip
    add(
        "--gui-port",
        type=_port,
        default=GUI_PORT,
        metavar="N",
        help=f"Port of GUI RPC; 0: any. [default: {GUI_PORT}]",
    )
    add(
        "--json-port",
        type=_port,
        default=0,
        metavar="N",
        help="Port of the JSON interface; 0: any. [default: 0]",
    )
    add("--remote", action="store_true", help="Let other computers control it, with TLS and a token.")
    add("--tls-certificate", type=Path, metavar="FILE", help="TLS certificate, PEM.")
    add("--tls-key", type=Path, metavar="FILE", help="Private key for it, PEM.")
    add("-h", "--help", action=ShowHelp, nargs=0, help="Show this message and exit.")
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

    faces = Faces(
        gui_port=options.gui_port,
        json_port=options.json_port,
        remote=options.remote,
        certificate=options.tls_certificate,
        certificate_key=options.tls_key,
    )
    run_client(options.folder.expanduser(), faces, policy=options.policy)
    return 0
