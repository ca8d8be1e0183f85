"""Projected speed of a version on a host, and how long a job takes there."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedPopulation:
    """Percentiles of the CPU speed of active hosts, in FLOPS of one CPU; the defaults hold for an unknown population."""

    median: float = 3.3e9
    percentile_95: float = 3.3e9


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakFlopCount:
    """Running mean of (peak FLOP count / ``rsc_fpops_est``) over all hosts of one app version."""

    n: int = 0
    avg: float = 0.0
