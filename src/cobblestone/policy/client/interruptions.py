"""How long a computation takes on this host, with the times when it is off: mean and spread (CS3, WF3).

The fraction of time that a host computes says how long a job takes on average.  Whether a job will be in time
is a question of the spread as well: a host that is off for some minutes every hour is predictable, one that
is off for a weekend is not.  So the client keeps the number, the sum and the sum of squares of its off-times.

Model: off-times begin at random while the host computes (a Poisson process), so the wall time for ``c``
seconds of computing has the mean ``c (1 + r m)`` and the variance ``c r q``, where ``r`` is the number of
off-times per second of computing, ``m`` their mean and ``q`` the mean of their squares.  For exponential on-
and off-times this is exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

#: Seconds of computing after which an observation has lost all but 1/e of its weight.
MEMORY = 30 * 86400.0

#: After fewer off-times than this nobody knows what luck there may be.
FEW_GAPS = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Interruptions:
    """What the host has learned about its off-times; sums fade with :data:`MEMORY`."""

    on_seconds: float = 0.0
    gaps: float = 0.0
    gap_seconds: float = 0.0
    gap_squares: float = 0.0

    def after_gap(self, *, on_seconds: float, gap_seconds: float) -> Interruptions:
        """Return what is known after ``on_seconds`` of computing time and an off-time that followed it."""
        keep = math.exp(-max(0.0, on_seconds) / MEMORY)
        return Interruptions(
            on_seconds=self.on_seconds * keep + max(0.0, on_seconds),
            gaps=self.gaps * keep + 1.0,
            gap_seconds=self.gap_seconds * keep + gap_seconds,
            gap_squares=self.gap_squares * keep + gap_seconds * gap_seconds,
        )

    def wall_seconds(self, computing: float, *, deviations: float = 0.0) -> float:
        """Return the wall time for ``computing`` seconds, so many standard deviations above (or below) its mean.

        Never less than ``computing``.
        """
        on = self.on_seconds
        if on <= 0.0 or (deviations < 0.0 and self.gaps < FEW_GAPS):
            return computing
        wall = computing * (1.0 + self.gap_seconds / on)
        if deviations and computing > 0.0:
            wall += deviations * math.sqrt(computing * self.gap_squares / on)
        return wall if wall > computing else computing
