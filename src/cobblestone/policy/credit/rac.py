"""Recent average credit (RAC), and the totals and averages of all that a ledger entry names.

Recent average credit (RAC): an exponentially decaying rate in credit per day, half-life one week.

Source: BOINC's ``update_average`` (``lib/util.cpp``, ``sched/credit.cpp``; wiki page *Computation credit*).
 With old average A at time t0, new credit C at ``now``, d = max(0, now - t0) and w = 2^(-d / half-life):

* first sample (t0 = 0, C > 0):  A' = C per day of (now - work start)
* normal:                        A' = w A + (1 - w) C per day of d
* no measurable time (1 - w <= 1e-6, where the normal form divides by almost nothing), its first-order limit:
  A' = w A + ln 2 * C * (one day / half-life)

Known differences: a first sample without measurable time takes the limit instead of dividing by zero; what
is not a finite number counts as nothing; the average is kept within 0 … `LARGEST`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, MutableMapping, Sequence

from cobblestone.domain.errors import PolicyViolation
from cobblestone.domain.statistics import CreditStatement, RecentAverage
from cobblestone.domain.values import DAY, float_sum

#: Half-life of credit averages, seconds.
HALF_LIFE = 7 * DAY

#: No total or average grows beyond this; far above any project, far below what a sum of floats can bear.
LARGEST = 1e30

#: Averages up to this, in credit per day, are left as they are when no one adds to them.
SMALLEST_IDLE = 0.1

_SMALLEST_WEIGHT = 1e-6


def _bounded(value: float) -> float:
    """Return the value within 0 … `LARGEST`; 0 when it is not a number."""
    if not value > 0.0:  # NaN too
        return 0.0
    return value if value < LARGEST else LARGEST


def _elapsed(since: float, now: float) -> float:
    """Seconds from ``since`` to ``now``; 0 when the clock went back or either is not a finite number."""
    seconds = now - since
    return seconds if 0.0 < seconds < math.inf else 0.0


def _check_half_life(half_life: float) -> None:
    if not 0.0 < half_life < math.inf:
        raise PolicyViolation(f"half-life: {half_life!r} seconds; give a positive number such as 604800")


def update_average(
    average: RecentAverage, *, credit: float, work_start: float, now: float, half_life: float = HALF_LIFE
) -> RecentAverage:
    """Add ``credit``, earned since ``work_start``, to an average, or only decay it (``credit`` 0).

    Times are Unix seconds.  The new time stamp is ``now``, also when the clock went back: a stamp once set
    in the future would otherwise stop the decay until then.  Negative credit (a correction) lowers the
    average, at most to 0. Raises `PolicyViolation` for a half-life that is not positive.
    """
    if not 0.0 < half_life < math.inf:
        _check_half_life(half_life)
    if not math.isfinite(now):
        now = average.time if math.isfinite(average.time) else 0.0
    if not math.isfinite(credit):
        credit = 0.0
    value = _bounded(average.value)
    first = average.time == 0.0 and credit > 0.0
    seconds = _elapsed(work_start if first else average.time, now)
    weight = math.exp(-seconds * math.log(2.0) / half_life)
    if 1.0 - weight <= _SMALLEST_WEIGHT:
        value = value * weight + math.log(2.0) * credit * (DAY / half_life)
    elif first:
        value = credit / (seconds / DAY)
    else:
        value = value * weight + (1.0 - weight) * credit / (seconds / DAY)
    return RecentAverage(_bounded(value), now)


def decayed(average: RecentAverage, now: float, half_life: float = HALF_LIFE) -> float:
    """Return the average as it stands at ``now``, in units per day: what every reader must show."""
    _check_half_life(half_life)
    return _bounded(average.value) * math.exp(-_elapsed(average.time, now) * math.log(2.0) / half_life)


def credited(statement: CreditStatement, *, credit: float, work_start: float, now: float) -> CreditStatement:
    """Add granted credit to a total and its recent average (host, user, team or app version)."""
    recent = update_average(statement.recent, credit=credit, work_start=work_start, now=now)
    added = credit if math.isfinite(credit) else 0.0
    return CreditStatement(_bounded(statement.total + added), recent)


def credited_together(
    statement: CreditStatement, shares: Iterable[tuple[float, float]], *, now: float
) -> CreditStatement:
    """Add several grants of one moment, each (credit, work start): the same figures as by `credited`, one by one.

    After the first no time passes, so the others take the first-order limit at once.
    """
    waiting = iter(shares)
    for credit, work_start in waiting:
        statement = credited(statement, credit=credit, work_start=work_start, now=now)
        if statement.recent.time == now != 0.0:
            break
    total, value = statement.total, statement.recent.value
    gain = DAY / HALF_LIFE
    for credit, _ in waiting:
        if math.isfinite(credit):
            value = _bounded(value + math.log(2.0) * credit * gain)
            total = _bounded(total + credit)
    return CreditStatement(total, RecentAverage(value, statement.recent.time))


def correct_average(
    average: RecentAverage, *, credit: float, granted_time: float, now: float
) -> RecentAverage:
    """Take back (negative) or add credit that was granted, wrongly or too little, at ``granted_time``.

    What is left of that grant in the average has decayed since; exactly that much is corrected, at most to 0.
    """
    decayed_now = decayed(average, now)
    if not math.isfinite(now):
        return average
    remaining = credit * math.exp(-_elapsed(granted_time, now) * math.log(2.0) / HALF_LIFE)
    change = math.log(2.0) * remaining * (DAY / HALF_LIFE)
    if not math.isfinite(change):
        change = 0.0
    return RecentAverage(_bounded(decayed_now + change), now)


def common_moment(grants: Sequence[tuple[float, float]]) -> float:
    """Return the one moment at which the sum of several grants, each (credit > 0, Unix seconds), would have left the same.

    h log2(sum of c 2^(t / h) / sum of c): it does not depend on when one looks, so one correction takes back all of them.

    Raises:
        ValueError: there is none of them.
    """
    latest = max(time for _, time in grants)
    total = float_sum(credit for credit, _ in grants)
    remaining = float_sum(
        credit * math.exp((time - latest) * math.log(2.0) / HALF_LIFE) for credit, time in grants
    )
    return latest + HALF_LIFE * math.log2(remaining / total)


def corrected(
    statement: CreditStatement, *, credit: float, granted_time: float, now: float
) -> CreditStatement:
    """Return a total and its recent average after a correction of a grant of ``granted_time``; see `correct_average`."""
    recent = correct_average(statement.recent, credit=credit, granted_time=granted_time, now=now)
    added = credit if math.isfinite(credit) else 0.0
    return CreditStatement(_bounded(statement.total + added), recent)


def joined(one: CreditStatement, other: CreditStatement, *, now: float) -> CreditStatement:
    """Return the sum of two owners that are one from ``now`` on (Unix seconds)."""
    value = _bounded(decayed(one.recent, now) + decayed(other.recent, now))
    return CreditStatement(_bounded(one.total + other.total), RecentAverage(value, now))


def idle_decayed(average: RecentAverage, *, now: float) -> RecentAverage | None:
    """Return the average after the daily statistics task, or None when the task leaves it alone.

    Source: BOINC's ``update_stats``: averages above `SMALLEST_IDLE` that nothing has updated for a day.
    """
    if average.value <= SMALLEST_IDLE or now - average.time < DAY:
        return None
    return update_average(average, credit=0.0, work_start=now, now=now)


#: Kinds of owners, by the tables of their rows.
OWNERS = ("host", "user_account", "team", "app_version")

#: Whom an entry names: ids in the order of `OWNERS`; None: no one of this kind.
Owners = Sequence[int | None]


class CreditTotals:
    """The totals of all owners, from the entries of a ledger in their order.

    Whoever drives it fills `rows` with those that it keeps; entries for others change nothing.
    """

    def __init__(self) -> None:
        """Begin without rows."""
        self.rows: dict[str, MutableMapping[int, CreditStatement]] = {kind: {} for kind in OWNERS}

    def open(self, owners: Owners) -> None:
        """Begin to keep the rows that an entry names."""
        for kind, row_id in zip(OWNERS, owners, strict=True):
            if row_id is not None:
                self.rows[kind].setdefault(row_id, CreditStatement())

    def credit(self, shares: Iterable[tuple[Owners, float, float]], *, now: float) -> None:
        """Add entries of one moment, each (owners, credit, start of the work in Unix seconds)."""
        by_row: dict[tuple[str, int], list[tuple[float, float]]] = {}
        for owners, credit, work_start in shares:
            for kind, row_id in zip(OWNERS, owners, strict=True):
                if row_id is not None:
                    by_row.setdefault((kind, row_id), []).append((credit, work_start))
        for (kind, row_id), amounts in by_row.items():
            rows = self.rows[kind]
            if row_id in rows:
                rows[row_id] = credited_together(rows[row_id], amounts, now=now)

    def correct(self, owners: Owners, *, credit: float, granted_time: float, now: float) -> None:
        """Take back (negative) or add what was granted at ``granted_time``."""
        for kind, row_id in zip(OWNERS, owners, strict=True):
            rows = self.rows[kind]
            if row_id is not None and row_id in rows:
                rows[row_id] = corrected(rows[row_id], credit=credit, granted_time=granted_time, now=now)

    def merge(self, kind: str, earlier: int, later: int, *, now: float) -> None:
        """Let one row have what two had; nothing is left of ``earlier``."""
        rows = self.rows[kind]
        if earlier in rows and later in rows:
            rows[later] = joined(rows[earlier], rows[later], now=now)
            rows[earlier] = CreditStatement(0.0, RecentAverage(0.0, now))
