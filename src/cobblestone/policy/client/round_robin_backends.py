"""The two forms of the round-robin simulation, so that a sweep can put compiled twins in their place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from cobblestone.policy.client.round_robin import (
    ProjectQueue,
    RoundRobinOutcome,
    simulate_round_robin,
    simulate_round_robin_2007,
)


class QueueSimulation(Protocol):
    """As ``simulate_round_robin``."""

    def __call__(
        self,
        queues: Sequence[ProjectQueue],
        *,
        now: float,
        ncpus: int,
        cpu_fraction: float,
        buffer_seconds: float,
        total_share: float,
    ) -> RoundRobinOutcome: ...


class StepSimulation(Protocol):
    """As ``simulate_round_robin_2007``."""

    def __call__(
        self,
        queue: Sequence[tuple[int, float, float]],
        *,
        now: float,
        ncpus: int,
        cpu_fraction: float,
        buffer_seconds: float,
        shares: Sequence[float],
    ) -> RoundRobinOutcome: ...


class RoundRobinBackends(NamedTuple):
    """Today's form and that of 2007."""

    queues: QueueSimulation
    steps: StepSimulation


#: The policy's own functions.
PURE = RoundRobinBackends(simulate_round_robin, simulate_round_robin_2007)
