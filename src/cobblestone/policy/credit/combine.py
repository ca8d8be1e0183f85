"""How the claims of several replicas become one amount.

All functions take finite, non-negative claims and return a figure between the smallest and the largest of
them; of no claims they make 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cobblestone.domain.sums import float_sum

Combination = Callable[[Sequence[float]], float]

INFINITESIMAL = 0.001
"""Claims below this are not counted when extremes are dropped (``CREDIT_EPSILON`` of the first
validators)."""

PEG_WIDTH = 0.1

FAR_APART = 10.0
"""Claims for one job that differ by more than this factor do not enter a mean together."""


def mean(claims: Sequence[float]) -> float:
    """Return the plain average."""
    return float_sum(claims) / len(claims) if claims else 0.0


def guarded_mean(claims: Sequence[float]) -> float:
    """Return the plain average; where one claim is more than `FAR_APART` times another, the smaller of two, the median of more.

    Of an even number the lower of the two in the middle.  So nobody gains by a claim that its partners do not bear out.
    """
    if len(claims) > 1 and max(claims) > FAR_APART * min(claims):
        return sorted(claims)[(len(claims) - 1) // 2]
    return mean(claims)


def minimum(claims: Sequence[float]) -> float:
    """Return the smallest claim: nobody gains by claiming too much."""
    return min(claims, default=0.0)


def without_extremes(claims: Sequence[float]) -> float:
    """Return the mean without the lowest and the highest; of two the lower, of one itself.

    Source: BOINC's first validators (``sched/validate_util``, median-mean credit).
    """
    counted = sorted(claim for claim in claims if claim >= INFINITESIMAL)
    if len(counted) <= 2:
        return counted[0] if counted else 0.0
    return mean(counted[1:-1])


LEAST_DISTANCE = 1e-300


def low_average(claims: Sequence[float]) -> float:
    """Return the mean in which each claim weighs as much as the sum of the others: high ones count less.

    Sum of x (S - x) over (n - 1) S with S the sum; source: ``sched/credit.cpp``, credit from run time.
    """
    if len(claims) <= 1:
        return mean(claims)
    total = float_sum(claims)
    if total <= 0.0:
        return 0.0
    # divided first: squares of large claims would overflow
    return float_sum(claim * ((total - claim) / total) for claim in claims) / (len(claims) - 1)


def pegged_average(claims: Sequence[float], peg: float) -> float:
    """Return the mean in which a claim weighs less the farther it is from ``peg``, the a-priori figure.

    Weights 1 / (0.1 peg + |peg - x|); a single claim is itself.  Source: ``sched/credit.cpp``.
    """
    if len(claims) <= 1:
        return mean(claims)
    weights = total = 0.0
    for claim in claims:
        distance = PEG_WIDTH * peg + abs(peg - claim)
        if distance < LEAST_DISTANCE:  # peg 0, claim 0, or as good as that: its weight would be infinite
            return claim
        weight = 1.0 / distance
        weights += weight
        total += weight * claim
    return total / weights


COMBINATIONS: dict[str, Combination] = {
    "mean": guarded_mean,
    "minimum": minimum,
    "drop-extremes": without_extremes,
}
"""The ways of the first and second system, by the name that follows the colon in a system's name."""
