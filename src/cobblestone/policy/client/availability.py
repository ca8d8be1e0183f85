"""How much of the time the host computes: exponentially fading fractions of time.

Source: BOINC's ``time_stats``.  The fractions forget with a time constant of ten days.  ``on_frac`` is a part of all time, the
others are parts of the time that the client runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from cobblestone.domain.values import value

TIME_CONSTANT = 10 * 86400.0
#: Time off that is longer than this is taken for a wrong clock and changes nothing.
ABSURD_GAP = 14 * 86400.0


@value(kw_only=True)
class HostTimes:
    """The fractions; ``connected_frac`` is None where the system cannot tell."""

    on_frac: float = 1.0
    active_frac: float = 1.0  #: computing was allowed
    gpu_active_frac: float = 1.0  #: ... on GPUs, too
    connected_frac: float | None = None
    cpu_and_network_frac: float = 1.0  #: computing and the network were allowed, and there was a network


def fade(fraction: float, seconds: float, *, present: bool) -> float:
    """Return a fraction after ``seconds`` during which its condition held (``present``) or not."""
    if seconds <= 0.0:
        return fraction
    keep = math.exp(-seconds / TIME_CONSTANT)
    return 1.0 - (1.0 - fraction) * keep if present else fraction * keep


@dataclass(slots=True)
class AvailabilityEstimate:
    """A fraction of time, up to date at ``since``; nothing has changed from then on."""

    fraction: float = 1.0
    since: float = 0.0

    def at(self, now: float, *, holds: bool = True) -> float:
        """Return the fraction; the condition holds, or does not, since ``since``."""
        if holds and self.fraction == 1.0:
            return 1.0
        return fade(self.fraction, now - self.since, present=holds)

    def gap(self, seconds: float, now: float) -> None:
        """Take note that it did not hold for some time until now, and held before."""
        on = self.at(now - seconds)
        self.fraction = on if seconds > ABSURD_GAP else fade(on, seconds, present=False)
        self.since = now

    def turn(self, now: float, *, held: bool) -> None:
        """Take note that the condition has changed now."""
        self.fraction, self.since = self.at(now, holds=held), now
