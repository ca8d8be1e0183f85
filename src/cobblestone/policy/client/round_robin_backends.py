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


class RunningJob(NamedTuple):
    """A job that runs, as needed to tell what it will need later."""

    position: int  #: in the queue
    done: float  #: seconds
    estimate: float  #: of the whole job, corrected
    size: float  #: its true size


class ComingSimulations(Protocol):
    """As ``simulate_round_robin_2007`` at the end of some of the next polls, number ``first`` and those after it, if nothing
    happens until then; ``cpu_fractions``: the processor efficiency at each of them.
    """

    def __call__(
        self,
        queue: Sequence[tuple[int, float, float]],
        running: Sequence[RunningJob],
        *,
        now: float,
        poll_seconds: float,
        first: int,
        ncpus: int,
        cpu_fractions: Sequence[float],
        buffer_seconds: float,
        shares: Sequence[float],
    ) -> list[RoundRobinOutcome]: ...


class RoundRobinBackends(NamedTuple):
    """Today's form and that of 2007, and the latter for many polls at once, where there is a faster way than one by one."""

    queues: QueueSimulation
    steps: StepSimulation
    coming: ComingSimulations | None = None


#: The policy's own functions.
PURE = RoundRobinBackends(simulate_round_robin, simulate_round_robin_2007)
