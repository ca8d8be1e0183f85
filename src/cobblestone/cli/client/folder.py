"""``cobblestone client`` on a data directory: run, take over, export, and replay the log of events."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click

from cobblestone.cli.options import JsonOption, OutputOptions
from cobblestone.cli.parameters import Argument, Option
from cobblestone.domain.errors import ConfigError
from cobblestone.ops.environment import typed_word

if TYPE_CHECKING:
    from cobblestone.client.records.decisions import Round
    from cobblestone.policy.client.core.events import Instruction
    from cobblestone.policy.client.core.machine import ClientCore


DEFAULT_FOLDER = Path("~/.local/share/cobblestone-client")
GUI_PORT = 31416
_HELD_BY = {"system": "the system", "client": "the client", "nobody": "nothing"}

FolderOption = Annotated[Path, Option("--dir -d", metavar="DIR", help="The client's data directory.")]


def run(
    folder: Annotated[
        Path,
        Argument(metavar="DIR", help=f"The data directory; created if missing. Default: {DEFAULT_FOLDER}"),
    ] = DEFAULT_FOLDER,
    policy: Annotated[
        str,
        Option(
            metavar="NAME",
            help="How it decides: recent (as BOINC's current client), own, published ... (CPUs only), "
            "an installed policy, or FILE.py:Name.",
        ),
    ] = "",
    gui_port: Annotated[int, Option(min=0, max=65535, help="Port of GUI RPC; 0: any.")] = GUI_PORT,
    json_port: Annotated[int, Option(min=0, max=65535, help="Port of the JSON interface; 0: any.")] = 0,
    remote: Annotated[
        bool, Option("--remote", help="Let other computers control it, with TLS and a token.")
    ] = False,
    certificate: Annotated[
        Path | None, Option("--tls-certificate", metavar="FILE", help="TLS certificate, PEM.")
    ] = None,
    certificate_key: Annotated[
        Path | None, Option("--tls-key", metavar="FILE", help="Private key for it, PEM.")
    ] = None,
) -> None:
    """Run a client until it is stopped; jobs then save their work."""
    from cobblestone.client.daemon.programs import Faces, run_client

    if certificate_key and not certificate:
        raise click.BadParameter("--tls-key needs --tls-certificate")
    faces = Faces(
        gui_port=gui_port,
        json_port=json_port,
        remote=remote,
        certificate=certificate,
        certificate_key=certificate_key,
    )
    run_client(folder.expanduser(), faces, policy=policy)


def web(
    folder: FolderOption = DEFAULT_FOLDER,
    look: Annotated[bool, Option("--look", help="Use the read-only token.")] = False,
) -> None:
    """Print the address of the client's web page for browsers on this computer; keep it secret."""
    from cobblestone.client.remote.access import read_access

    access = read_access(folder.expanduser())
    scheme, token = "https" if access.tls else "http", access.reading_token if look else access.control_token
    click.echo(f"{scheme}://127.0.0.1:{access.port}/#{token}")


def adopt(
    folder: Annotated[Path, Argument(metavar="DIR", help="Data directory of a stopped BOINC client.")],
    out: OutputOptions = OutputOptions(),
) -> None:
    """Take over another client's projects, jobs, accounting and statistics, in its data directory."""
    from cobblestone.client.records.handover import adopt as take_over

    found = take_over(folder.expanduser())
    words = ", ".join(f"{name.replace('_', ' ')}: {count}" for name, count in found.items())
    out.show(
        found, lines=[f"Taken over {words}.", f"Continue with: cobblestone client run {typed_word(folder)}"]
    )


def export(
    folder: Annotated[
        Path, Argument(metavar="DIR", help="A new folder, or the client's own data directory.")
    ],
    source: FolderOption = DEFAULT_FOLDER,
    out: OutputOptions = OutputOptions(),
) -> None:
    """Write the state of a stopped client, so that a BOINC client can continue with it."""
    from cobblestone.client.records.handover import export as write_out

    found = write_out(source.expanduser(), folder)
    words = ", ".join(f"{name}: {count}" for name, count in found.items())
    out.show(
        found,
        lines=[
            f"Wrote {words}.",
            f"Continue with: boinc --dir {folder}",
            "From now on, run only one of the two clients: they have the same jobs.",
        ],
    )


def unit(
    folder: FolderOption = DEFAULT_FOLDER,
    user: Annotated[
        str, Option(help="A system unit that runs as this account; default: a unit of your own user.")
    ] = "",
    into: Annotated[Path | None, Option(metavar="DIR", help="Where to write the file.")] = None,
    out: OutputOptions = OutputOptions(),
) -> None:
    """Write a systemd unit that runs the client whenever the computer is on."""
    from cobblestone.client.daemon.programs import NAME, client_unit
    from cobblestone.ops.files import write_durably

    made = client_unit(folder.expanduser().absolute(), user=user)
    place = into.absolute() / NAME if into else made.place
    try:
        write_durably(place, made.text.encode())
    except OSError as error:
        raise ConfigError(
            f"{place} cannot be written: {error.strerror}. Give --into DIR, or run as root."
        ) from error
    out.show(
        {"unit": str(place), "commands": made.commands},
        lines=[f"Wrote {place}.", "Next:", *(f"  {each}" for each in made.commands)],
        essential=[place],
    )


