"""The decision core, its memory, and the log of all its inputs, which can be replayed to a fresh core.

Logs of events that are played to a fresh core: written by hand, or what a client has recorded.

One line of JSON is one round: an event, a list of events, or ``{"events": [...], "instructions": [...]}``, as the client's own
log has it.  The instructions, where there are any, are those of another time, and are compared.

The core of decisions, its memory, and the log of all that it was told.

Every event is appended to the log in the same transaction as the facts that it tells; from time to time the core's whole
state is stored besides.  After a kill the stored state and the events behind it give the same core again.  The log replayed in
a fresh core (see ``event_log``) gives the same decisions one by one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import msgspec

from cobblestone.client.records.state import ClientDatabase
from cobblestone.domain.errors import CobblestoneError, ConfigError
from cobblestone.ops.policies import USUAL, fault, is_own, make_policy, watched
from cobblestone.policy.client.core import events as ev
from cobblestone.policy.client.core.machine import ClientCore, Refusal
from cobblestone.policy.client.core.reasons import Why, sentence

T = TypeVar("T")
#: Alarms that ring between two lines; a log that lets more time pass than that is a slip of the pen.
MOST_ALARMS = 10_000
COMMENT = b"#"


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """The core's inputs at one time, and its instructions."""

    events: Sequence[ev.Event]
    decided: Sequence[ev.Instruction]
    recorded: list[Any] | None = None  #: instructions of another time, as the log has them

    @property
    def plain(self) -> dict[str, Any]:
        """Return the round as a line of a log."""
        return {
            "events": [ev.event_to_plain(event) for event in self.events],
            "instructions": plain_instructions(self.decided),
        }

    @property
    def differs(self) -> bool:
        """Return whether the instructions differ."""
        return self.recorded is not None and self.recorded != as_recorded(self.decided)


def plain_instructions(instructions: Sequence[ev.Instruction]) -> list[dict[str, Any]]:
    """Return instructions in the form of a log."""
    return [{"instruction": type(each).__name__, **ev.to_plain(each)} for each in instructions]


def as_recorded(instructions: Sequence[ev.Instruction]) -> list[Any]:
    """Return instructions in the form read from a log."""
    return msgspec.json.decode(msgspec.json.encode(plain_instructions(instructions)))


def _read(body: bytes) -> tuple[list[ev.Event], list[Any] | None]:
    try:
        line = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"not valid JSON: {error}") from error
    events, recorded = line, None
    if isinstance(line, dict) and "event" not in line:
        entry = cast("dict[str, Any]", line)
        if not entry.keys() <= {"events", "instructions"}:
            raise ConfigError(
                'a line must be an event, a list of events, or {"events": [...], "instructions": [...]}'
            )
        events, recorded = entry.get("events"), entry.get("instructions")
    listed = cast("list[Any]", events if isinstance(events, list) else [events])
    if not all(isinstance(each, dict) for each in listed):
        raise ConfigError('an event must be an object such as {"event": "TimePassed", "now": 60}')
    if not (recorded is None or isinstance(recorded, list)):
        raise ConfigError('"instructions" must be a list')
    return [ev.event_from_plain(each) for each in listed], cast("list[Any] | None", recorded)


def fresh_core(policy: str, *, seed: int = 1) -> ClientCore:
    """Return a core without any state.  Raises :class:`ConfigError` if there is no such policy."""
    return ClientCore.start(policy, rng=random.Random(seed), make=make_policy)


def play(core: ClientCore, lines: Iterable[bytes], *, alarms: bool = False) -> Iterator[Round]:
    """Replay a log to a core, line by line, and return its instructions.

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
        event = ev.TimePassed(core.state.alarm)
        yield Round(events=[event], decided=core.handle(event))
    raise ConfigError(f"the alarm has rung {MOST_ALARMS} times since the previous line; add lines in between")


#: Seconds within which a volunteer's own policy must be ready: the events since the last snapshot are replayed to it.
START_SECONDS = 30.0
#: Events after which the core's state is stored again.
SNAPSHOT_AFTER = 1000
_DELIMITER = "|"


def job_id(project: str, name: str) -> str:
    """Return a job's identity for the core."""
    return f"{project}{_DELIMITER}{name}"


def job_place(identity: str) -> tuple[str, str]:
    """Return project and name of a job; names contain no delimiter that comes last."""
    project, _, name = identity.rpartition(_DELIMITER)
    return project, name


