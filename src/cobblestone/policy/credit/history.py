"""Credit per day and the recent average at each day's end, from entries of the ledger.

The averages are not samples of what some row held: every entry goes through `update_average` (corrections through
`correct_average`), as it did when it was granted, and each day ends with the decay to its end.  So the three curves
that volunteers know come out by themselves: no new credit is pure decay, half in a week; less than the average decays
towards the new rate; more grows towards it.

Known difference to the stored averages: the daily statistics task brings resting ones up to date at some moment of the day,
here it is at midnight UTC.  A first entry after a rest of days may differ by up to 5 % for that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cobblestone.domain.statistics import SECONDS_PER_DAY, RecentAverage
from cobblestone.policy.credit.rac import correct_average, decayed, idle_decayed, update_average

WARM_UP_DAYS = 42
"""Days to be read before the first one of interest: of what was earned earlier, 2 % are left by then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerMark:
    """An entry of the ledger, or the sum of several that followed each other closely."""

    time: float  #: Unix seconds
    granted: float  #: may be negative
    work_start: float
    n_results: int = 1  #: granted here for the first time
    granted_time: float | None = None  #: a correction: when the grant was that it corrects


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditDay:
    """Credit of one day."""

    day: int  #: days since 1970, UTC
    granted: float
    n_results: int
    average: float  #: recent average at its end, or now if it has not ended; credit per day


def day_of(time: float) -> int:
    """Return the number of the day of a Unix time, UTC."""
    return math.floor(time / SECONDS_PER_DAY)


def credit_history(
    marks: Sequence[LedgerMark], *, created: float, first_day: int, now: float
) -> list[CreditDay]:
    """Days from ``first_day`` until today, without a gap, of an owner that exists since ``created`` (Unix seconds).

    ``marks`` are in the order of the ledger and begin `WARM_UP_DAYS` before ``first_day``.  Where the clock once went back
    or ahead, entries count for the day that the ledger had reached, at most for today.  Entries from before the creation
    (they came from a row that was merged into this one) begin with the rule for the first sample.
    """
    today = day_of(now)
    day = max(first_day - WARM_UP_DAYS, day_of(created))
    average = RecentAverage(0.0, max(created, day * SECONDS_PER_DAY))
    if marks and marks[0].time < average.time:
        day, average = day_of(marks[0].time), RecentAverage()
    day = min(day, today)
    found: list[CreditDay] = []
    granted, n_results = 0.0, 0

    def close_day() -> None:
        nonlocal average, day, granted, n_results
        end = min((day + 1) * SECONDS_PER_DAY, now)
        average = idle_decayed(average, now=end) or average
        if day >= first_day:
            found.append(
                CreditDay(day=day, granted=granted, n_results=n_results, average=decayed(average, end))
            )
        day, granted, n_results = day + 1, 0.0, 0

    for mark in marks:
        while day < min(day_of(mark.time), today):
            close_day()
        average = with_mark(average, mark)
        granted += mark.granted
        n_results += mark.n_results
    while day <= today:
        close_day()
    empty = range(first_day, found[0].day if found else first_day)
    return [CreditDay(day=number, granted=0.0, n_results=0, average=0.0) for number in empty] + found


def with_mark(average: RecentAverage, mark: LedgerMark) -> RecentAverage:
    """Take an entry into an average, as it was when it was granted."""
    if mark.granted_time is None:
        return update_average(average, credit=mark.granted, work_start=mark.work_start, now=mark.time)
    return correct_average(average, credit=mark.granted, granted_time=mark.granted_time, now=mark.time)
