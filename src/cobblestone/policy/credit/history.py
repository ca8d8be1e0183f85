"""Credit over time: per day and per period, milestones, forecasts, badges, and when an export for statistics sites is due.

Credit per day and the recent average at each day's end, from entries of the ledger.

The averages are not samples of what some row held: every entry goes through `update_average` (corrections through
`correct_average`), as it did when it was granted, and each day ends with the decay to its end.  So the three curves
that volunteers know come out by themselves: no new credit is pure decay, half in a week; less than the average decays
towards the new rate; more grows towards it.

Known difference to the stored averages: the daily statistics task brings resting ones up to date at some moment of the day,
here it is at midnight UTC.  A first entry after a rest of days may differ by up to 5 % for that.

Credit since the first day: a row per day with credit, of which old ones become weeks and then spans of four weeks.

A row holds what was granted in its days, what there was in all at its end, and the recent average as the last entry left it.  The
average at any moment until the next row follows by decay, so days without credit need no row.  A person who earns every day
for ten years has some 670 rows: 400 days, 208 weeks, and 13 more for each further year.

Badges: who gets which, from total credit, recent average credit, and rank.

The family's default job gives badges to the best 1, 5 and 25 % by recent average, among those who have more than 1 credit a day;
many projects give them for totals.  Here both, and levels of the recent average, each in levels that a project sets.  Of a kind,
one has the highest level that one reaches, for as long as one does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum

from cobblestone.domain.statistics import RecentAverage
from cobblestone.domain.values import DAY, float_sum, form_of
from cobblestone.policy.credit.rac import correct_average, decayed, idle_decayed, update_average

#: Days to be read before the first one of interest: of what was earned earlier, 2 % are left by then.
WARM_UP_DAYS = 42


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerMark:
    """An entry of the ledger."""

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
    return math.floor(time / DAY)


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
    average = RecentAverage(0.0, max(created, day * DAY))
    if marks and marks[0].time < average.time:
        day, average = day_of(marks[0].time), RecentAverage()
    day = min(day, today)
    found: list[CreditDay] = []
    granted, n_results = 0.0, 0

    def close_day() -> None:
        nonlocal average, day, granted, n_results
        end = min((day + 1) * DAY, now)
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
    """Return all milestones, newest first.  Amounts that corrections took back are left out."""
    still = [item for item in reached if item.credit <= total]
    return sorted((*still, *anniversaries(created, now=now)), key=lambda item: item.time, reverse=True)


#: Younger rows stay days.
DAYS_KEPT = 400
#: Days after which weeks become spans of four.
WEEKS_KEPT = 5 * 52 * 7
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
        return (self.day + self.n_days) * DAY


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
        rested = idle_decayed(current.recent, now=mark.time - mark.time % DAY) or current.recent
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
class DrawnPeriod:
    """A part of a drawing: some days with what was granted in them."""

    day: int  #: the first one, days since 1970 (UTC)
    granted: float  #: a day, on average
    n_results: float
    average: float  #: recent average at its end, or now if it has not ended


def slot_days(n_days: int, most: int = 60) -> int:
    """Return into spans of how many days a time is divided, so that there are at most so many of them."""
    return next((step for step in (1, 7, 28, 91, 364) if n_days <= step * most), -(-n_days // most))


def slots(rows: Sequence[CreditPeriod], *, step: int, now: float) -> list[DrawnPeriod]:
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
    found: list[DrawnPeriod] = []
    average = RecentAverage()
    for place in range(n_slots):
        average = averages[place] if averages[place].time else average
        day = first + place * step
        found.append(
            DrawnPeriod(
                day=day,
                granted=granted[place] / step,
                n_results=n_results[place],
                average=decayed(average, min((day + step) * DAY, now)),
            )
        )
    return found


def last_days(rows: Sequence[CreditPeriod], *, first_day: int, now: float) -> list[CreditDay]:
    """Return the days from ``first_day`` until today, without a gap, from an owner's rows (in their order)."""
    drawn = slots(rows, step=1, now=now)
    days = [form_of(CreditDay, each, n_results=round(each.n_results)) for each in drawn]
    before = range(first_day, days[0].day if days else day_of(now) + 1)
    empty = [CreditDay(day=day, granted=0.0, n_results=0, average=0.0) for day in before]
    return empty + [each for each in days if each.day >= first_day]


