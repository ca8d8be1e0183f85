"""The health of the server: heartbeats of the daemons, and current warnings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from time import monotonic

import structlog

from cobblestone.domain.reasons import HealthWarning
from cobblestone.store.operation.processes import ProcessRow

log = structlog.get_logger(__name__)

#: A daemon that should have woken up so long ago is late.
LATE_SECONDS = 60.0
#: A step that takes longer hangs, if its daemon says nothing else.
STEP_LIMIT_SECONDS = 900.0


class DaemonHealth(StrEnum):
    """The health of a daemon."""

    RUNNING = "running"
    FAILING = "failing"  #: its last step ended with an error; it goes on trying
    STUCK = "stuck"  #: its step does not end, or it should have woken up long ago
    STOPPED = "not running"


@dataclass(slots=True)
class DaemonBeat:
    """The rounds of one daemon.  When the next is due is a time of the clock that nobody sets; others are Unix seconds."""

    name: str
    last_beat: float = 0.0  #: begin or end of the last step
    next_beat: float = 0.0  #: it wakes up by then at the latest; while a step runs: when that should be over
    steps: int = 0
    errors: int = 0
    last_error: str = ""  #: of the last step; empty: it went well
    stopped: bool = False
    step_limit: float = STEP_LIMIT_SECONDS  #: seconds

    def begin(self, now: float) -> None:
        """Note that a round starts."""
        self.last_beat, self.next_beat = now, monotonic() + self.step_limit

    def done(self, now: float) -> None:
        """Note that a step succeeded."""
        self.steps += 1
        self.last_error = ""
        self.begin(now)

    def failed(self, now: float, error: str) -> None:
        """Note that a step ended with an error."""
        self.errors += 1
        self.last_error = error[:300]
        self.begin(now)

    def sleeps(self, now: float, seconds: float) -> None:
        """Note that the round is over; the next one is in ``seconds`` at the latest."""
        self.last_beat, self.next_beat = now, monotonic() + seconds + LATE_SECONDS

    def health(self) -> DaemonHealth:
        """Return the daemon's health."""
        if self.stopped or not self.last_beat:
            return DaemonHealth.STOPPED
        if monotonic() > self.next_beat:
            return DaemonHealth.STUCK
        return DaemonHealth.FAILING if self.last_error else DaemonHealth.RUNNING


@dataclass(slots=True)
class Health:
    """The state of this process."""

    daemons: dict[str, DaemonBeat] = field(default_factory=dict[str, DaemonBeat])
    warnings: dict[str, HealthWarning] = field(default_factory=dict[str, HealthWarning])
    processes: tuple[ProcessRow, ...] = ()  #: all that were heard of, as of the last beat of this one
    draining: bool = False

    def daemon(self, name: str) -> DaemonBeat:
        """Return the beats of a daemon that this process runs."""
        return self.daemons.setdefault(name, DaemonBeat(name))

    def states(self) -> Mapping[str, DaemonHealth]:
        """Return the health of each daemon of this process."""
        return {name: beat.health() for name, beat in self.daemons.items()}

    def set_warnings(self, found: Sequence[HealthWarning], *, now: float) -> list[HealthWarning]:
        """Set the current warnings; log those that begin and end, and return those that begin."""
        new: list[HealthWarning] = []
        current: dict[str, HealthWarning] = {}
        for warning in found:
            known = self.warnings.get(warning.code)
            current[warning.code] = replace(warning, since=now if known is None else known.since)
            if known is None or (warning.severe and not known.severe):
                new.append(current[warning.code])
                (log.error if warning.severe else log.warning)(
                    "warning_begins", code=warning.code, text=warning.text
                )
        for code in self.warnings.keys() - current.keys():
            log.info("warning_ends", code=code)
        self.warnings = current
        return new
