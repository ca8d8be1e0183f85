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


class Flow(Protocol):
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


class Steps(Protocol):
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


class FluidModels(NamedTuple):
    """Today's form and that of 2007."""

    flow: Flow
    steps: Steps


#: The policy's own functions.
PURE = FluidModels(simulate_round_robin, simulate_round_robin_2007)