#: What is further away than ten years is not foretold.
FARTHEST_DAYS = 3653.0


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


#: Who has less recent average credit than this (a day) is not counted for ranks.
RANKED_RECENT = 1.0


class BadgeKind(StrEnum):
    """The kinds of badges."""

    TOTAL = "total"
    RECENT = "recent"
    RANK = "rank"


@dataclass(frozen=True, slots=True, order=True)
class Badge:
    """A badge: its level is an amount of credit, credit a day, or the best so many percent."""

    kind: BadgeKind
    level: float

    @property
    def name(self) -> str:
        """A name that stays, for addresses and exports."""
        return f"{self.kind}-{self.level:.15g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BadgeRules:
    """The levels of a project."""

    total: tuple[float, ...] = ()
    recent: tuple[float, ...] = ()
    rank_percent: tuple[float, ...] = ()

    @property
    def badges(self) -> tuple[Badge, ...]:
        """All badges, each kind from the lowest to the highest."""
        return (
            *(Badge(BadgeKind.TOTAL, level) for level in sorted(set(self.total))),
            *(Badge(BadgeKind.RECENT, level) for level in sorted(set(self.recent))),
            *(Badge(BadgeKind.RANK, level) for level in sorted(set(self.rank_percent), reverse=True)),
        )


def earned(
    *, total: float, recent: float, rules: BadgeRules, rank_cutoffs: Mapping[float, float]
) -> frozenset[Badge]:
    """Return the badges earned by an owner: of each kind the highest one reached.

    ``rank_cutoffs``: by percent, the recent average credit of the last one among the best so many percent.
    """
    highest: dict[BadgeKind, Badge] = {}
    for badge in rules.badges:
        has, needed = recent, badge.level
        if badge.kind is BadgeKind.TOTAL:
            has = total
        elif badge.kind is BadgeKind.RANK:
            needed = max(rank_cutoffs.get(badge.level, float("inf")), RANKED_RECENT)
        if has >= needed:
            highest[badge.kind] = badge
    return frozenset(highest.values())


def n_best(n_ranked: int, percent: float) -> int:
    """Return how many are among the best so many per cent: at least one, if there are any."""
    return min(n_ranked, max(1, int(n_ranked * percent / 100)))


#: A project that has never exported anything does so this long after its server started (or a period, if that is shorter).
FIRST_SECONDS = 900.0

#: An export that is late by more deserves a warning: statistics sites fetch once a day.
LATE_SECONDS = 6 * 3600.0

#: For so long statistics sites are told to forget someone (the family's figure).
KEEP_DELETIONS = 60 * 86400.0


def next_export_time(last: float | None, *, started: float, every: float, now: float) -> float:
    """Return when the next export is due, Unix seconds: now, if the clock was wrong when the last one was made.

    ``last``: when the last one was made; ``started``: when the server began; ``every``: seconds between two.
    """
    due = started + min(FIRST_SECONDS, every) if last is None else last + every
    return due if due <= now + every else now


def is_overdue(last: float | None, *, started: float, every: float, now: float) -> bool:
    """Return whether the export is so late that an operator should check; a server that has just started gets its time, too."""
    due = max(next_export_time(last, started=started, every=every, now=now), started + FIRST_SECONDS)
    return now > due + LATE_SECONDS


def web_address(url: str) -> str:
    """Return an address that may stand in a link; empty for others, such as ``javascript:``."""
    return url if url.startswith(("https://", "http://")) else ""
