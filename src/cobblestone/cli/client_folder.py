"""``cobblestone client``, the part that is about a data directory: run a client in it, take it over, hand it on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from cobblestone.cli.options import JsonOption, QuietOption, output
from cobblestone.domain.errors import ConfigError

DEFAULT_FOLDER = Path("~/.local/share/cobblestone-client")
FolderOption = Annotated[
    Path, typer.Option("--dir", "-d", metavar="DIR", help="The client's data directory.", show_default=True)
]


def run(
    folder: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="The data directory; made if there is none.")
    ] = DEFAULT_FOLDER,
    policy: Annotated[
        str,
        typer.Option(help="How it decides: recent (as the family's client of today), own, or published …."),
    ] = "",
    gui_port: Annotated[int, typer.Option(min=0, max=65535, help="Port of GUI RPC; 0: any.")] = 31416,
    json_port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the JSON interface; 0: any.")] = 0,
    remote: Annotated[
        bool, typer.Option("--remote", help="Let other computers control it, with TLS and a token.")
    ] = False,
    tls_certificate: Annotated[
        Path | None, typer.Option(help="TLS certificate, PEM.", show_default=False)
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its private key, PEM.", show_default=False)] = None,
) -> None:
    """Run a client until it is stopped; jobs save their work then."""
    from cobblestone.client.programs import Faces, run_client

    faces = Faces(
        gui_port=gui_port,
        json_port=json_port,
        remote=remote,
        certificate=tls_certificate,
        certificate_key=tls_key,
    )
    run_client(folder.expanduser(), faces, policy=policy)


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


FOLDER_COMMANDS: dict[str, Callable[..., None]] = {
    "run": run,
    "web": web,
    "adopt": adopt,
    "export": export,
    "unit": unit,
}
