"""Intervals of a ratio of sums over people, by drawing people with replacement.

Source: B. Efron, *Bootstrap methods: another look at the jackknife* (1979); percentile intervals.
"""

from __future__ import annotations

from typing import Any

import numpy as np

REPLICATES = 1000


def ratio_interval(above: Any, below: Any, rng: Any, *, level: float = 0.95) -> tuple[float, float]:
    """Return the interval of sum(above) / sum(below) over people; both are arrays with an entry per person."""
    if not below.sum() > 0.0:
        return float("nan"), float("nan")
    drawn = rng.multinomial(above.size, np.full(above.size, 1.0 / above.size), REPLICATES)
    sums = drawn @ below
    ratios = np.divide(drawn @ above, sums, out=np.full(REPLICATES, np.nan), where=sums > 0.0)
    low, high = np.nanquantile(ratios, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return float(low), float(high)
