"""Credit since the first day: a row per day with credit, of which old ones become weeks and then spans of four weeks.

A row holds what was granted in its days, what there was in all at its end, and the recent average as the last entry left it.  The
average at any moment until the next row follows by decay, so days without credit need no row.  A person who earns every day
for ten years has some 670 rows: 400 days, 208 weeks, and 13 more for each further year.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from cobblestone.domain.statistics import SECONDS_PER_DAY, RecentAverage
from cobblestone.domain.sums import float_sum
from cobblestone.policy.credit.history import LedgerMark, day_of, with_mark
from cobblestone.policy.credit.milestones import Reached, milestones_between
from cobblestone.policy.credit.rac import decayed, idle_decayed

DAYS_KEPT = 400
"""Younger rows stay days."""
WEEKS_KEPT = 5 * 52 * 7
"""Days after which weeks become spans of four."""
WEEK, FOUR_WEEKS = 7, 28
_MONDAY = 4  # the day of 5 January 1970: weeks and spans of four begin on Mondays


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditPeriod:
    """Credit of one owner in some days."""

    day: int  #: the first one, days since 1970 (UTC)
    n_days: int = 1
    granted: float = 0.0
    n_results: int = 0  #: granted here for the first time
    total: float = 0.0  #: of all entries until its end
    total_results: int = 0
    recent: RecentAverage = RecentAverage()  #: as the last entry left it

    @property
    def end(self) -> float:
        """When it ends, Unix seconds."""
        return (self.day + self.n_days) * SECONDS_PER_DAY


def continued(
    last: CreditPeriod | None, marks: Iterable[LedgerMark], *, created: float
) -> tuple[list[CreditPeriod], list[Reached]]:
    """Go on from an owner's last row with further entries of the ledger; rows to be written and milestones that were reached.

    ``created``: when the owner began to exist (Unix seconds), where the average is 0.  Where the clock went back, entries count
    for the day that the ledger had reached.
    """
    if last is None:
        last = CreditPeriod(day=-1, n_days=0, recent=RecentAverage(0.0, created))
    current, changed, reached = last, list[CreditPeriod](), list[Reached]()
    for mark in marks:
        day = max(day_of(mark.time), current.day)
        if day != current.day:
            if current is not last:
                changed.append(current)
            current = replace(current, day=day, n_days=1, granted=0.0, n_results=0)
        total = max(0.0, current.total + mark.granted)
        if mark.n_results and not current.total_results:
            reached.append(Reached(time=mark.time))
        reached += [
            Reached(credit=milestone, time=mark.time)
            for milestone in milestones_between(current.total, total)
        ]
        rested = idle_decayed(current.recent, now=mark.time - mark.time % SECONDS_PER_DAY) or current.recent
        current = replace(
            current,
            granted=current.granted + mark.granted,
            n_results=current.n_results + mark.n_results,
            total=total,
            total_results=current.total_results + mark.n_results,
            recent=with_mark(rested, mark),
        )
    return ([*changed, current] if current is not last else changed), reached


def thinned(periods: Sequence[CreditPeriod], *, n_days: int) -> list[CreditPeriod]:
    """Join rows of one owner, in their order, to spans of `WEEK` or `FOUR_WEEKS` days; all rows of a span must be given."""
    found: list[CreditPeriod] = []
    for period in periods:
        first = first_day(period.day, n_days)
        before = found.pop() if found and found[-1].day == first else CreditPeriod(day=first)
        found.append(
            replace(
                period,
                day=first,
                n_days=n_days,
                granted=before.granted + period.granted,
                n_results=before.n_results + period.n_results,
            )
        )
    return found


def first_day(day: int, n_days: int) -> int:
    """Return the first day of the span of ``n_days`` that a day is in."""
    return day - (day - _MONDAY) % n_days


def together(series: Iterable[Sequence[CreditPeriod]]) -> list[CreditPeriod]:
    """Add up the rows of several owners who became one: amounts and averages are sums, on each day that any of them has."""
    rows = [list(each) for each in series if each]
    if len(rows) <= 1:
        return rows[0] if rows else []
    found: list[CreditPeriod] = []
    latest: list[CreditPeriod | None] = [None] * len(rows)
    for day in sorted({period.day for each in rows for period in each}):
        here: list[CreditPeriod] = []
        for place, each in enumerate(rows):
            if each and each[0].day == day:
                latest[place] = each.pop(0)
                here.append(latest[place] or each[0])
        known = [period for period in latest if period is not None]
        now = max(period.recent.time for period in known)
        found.append(
            CreditPeriod(
                day=day,
                n_days=max(period.n_days for period in here),
                granted=float_sum(period.granted for period in here),
                n_results=sum(period.n_results for period in here),
                total=float_sum(period.total for period in known),
                total_results=sum(period.total_results for period in known),
                recent=RecentAverage(float_sum(decayed(period.recent, now) for period in known), now),
            )
        )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A part of a drawing: some days with what was granted in them."""

    day: int  #: the first one, days since 1970 (UTC)
    granted: float  #: a day, on average
    n_results: float
    average: float  #: recent average at its end, or now if it has not ended


def slot_days(n_days: int, most: int = 60) -> int:
    """Return into spans of how many days a time is divided, so that there are at most so many of them."""
    return next((step for step in (1, 7, 28, 91, 364) if n_days <= step * most), -(-n_days // most))


def slots(rows: Sequence[CreditPeriod], *, step: int, now: float) -> list[Slot]:
    """Divide an owner's rows (in their order) into spans of ``step`` days, the last of which ends today.

    What a row has is spread evenly over its days.
    """
    if not rows:
        return []
    end = day_of(now) + 1
    n_slots = max(1, -(-(end - rows[0].day) // step))
    first = end - n_slots * step
    granted, n_results = [0.0] * n_slots, [0.0] * n_slots
    averages = [RecentAverage()] * n_slots
    for row in rows:
        for day in range(row.day, row.day + row.n_days):
            place = min((day - first) // step, n_slots - 1)  # the clock may have been ahead
            granted[place] += row.granted / row.n_days
            n_results[place] += row.n_results / row.n_days
            averages[place] = row.recent
    found: list[Slot] = []
    average = RecentAverage()
    for place in range(n_slots):
        average = averages[place] if averages[place].time else average
        day = first + place * step
        found.append(
            Slot(
                day=day,
                granted=granted[place] / step,
                n_results=n_results[place],
                average=decayed(average, min((day + step) * SECONDS_PER_DAY, now)),
            )
        )
    return found
