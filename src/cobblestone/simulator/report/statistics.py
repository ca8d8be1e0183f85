"""Mean and 95 % interval over replicates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from cobblestone.domain.values import value

#: Two-sided 97.5 % quantiles of Student's distribution for 1 ... 30 degrees of freedom.
_STUDENT = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


@value()
class Estimate:
    """A mean with its 95 % interval (mean plus or minus ``half_width``)."""

    mean: float
    half_width: float
    count: int

    def __str__(self) -> str:
        return f"{self.mean:.3f} ±{self.half_width:.3f}" if self.count > 1 else f"{self.mean:.3f}"

    @property
    def not_above(self) -> Literal["yes", "no", "undecided"]:
        """Return whether the mean is at most 0; undecided if the interval allows both."""
        if self.mean + self.half_width <= 0.0:
            return "yes"
        return "no" if self.mean - self.half_width > 0.0 else "undecided"

    @property
    def may_be_nothing(self) -> bool:
        """Return whether a difference may be chance: its interval contains 0.  A single value says nothing about chance."""
        return self.count < 2 or 0.0 < self.half_width >= abs(self.mean)

    @property
    def count_to_decide(self) -> float:
        """Return how many values of this spread would distinguish the mean from 0; infinite if it is 0."""
        if self.count < 2 or self.mean == 0.0:
            return math.inf
        deviation = self.half_width * math.sqrt(self.count) / _quantile(self.count)
        ratio = deviation / abs(self.mean)
        if ratio > 1e3:  # a million and more
            return math.inf
        count = self.count
        while _quantile(count) * ratio >= math.sqrt(count):
            count += max(1, count // 10)
        return float(count)


def _quantile(count: int) -> float:
    return _STUDENT[count - 2] if count - 2 < len(_STUDENT) else 1.96


def estimate(values: Sequence[float]) -> Estimate:
    """Return mean and interval; a single value has no interval (half width 0)."""
    count = len(values)
    if count == 0:
        return Estimate(math.nan, 0.0, 0)
    mean = math.fsum(values) / count
    if count == 1:
        return Estimate(mean, 0.0, 1)
    variance = math.fsum((v - mean) ** 2 for v in values) / (count - 1)
    return Estimate(mean, _quantile(count) * math.sqrt(variance / count), count)


def paired(ours: Sequence[float], base: Sequence[float]) -> Estimate:
    """Return the excess of ``ours`` over ``base``, replicate by replicate, with the interval of these differences."""
    return estimate([mine - other for mine, other in zip(ours, base, strict=True)])
