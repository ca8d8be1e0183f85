"""Mean and 95 % interval over replicates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

#: Two-sided 97.5 % quantiles of Student's distribution for 1 ... 30 degrees of freedom.
_STUDENT = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its 95 % interval (mean plus or minus ``half_width``)."""

    mean: float
    half_width: float
    count: int

    def __str__(self) -> str:
        return f"{self.mean:.3f} ±{self.half_width:.3f}" if self.count > 1 else f"{self.mean:.3f}"


def estimate(values: Sequence[float]) -> Estimate:
    """Return mean and interval; a single value has no interval (half width 0)."""
    count = len(values)
    if count == 0:
        return Estimate(math.nan, 0.0, 0)
    mean = math.fsum(values) / count
    if count == 1:
        return Estimate(mean, 0.0, 1)
    variance = math.fsum((v - mean) ** 2 for v in values) / (count - 1)
    quantile = _STUDENT[count - 2] if count - 2 < len(_STUDENT) else 1.96
    return Estimate(mean, quantile * math.sqrt(variance / count), count)
