"""The two round-robin simulations in compiled form, for sweeps of thousands of runs (needs the extra ``lab``).

It is the text of ``cobblestone.policy.client.published.round_robin``; a property test proves the results equal to the last bit,
so that none depends on whether it is there.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from importlib import import_module
from itertools import accumulate
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
    ends = list(accumulate([len(each.remaining) for each in queues]))
    values = array("d", [each.share for each in queues])
    for each in queues:
        values.extend(each.remaining)
    for each in queues:
        values.extend(each.cutoffs)
    numbers, count, jobs = kernel.numpy.frombuffer(values), len(queues), ends[-1] if ends else 0
    fraction = min(1.0, max(0.01, cpu_fraction))
    found = kernel.run_down(
        numbers[:count],
        kernel.numpy.array(ends, "i8"),
        numbers[count : count + jobs],
        numbers[count + jobs :],
        float(now),
        ncpus,
        fraction,
        float(buffer_seconds),
        float(total_share),
    )
    return _with_lists(found)


def _simulate_2007(
    queue: Sequence[tuple[int, float, float]],
    now: float,
    ncpus: int,
    cpu_fraction: float,
    buffer_seconds: float,
    shares: Sequence[float],
) -> RoundRobinOutcome:
    """Twin of ``simulate_round_robin_2007``."""
    owners, sizes, cutoffs = kernel.numpy.array(queue, "f8").reshape(len(queue), 3).T.copy()
    fraction = min(1.0, max(0.01, cpu_fraction))
    found = kernel.run_down_2007(
        owners.astype("i8"),
        sizes,
        cutoffs,
        float(now),
        ncpus,
        fraction,
        float(buffer_seconds),
        kernel.numpy.array(shares, "f8"),
    )
    return _with_lists(found)


def _with_lists(found: Any) -> RoundRobinOutcome:  # Any: Numba has no types
    misses, shortfalls, shortfall, dry_after, idle_after = found
    return RoundRobinOutcome(misses.tolist(), shortfalls.tolist(), shortfall, dry_after.tolist(), idle_after)