class CoreDriver:
    """Sends events to the core, and stores them."""

    def __init__(self, state: ClientDatabase, *, policy: str, seed: int) -> None:
        """Continue with the stored core, or start a new one if there is none that this program can read.

        Raises:
            ConfigError: there is no such policy; one of the volunteer's own is replaced by the usual one, see `fault`.
        """
        self._state = state
        self._untold = 0
        self._sound = b""  #: the core before the next round, where the policy is the volunteer's own
        self.fault = ""  #: why the volunteer's own policy does not decide
        try:
            watched(policy, lambda: self._begin(policy, seed), seconds=START_SECONDS)
        except (Exception, SystemExit) as error:
            if not is_own(policy):
                raise
            self.fault = fault(policy, error)
            self._begin(USUAL, seed)

    def _begin(self, policy: str, seed: int) -> None:
        self._seed = seed
        self.forgotten = ""  #: why what was stored is of no use
        self.restored = False
        make_policy(policy, random.Random(0))  # what is wrong with it is no fault of what was stored
        if (stored := self._state.note("core", dict[str, Any])) is not None:
            try:
                self._restore(stored, policy)
                self.restored = True
            except (CobblestoneError, LookupError, TypeError, ValueError) as error:
                # Another version's, as after an upgrade or its undoing: the daemon tells a new core all projects and jobs.
                self.forgotten = str(error)
        if not self.restored:
            self._seed = seed
            self.core = fresh_core(policy, seed=seed)
            self._state.clear_events()
            self._state.keep("seed", seed)
        self.policy = self.core.policy.name
        if is_own(policy):
            self.core.validate = True
            self._sound = msgspec.json.encode(self.core.snapshot())

    def _restore(self, stored: dict[str, Any], policy: str) -> None:
        self._seed = int(stored["seed"])
        self.core = self._core_of(stored["core"], policy)
        for _, body in self._state.events_since(int(stored["event"])):
            self.core.handle(*_read(body)[0])

    def _core_of(self, plain: dict[str, Any], policy: str) -> ClientCore:
        return ClientCore.restore(plain, rng=random.Random(self._seed), policy=policy, make=make_policy)

    def tell(self, *events: ev.Event, refused: list[Refusal]) -> list[ev.Instruction]:
        """Send events to the core and return its instructions.  Impossible events are added to ``refused``."""

        def handled(core: ClientCore) -> tuple[list[ev.Instruction], list[Refusal]]:
            wrong: list[Refusal] = []
            return core.handle(*events, refused=wrong), wrong

        instructions, found = self._decided(handled)
        refused += found
        wrong = {id(event) for event, _ in found}
        told = Round(events=[event for event in events if id(event) not in wrong], decided=instructions)
        self._state.add_event(msgspec.json.encode(told.plain))
        self._untold += 1
        if self._untold >= SNAPSHOT_AFTER:
            self.store()
        return instructions

    def in_force(self) -> list[ev.Instruction]:
        """Return what should be in progress."""
        return self._decided(ClientCore.instructions_in_force)

    def _decided(self, decide: Callable[[ClientCore], T]) -> T:
        """Return a decision.  Where the volunteer's own policy fails, the usual one takes its place, before the round began."""
        if not self._sound:
            return decide(self.core)
        core = self.core

        def by_own_policy() -> tuple[T, bytes]:
            return decide(core), msgspec.json.encode(core.snapshot())

        try:
            decision, self._sound = watched(self.policy, by_own_policy)
        except (Exception, SystemExit) as error:  # noqa: BLE001  # told by the loop; the client goes on
            self.fault = fault(self.policy, error)
            self.core, self._sound = self._core_of(msgspec.json.decode(self._sound), USUAL), b""
            self.policy = self.core.policy.name
            self.store()  # the log goes on from here
            return decide(self.core)
        return decision

    def snapshot(self) -> bytes:
        """Return everything that the core knows, as JSON."""
        return self._sound or msgspec.json.encode(self.core.snapshot())

    def store(self) -> None:
        """Store the core's whole state with the next flush."""
        self._state.keep_core({"seed": self._seed, "core": msgspec.Raw(self.snapshot())})
        self._state.trim_events()
        self._untold = 0


def in_words(reason: Why) -> str:
    """Return a reason as a sentence, in which a job has its name alone."""
    name = job_place(str(reason.values.get("job", "")))[1]
    return sentence(Why(reason.code, {**reason.values, "job": name}))


def reasons_as_data(reasons: Sequence[Why]) -> list[dict[str, Any]]:
    """Return reasons for JSON: code, values and sentence."""
    return [
        {"code": each.code, "values": ev.to_plain(each.values), "sentence": in_words(each)}
        for each in reasons
    ]
