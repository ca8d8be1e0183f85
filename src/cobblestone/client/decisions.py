"""The core of decisions, its memory, and the log of all that it was told.

Every event is appended to the log in the same transaction as the facts that it tells; from time to time the core's whole
state is stored besides.  After a kill the stored state and the events behind it give the same core again.  The log replayed in
a fresh core (see ``event_log``) gives the same decisions one by one.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import msgspec

from cobblestone.client.event_log import fresh_core, plain_instructions, read_events
from cobblestone.client.state import State
from cobblestone.domain.errors import CobblestoneError
from cobblestone.policy.client.core.events import Event
from cobblestone.policy.client.core.instructions import Instruction
from cobblestone.policy.client.core.machine import ClientCore, Refusal
from cobblestone.policy.client.core.plain import event_to_plain, to_plain
from cobblestone.policy.client.core.reasons import Why, sentence

SNAPSHOT_AFTER = 1000
"""Events after which the core's state is stored anew."""
_DELIMITER = "|"


def job_id(project: str, name: str) -> str:
    """Return a job's identity for the core."""
    return f"{project}{_DELIMITER}{name}"


def job_place(identity: str) -> tuple[str, str]:
    """Project and name of a job; names hold no delimiter that comes last."""
    project, _, name = identity.rpartition(_DELIMITER)
    return project, name


class Decisions:
    """Tells the core what happens, and remembers it."""

    def __init__(self, state: State, *, policy: str, seed: int) -> None:
        """Go on with the stored core, or begin anew where there is none that this program can read.

        Raises:
            ConfigError: there is no such policy.
        """
        self._state = state
        self._seed = seed
        self.forgotten = ""  #: why what was stored is of no use
        self.restored = False
        if (stored := state.note("core", dict[str, Any])) is not None:
            try:
                self._restore(stored, policy)
                self.restored = True
            except (CobblestoneError, LookupError, TypeError, ValueError) as error:
                # Another version's, as after an upgrade or its undoing: the daemon tells a new core all projects and jobs.
                self.forgotten = str(error)
        if not self.restored:
            self._seed = seed
            self.core = fresh_core(policy, seed=seed)
            state.clear_events()
            state.keep("seed", seed)
        self._untold = 0

    def _restore(self, stored: dict[str, Any], policy: str) -> None:
        self._seed = int(stored["seed"])
        self.core = ClientCore.restore(stored["core"], rng=random.Random(self._seed), policy=policy)
        for _, body in self._state.events_since(int(stored["event"])):
            self.core.handle(*read_events(body))

    def tell(self, *events: Event, refused: list[Refusal]) -> list[Instruction]:
        """Tell the core what has happened; what is to be done.  What cannot have happened is added to ``refused``."""
        before = len(refused)
        instructions = self.core.handle(*events, refused=refused)
        wrong = {id(event) for event, _ in refused[before:]}
        entry = {
            "events": [event_to_plain(event) for event in events if id(event) not in wrong],
            "instructions": plain_instructions(instructions),
        }
        self._state.add_event(msgspec.json.encode(entry))
        self._untold += 1
        if self._untold >= SNAPSHOT_AFTER:
            self.store()
        return instructions

    def store(self) -> None:
        """Store the core's whole state with the next flush."""
        self._state.keep_core({"seed": self._seed, "core": self.core.snapshot()})
        self._state.trim_events()
        self._untold = 0


def reasons_as_data(reasons: Sequence[Why]) -> list[dict[str, Any]]:
    """Reasons for JSON: code, values and sentence."""
    return [
        {"code": each.code, "values": to_plain(each.values), "sentence": sentence(each)} for each in reasons
    ]
