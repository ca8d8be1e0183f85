"""How much of the time a simulated client believes its host to be available."""

from __future__ import annotations

from cobblestone.policy.client.availability import fade
from cobblestone.simulator.scenario import HostModel


class OnStatistics:
    """What today's statistics make of the host's comings and goings."""

    __slots__ = ("_fraction", "_since")

    def __init__(self) -> None:
        self._fraction = 1.0
        self._since = 0.0

    def at(self, now: float) -> float:
        """Return the fraction of time on; the host is on."""
        return fade(self._fraction, now - self._since, present=True)

    def gap(self, seconds: float, now: float) -> None:
        """The host was off for some time until now."""
        on = fade(self._fraction, now - seconds - self._since, present=True)
        self._fraction = fade(on, seconds, present=False)
        self._since = now


def fixed_belief(host: HostModel) -> float | None:
    """Return the fraction that the scenario makes the client believe in, None if it has to find out."""
    belief = host.believed_availability
    if isinstance(belief, float | int):
        return float(belief)
    return host.availability.part_on if belief == "true" else None
