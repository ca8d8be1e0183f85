"""How fast this computer's network is, from transfers that have ended.

Source: BOINC's ``net_stats``: the highest rate moves towards each transfer's by ``ln(bytes) / 500``, so that large files count
more; the average is bytes a day, with a half-life of a week.
"""

from __future__ import annotations

import math

from cobblestone.domain.statistics import RecentAverage
from cobblestone.domain.values import value
from cobblestone.policy.credit.rac import update_average

HALF_LIFE = 7 * 86400.0


@value(kw_only=True)
class TransferRate:
    """One direction: bytes per second, and the average behind it."""

    highest: float = 0.0
    average: float = 0.0  #: bytes a day
    average_at: float = 0.0  #: Unix seconds


def after_transfer(rate: TransferRate, *, nbytes: float, started: float, now: float) -> TransferRate:
    """Return the rate after ``nbytes`` have been moved since ``started``."""
    seconds = now - started
    if nbytes <= 1.0 or seconds <= 0.0:
        return rate
    weight = min(1.0, math.log(nbytes) / 500.0) if rate.highest else 1.0
    average = update_average(
        RecentAverage(rate.average, rate.average_at),
        credit=nbytes,
        work_start=started,
        now=now,
        half_life=HALF_LIFE,
    )
    return TransferRate(
        highest=weight * nbytes / seconds + (1.0 - weight) * rate.highest,
        average=average.value,
        average_at=average.time,
    )
