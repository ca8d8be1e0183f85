"""Compiled twins of the two round-robin simulations, for sweeps of thousands of runs (needs the extra ``lab``).

They repeat ``cobblestone.policy.client.published.round_robin`` operation by operation; a property test proves them equal to the
last bit, so that no result depends on whether they are there.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from importlib import import_module
from itertools import chain
from typing import Any

from cobblestone.policy.client.published.round_robin import (
    PURE,
    ProjectQueue,
    RoundRobinBackends,
    RoundRobinOutcome,
)

try:
    kernel: Any = import_module("cobblestone.simulator.kernel.round_robin")  # Any: Numba has no types
except ImportError:
    kernel = None


def load_compiled() -> RoundRobinBackends:
    """Return the compiled twins, or the pure functions where the extra is not installed."""
    return PURE if kernel is None else RoundRobinBackends(_simulate, _simulate_2007)


def _simulate(
    queues: Sequence[ProjectQueue],
    now: float,
    ncpus: int,
    cpu_fraction: float,
    buffer_seconds: float,
    total_share: float,
) -> RoundRobinOutcome:
    """Twin of ``simulate_round_robin``."""
    count = len(queues)
    flat: list[float] = []
    remaining: list[float] = []
    cutoffs: list[float] = []
    shares: list[float] = []
    for share, left, deadlines in queues:
        flat.append(len(left))
        shares.append(share)
        remaining += left
        cutoffs += deadlines
    values = array("d", flat + shares + remaining + cutoffs)
    fraction = min(1.0, max(0.01, cpu_fraction))
    found = kernel.flow(
        kernel.numpy.frombuffer(values),
        count,
        float(now),
        ncpus,
        fraction,
        float(buffer_seconds),
        float(total_share),
    )
    return _outcome(count, found)


def _simulate_2007(
    queue: Sequence[tuple[int, float, float]],
    now: float,
    ncpus: int,
    cpu_fraction: float,
    buffer_seconds: float,
    shares: Sequence[float],
) -> RoundRobinOutcome:
    """Twin of ``simulate_round_robin_2007``."""
    values = array("d", shares)
    values.extend(chain.from_iterable(queue))
    fraction = min(1.0, max(0.01, cpu_fraction))
    found = kernel.steps(
        kernel.numpy.frombuffer(values), len(shares), float(now), ncpus, fraction, float(buffer_seconds)
    )
    return _outcome(len(shares), found)


def _outcome(count: int, found: Any) -> RoundRobinOutcome:  # Any: an array
    values = found.tolist()
    misses = [int(each) for each in values[2 * count : 3 * count]]
    return RoundRobinOutcome(misses, values[:count], values[-2], values[count : 2 * count], values[-1])
