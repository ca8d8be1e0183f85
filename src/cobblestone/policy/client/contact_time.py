"""When to make a rare contact (CS3, WF3).

Where contacts must lie at least an interval apart, each contact shuts the door for jobs whose deadline falls
before the next one can be made.  A client that is in contact as soon as it may loses jobs that need another hour
after days of computing.  So a contact waits for such jobs as long as the computing that it saves is worth more
than that of processors which stand idle in the meantime.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cobblestone.domain.sums import float_sum


class PendingReport(NamedTuple):
    """A job of which the project has not heard yet; times in seconds from now."""

    ready: float  #: when it will be computed, 0 if it is
    deadline: float
    worth: float  #: CPU seconds spent on it so far
    remaining: float  #: CPU seconds that it still needs


def contact_delay(jobs: Sequence[PendingReport], *, interval: float, ncpus: int, stretch: float) -> float:
    """Return for how many seconds a contact that may be made now should wait.

    ``stretch``: wall seconds for one of computing.  The best of all moments is taken at which some job that a
    contact now would make late gets ready; of equal ones the earliest.
    """
    at_stake = [job for job in jobs if 0.0 < job.ready <= job.deadline < interval]
    if not at_stake:
        return 0.0
    busy = busy_seconds([job.remaining for job in jobs], ncpus)

    def value(at: float) -> float:
        saved = float_sum(
            [
                job.worth
                for job in jobs
                if job.ready <= job.deadline
                and (job.deadline >= at + interval or job.ready <= at <= job.deadline)
            ]
        )
        return saved - float_sum([max(0.0, at / stretch - seconds) for seconds in busy])

    best, delay = value(0.0), 0.0
    for at in sorted([job.ready for job in at_stake]):
        worth = value(at)
        if worth > best:
            best, delay = worth, at
    return delay


def busy_seconds(remaining: Sequence[float], ncpus: int) -> list[float]:
    """Return for how many CPU seconds each processor has something to compute, if the longest jobs begin first."""
    busy = [0.0] * ncpus
    for seconds in sorted(remaining, reverse=True):
        first = busy.index(min(busy))
        busy[first] += seconds
    return busy
