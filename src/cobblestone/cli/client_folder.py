"""``cobblestone client``, the part that is about a data directory: run a client in it, take it over, hand it on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from cobblestone.cli.client_run import DEFAULT_FOLDER, SUMMARY
from cobblestone.cli.client_run import main as run_main
from cobblestone.cli.options import JsonOption, QuietOption, output
from cobblestone.domain.errors import ConfigError

_HELD_BY = {"system": "the system", "client": "the client", "nobody": "nothing"}

FolderOption = Annotated[
    Path, typer.Option("--dir", "-d", metavar="DIR", help="The client's data directory.", show_default=True)
]


def web(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="The data directory.")] = DEFAULT_FOLDER,
    look: Annotated[bool, typer.Option("--look", help="With the token that only looks.")] = False,
) -> None:
    """Print the address of the page that the client serves to browsers on this computer; keep it to yourself."""
    from cobblestone.client.access import read_access

    access = read_access(folder.expanduser())
    scheme, token = "https" if access.tls else "http", access.reading_token if look else access.control_token
    typer.echo(f"{scheme}://127.0.0.1:{access.port}/#{token}")


def adopt(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Data directory of a stopped client of the family.")
    ],
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Take over another client's projects, jobs, accounting and statistics, where they lie."""
    from cobblestone.client.handover import adopt as take_over

    found = take_over(folder.expanduser())
    words = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in found.items())
    output(json, quiet).show(
        found, lines=[f"Taken over: {words}.", f"Go on with: cobblestone client run {folder}"]
    )


def export(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A new folder, or the client's own data directory.")
    ],
    source: FolderOption = DEFAULT_FOLDER,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write the state of a stopped client for another client of the family to go on with."""
    from cobblestone.client.export import export as write_out

    found = write_out(source.expanduser(), folder)
    words = ", ".join(f"{count} {name}" for name, count in found.items())
    output(json, quiet).show(
        found,
        lines=[
            f"Written: {words}.",
            f"Go on with: boinc --dir {folder}",
            "From now on let only one of the two clients run: they have the same jobs.",
        ],
    )


def unit(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="The data directory.")] = DEFAULT_FOLDER,
    user: Annotated[
        str, typer.Option(help="A unit of the system that runs as this account; else one of your own.")
    ] = "",
    into: Annotated[
        Path | None, typer.Option("--into", metavar="DIR", help="Where the file goes.", show_default=False)
    ] = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Write a systemd unit, so that the client runs whenever the computer does."""
    from cobblestone.client.systemd_unit import NAME, client_unit
    from cobblestone.ops.durable_files import write_durably

    made = client_unit(folder.expanduser().absolute(), user=user)
    place = into.absolute() / NAME if into else made.place
    try:
        write_durably(place, made.text.encode())
    except OSError as error:
        raise ConfigError(
            f"{place} cannot be written: {error.strerror}. Give --into DIR, or be root."
        ) from error
    output(json, quiet).show(
        {"unit": str(place), "commands": made.commands},
        lines=[f"Wrote {place}.", "Next:", *(f"  {each}" for each in made.commands)],
        essential=[place],
    )


def doctor(
    folder: Annotated[Path, typer.Argument(metavar="[DIR]", help="The data directory.")] = DEFAULT_FOLDER,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Say what keeps jobs within their bounds on this computer, and what would help where nothing does."""
    from cobblestone.client.sandbox.sandbox import SandboxChoice, detect_sandbox
    from cobblestone.ops.environment import environment_without_proxies

    found = detect_sandbox(SandboxChoice(), folder.expanduser(), environment=environment_without_proxies())
    out = output(json, quiet)
    out.table(
        {
            "sandbox": [each.text() for each in found.report],
            "bounds": [each.as_json() for each in found.bounds],
        },
        ["bound", "held by", "by means of"],
        [(each.name, _HELD_BY[each.holder], each.means) for each in found.bounds],
    )
    if not (json or quiet):
        out.show(None, lines=["", *(each.text() for each in found.report)])


def run(context: typer.Context) -> None:
    """Hand the arguments over to the command's own parser."""
    raise typer.Exit(run_main(context.args))


def register_run(app: typer.Typer) -> None:
    """Add the command that starts a client."""
    everything = {"allow_extra_args": True, "ignore_unknown_options": True}
    app.command("run", help=SUMMARY, context_settings=everything, add_help_option=False)(run)


FOLDER_COMMANDS: dict[str, Callable[..., None]] = {
    "web": web,
    "adopt": adopt,
    "export": export,
    "unit": unit,
    "doctor": doctor,
}
