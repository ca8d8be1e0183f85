"""When totals of credit will pass each other or a round amount, if everybody goes on at the recent average."""

from __future__ import annotations

import math

from cobblestone.policy.credit.milestones import LARGEST_MILESTONE, SMALLEST_MILESTONE

FARTHEST_DAYS = 3653.0
"""What is further away than ten years is not foretold."""


def days_until_overtaken(behind: float, behind_rate: float, ahead: float, ahead_rate: float) -> float | None:
    """Return after how many days the total ``behind`` passes the total ``ahead``; None: never, or too far away.

    Rates are credit per day, taken as constant.
    """
    return _days(ahead - behind, behind_rate - ahead_rate)


def next_milestone(total: float, rate: float) -> tuple[int, float | None]:
    """Return the next power of ten, and after how many days it is reached (as above)."""
    amount = SMALLEST_MILESTONE
    while amount <= total and amount < LARGEST_MILESTONE:
        amount *= 10
    return amount, _days(amount - total, rate)


def _days(distance: float, rate: float) -> float | None:
    if distance < 0 or rate <= 0:
        return None
    days = distance / rate
    return days if math.isfinite(days) and days <= FARTHEST_DAYS else None
