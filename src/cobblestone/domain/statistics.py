"""Averages as values: recent average (RAC and the like) and credit totals."""

from __future__ import annotations

from dataclasses import dataclass

SECONDS_PER_DAY = 86400.0


@dataclass(frozen=True, slots=True)
class RecentAverage:
    """An exponentially decaying rate, in units per day, as it stood at ``time`` (Unix seconds; 0 = never updated)."""

    value: float = 0.0
    time: float = 0.0


@dataclass(frozen=True, slots=True)
class CreditStatement:
    """Total and recent average credit of a host, user, team or app version."""

    total: float = 0.0
    recent: RecentAverage = RecentAverage()
