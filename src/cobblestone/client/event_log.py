"""Logs of events that are played to a fresh core: written by hand, or what a client has recorded.

One line of JSON is one round: an event, a list of events, or ``{"events": [...], "instructions": [...]}``, as the client's own
log has it.  The instructions, where there are any, are those of another time, and are compared.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from cobblestone.domain.errors import CobblestoneError, ConfigError
from cobblestone.policy.client.core.events import Event, TimePassed
from cobblestone.policy.client.core.instructions import Instruction
from cobblestone.policy.client.core.machine import ClientCore
from cobblestone.policy.client.core.plain import event_from_plain, event_to_plain, to_plain

MOST_ALARMS = 10_000
"""Alarms that ring between two lines; a log that lets more time pass than that is a slip of the pen."""
COMMENT = b"#"


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What the core was told at one time, and what it wanted then."""

    events: Sequence[Event]
    decided: Sequence[Instruction]
    recorded: list[Any] | None = None  #: instructions of another time, as the log has them

    @property
    def plain(self) -> dict[str, Any]:
        """The round as a line of a log."""
        return {
            "events": [event_to_plain(event) for event in self.events],
            "instructions": plain_instructions(self.decided),
        }

    @property
    def differs(self) -> bool:
        """Whether something else was decided then."""
        return self.recorded is not None and self.recorded != as_recorded(self.decided)


def plain_instructions(instructions: Sequence[Instruction]) -> list[dict[str, Any]]:
    """Return instructions as a log has them."""
    return [{"instruction": type(each).__name__, **to_plain(each)} for each in instructions]


def as_recorded(instructions: Sequence[Instruction]) -> list[Any]:
    """Return instructions as they are read from a log."""
    return msgspec.json.decode(msgspec.json.encode(plain_instructions(instructions)))


def read_events(body: bytes) -> Sequence[Event]:
    """Return the events of one line."""
    return _read(body)[0]


def _read(body: bytes) -> tuple[list[Event], list[Any] | None]:
    try:
        line = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"this is not JSON: {error}") from error
    events, recorded = line, None
    if isinstance(line, dict) and "event" not in line:
        entry = cast("dict[str, Any]", line)
        if not entry.keys() <= {"events", "instructions"}:
            raise ConfigError(
                'a line is an event, a list of events, or {"events": [...], "instructions": [...]}'
            )
        events, recorded = entry.get("events"), entry.get("instructions")
    listed = cast("list[Any]", events if isinstance(events, list) else [events])
    if not all(isinstance(each, dict) for each in listed):
        raise ConfigError('an event is an object such as {"event": "TimePassed", "now": 60}')
    if not (recorded is None or isinstance(recorded, list)):
        raise ConfigError('"instructions" is a list')
    return [event_from_plain(each) for each in listed], cast("list[Any] | None", recorded)


def fresh_core(policy: str, *, seed: int = 1) -> ClientCore:
    """Return a core that knows nothing.  Raises :class:`ConfigError` if there is no such policy."""
    return ClientCore.start(policy, rng=random.Random(seed))


def play(core: ClientCore, lines: Iterable[bytes], *, alarms: bool = False) -> Iterator[Round]:
    """Tell a core what a log says, line by line, and return what it wanted.

    ``alarms``: those that the core has set ring between two lines, for logs that leave `TimePassed` out.  Empty lines and those
    that begin with ``#`` are passed over.  Raises :class:`ConfigError` with the number of a line that cannot be read or cannot
    have happened.
    """
    begun = False
    for number, body in enumerate(lines, 1):
        if not body.strip() or body.lstrip().startswith(COMMENT):
            continue
        try:
            events, recorded = _read(body)
            if alarms and begun and events:
                yield from _ring(core, events[0].now)
            yield Round(events=events, decided=core.handle(*events), recorded=recorded)
        except CobblestoneError as error:
            raise ConfigError(f"line {number}: {error}") from error
        begun = True


def _ring(core: ClientCore, until: float) -> Iterator[Round]:
    for _ in range(MOST_ALARMS):
        if not core.state.alarm < until:  # so that a time that is none ends it, too
            return
        event = TimePassed(core.state.alarm)
        yield Round(events=[event], decided=core.handle(event))
    raise ConfigError(f"the alarm has rung {MOST_ALARMS} times since the line before; write lines in between")
