"""Sums of days as bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cobblestone.account_manager.store.ledger import DayOf
from cobblestone.domain.statistics import SECONDS_PER_DAY
from cobblestone.service.pages.wording import day

DAYS = 30
WIDTH, HEIGHT, TOP, BOTTOM = 420.0, 150.0, 8.0, 132.0


@dataclass(frozen=True, slots=True)
class DayBar:
    """What was counted on a day, drawn in ``WIDTH`` x ``HEIGHT`` units."""

    date: str
    credit: float
    jobs: float
    x: float
    y: float
    width: float
    height: float


def day_bars(days: Sequence[DayOf], *, today: int) -> tuple[DayBar, ...]:
    """Draw the last month, today at the right; nothing if nothing was counted."""
    by_day = {each.day: each.amounts for each in days}
    most = max((each.amounts.credit for each in days), default=0.0)
    if most <= 0:
        return ()
    step = WIDTH / DAYS
    bars: list[DayBar] = []
    for place, number in enumerate(range(today - DAYS + 1, today + 1)):
        amounts = by_day.get(number)
        credit = amounts.credit if amounts else 0.0
        height = (BOTTOM - TOP) * credit / most
        bars.append(
            DayBar(
                date=day(number * SECONDS_PER_DAY),
                credit=credit,
                jobs=amounts.njobs_success + amounts.njobs_error if amounts else 0.0,
                x=round(place * step + step * 0.15, 1),
                y=round(BOTTOM - height, 1),
                width=round(step * 0.7, 1),
                height=round(height, 1),
            )
        )
    return tuple(bars)
