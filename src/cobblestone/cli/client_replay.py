"""``cobblestone client replay``: what the client's core decides when it is told a log of events."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cobblestone.cli.options import JsonOption
from cobblestone.domain.errors import ConfigError

if TYPE_CHECKING:
    from cobblestone.client.event_log import Round
    from cobblestone.policy.client.core.instructions import Instruction
    from cobblestone.policy.client.core.machine import ClientCore

EXIT_DIFFERS = 1


def replay(
    log: Annotated[
        Path, typer.Argument(metavar="LOG.jsonl", help="Events, a round a line; - reads standard input.")
    ],
    policy: Annotated[str, typer.Option(metavar="NAME", help="The policy that decides.")] = "recent",
    seed: Annotated[int, typer.Option(help="Seed of the spread of waits.")] = 1,
    alarms: Annotated[
        bool, typer.Option("--alarms", help="Let the alarms that are set ring between the lines.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Tell the client's core a log of events, and print what it decides and why.

    Exit status 1: the log has instructions of another time, and others were given now.
    """
    import msgspec

    from cobblestone.client.event_log import fresh_core, play

    core = fresh_core(policy, seed=seed)
    core.validate = True
    different = 0
    for told in play(core, _lines(log), alarms=alarms):
        different += told.differs
        if json:
            typer.echo(msgspec.json.encode(told.plain).decode())
        else:
            typer.echo("\n".join(_round(told)))
    if not json:
        typer.echo("\n".join(_end(core)))
    if different:
        sys.stderr.write(f"in {different} rounds other instructions were given than the log has\n")
        raise typer.Exit(EXIT_DIFFERS)


def _lines(log: Path) -> Iterator[bytes]:
    if str(log) == "-":
        yield from sys.stdin.buffer
        return
    try:
        with log.open("rb") as stream:
            yield from stream
    except OSError as error:
        raise ConfigError(f"{log}: cannot be read ({error.strerror})") from error


def _round(told: Round) -> Iterator[str]:
    now = told.events[-1].now if told.events else 0.0
    yield f"{now:.12g} s: {', '.join(type(event).__name__ for event in told.events)}"
    for each in told.decided:
        yield f"  {_words(each)}"
    if told.differs:
        yield "  (the log has other instructions)"


def _words(each: Instruction) -> str:
    """Return an instruction and its reasons."""
    from cobblestone.policy.client.core.instructions import ContactProject, GiveUp, SetAlarm, StartTask
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
    """Return why each job and project is as it is when the log is at its end."""
    from cobblestone.policy.client.core.reasons import sentence

    yield f"in the end, {core.state.now:.12g} s:"
    for job in (*core.state.jobs, *core.state.finished):
        yield f"  {job.id} {job.phase}: {'; '.join(map(sentence, core.why_job(job.id)))}"
    for project in core.state.projects:
        name = project.description.id
        yield f"  {name}: {'; '.join(map(sentence, core.why_project(name))) or 'nothing to say'}"
