"""Milestones: the first valid task, round amounts of credit, and years."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

SMALLEST_MILESTONE = 1_000
LARGEST_MILESTONE = 10**18


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """A milestone of credit, the first valid task, or a number of years, and when it was reached."""

    credit: int = 0  #: 0: the first valid task, if no years are given
    years: int = 0
    time: float  #: Unix seconds


def milestones_between(before: float, after: float) -> list[int]:
    """Return the powers of ten from `SMALLEST_MILESTONE` on that a total passed on its way up."""
    found: list[int] = []
    milestone = SMALLEST_MILESTONE
    while milestone <= min(after, LARGEST_MILESTONE):
        if before < milestone:
            found.append(milestone)
        milestone *= 10
    return found


def anniversaries(created: float, *, now: float) -> list[Reached]:
    """Return the years since ``created`` (Unix seconds) that are over; who came on 29 February has them on 1 March."""
    first = datetime.fromtimestamp(created, UTC)
    found: list[Reached] = []
    for years in range(1, 200):
        try:
            day = first.replace(year=first.year + years)
        except ValueError:
            day = first.replace(year=first.year + years, month=3, day=1)
        if day.timestamp() > now:
            break
        found.append(Reached(years=years, time=day.timestamp()))
    return found


def shown(reached: Iterable[Reached], *, total: float, created: float, now: float) -> list[Reached]:
    """Return all milestones, the newest first.  Amounts that corrections took back are left out."""
    still = [item for item in reached if item.credit <= total]
    return sorted((*still, *anniversaries(created, now=now)), key=lambda item: item.time, reverse=True)