def doctor(folder: FolderOption = DEFAULT_FOLDER, out: OutputOptions = OutputOptions()) -> None:
    """Check what confines jobs on this computer, and suggest what to install where nothing does."""
    from cobblestone.client.sandbox.sandbox import SandboxChoice, detect_sandbox
    from cobblestone.ops.environment import environment_without_proxies

    found = detect_sandbox(SandboxChoice(), folder.expanduser(), environment=environment_without_proxies())
    out.table(
        {
            "sandbox": [each.text() for each in found.report],
            "bounds": [each.as_json() for each in found.bounds],
        },
        ["bound", "held by", "by means of"],
        [(each.name, _HELD_BY[each.holder], each.means) for each in found.bounds],
    )
    if not out.for_programs:
        out.show(None, lines=["", *(each.text() for each in found.report)])


FOLDER_COMMANDS: dict[str, Callable[..., None]] = {
    each.__name__: each for each in (run, web, adopt, export, unit, doctor)
}


EXIT_DIFFERS = 1


def replay(
    log: Annotated[
        Path, Argument(metavar="LOG.jsonl", help="Events, one round per line; - reads standard input.")
    ],
    policy: Annotated[str, Option(metavar="NAME", help="The policy to decide with.")] = "recent",
    seed: Annotated[int, Option(help="Seed of the random waits.")] = 1,
    alarms: Annotated[bool, Option("--alarms", help="Ring due alarms between the lines.")] = False,
    json: JsonOption = False,
) -> None:
    """Feed a log of events to the client's core, and print its decisions and the reasons.

    Exit status 1: the log has instructions of another time, and others were given now.
    """
    import msgspec

    from cobblestone.client.records.decisions import fresh_core, play
    from cobblestone.ops.policies import full_name, is_own, watched

    name, different = full_name(policy), 0
    core = watched(name, lambda: fresh_core(name, seed=seed))
    core.validate = True
    lines = list(_lines(log)) if is_own(name) else _lines(log)  # to wait for one is not the policy's fault
    rounds = play(core, lines, alarms=alarms)
    while (told := watched(name, lambda: next(rounds, None))) is not None:
        different += told.differs
        if json:
            click.echo(msgspec.json.encode(told.plain).decode())
        else:
            click.echo("\n".join(_round(told)))
    if not json:
        click.echo("\n".join(_end(core)))
    if different:
        sys.stderr.write(f"rounds with other instructions than the log: {different}\n")
        raise click.exceptions.Exit(EXIT_DIFFERS)


def _lines(log: Path) -> Iterator[bytes]:
    if str(log) == "-":
        yield from sys.stdin.buffer
        return
    with log.open("rb") as stream:
        yield from stream


def _round(told: Round) -> Iterator[str]:
    now = told.events[-1].now if told.events else 0.0
    yield f"{now:.12g} s: {', '.join(type(event).__name__ for event in told.events)}"
    for each in told.decided:
        yield f"  {_words(each)}"
    if told.differs:
        yield "  (the log has other instructions)"


def _words(each: Instruction) -> str:
    """Return an instruction and its reasons."""
    from cobblestone.policy.client.core.events import ContactProject, GiveUp, SetAlarm, StartTask
    from cobblestone.policy.client.core.reasons import sentence

    what = str(getattr(each, "job", ""))
    if isinstance(each, SetAlarm):
        what = f"at {each.at:.12g} s" if each.at < math.inf else "off"
    elif isinstance(each, ContactProject):
        asked = [f"ask for {r.seconds:.6g} s of {kind or 'CPU'}" for kind, r in each.requests.items()]
        what = ", ".join([each.project, *asked, *(["report", *each.report] if each.report else [])])
    elif isinstance(each, GiveUp):
        what += f", {each.code}"
    elif isinstance(each, StartTask) and each.instances:
        what += f" on {', '.join(map(str, each.instances))}"
    reasons = f" ({'; '.join(map(sentence, each.why))})" if each.why else ""
    return f"{type(each).__name__} {what}{reasons}"


def _end(core: ClientCore) -> Iterator[str]:
    """Return the state of each job and project at the end of the log, with reasons."""
    from cobblestone.policy.client.core.reasons import sentence

    yield f"in the end, {core.state.now:.12g} s:"
    for job in (*core.state.jobs, *core.state.finished):
        yield f"  {job.id} {job.phase}: {'; '.join(map(sentence, core.why_job(job.id)))}"
    for project in core.state.projects:
        name = project.description.id
        yield f"  {name}: {'; '.join(map(sentence, core.why_project(name))) or 'nothing to say'}"
