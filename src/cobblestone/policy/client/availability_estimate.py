"""What part of the time something holds, as today's clients estimate it: exponentially fading."""

from __future__ import annotations

from dataclasses import dataclass

from cobblestone.policy.client.availability import fade


@dataclass(slots=True)
class AvailabilityEstimate:
    """A fraction of time, up to date at ``since``; the condition has held from then on."""

    fraction: float = 1.0
    since: float = 0.0

    def at(self, now: float) -> float:
        """Return the fraction; the condition holds."""
        return 1.0 if self.fraction == 1.0 else fade(self.fraction, now - self.since, present=True)

    def gap(self, seconds: float, now: float) -> None:
        """Take note that it did not hold for some time until now."""
        on = self.at(now - seconds)
        self.fraction = fade(on, seconds, present=False)
        self.since = now
