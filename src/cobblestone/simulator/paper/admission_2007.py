"""The server's deadline check with the order of equal deadlines that the simulator of 2007 gave them.

It sorted with its C++ library, whose sort (Musser's introsort, 1997: quicksort by the median of three down to 16 elements,
then insertion) leaves equal elements as they were among 16 jobs at most.  With more, who of those with equal deadlines
comes first decides whether a candidate is refused.
"""

from __future__ import annotations

from collections.abc import Iterable

from cobblestone.domain.sums import float_sum
from cobblestone.policy.dispatch.deadline_check import BookedJob

#: Runs up to this length are sorted by insertion, which is stable.
SHORT = 16


class Workload2007:
    """As :class:`cobblestone.policy.dispatch.deadline_check.Workload`, in the original's order."""

    def __init__(self, jobs: Iterable[BookedJob], *, ncpus: int) -> None:
        self.ncpus = ncpus
        self._jobs = sorted_2007([(job.deadline, job.remaining, -1.0) for job in jobs])
        booked = [0.0] * ncpus
        for k, (deadline, remaining, _) in enumerate(self._jobs):
            first = booked.index(min(booked))
            booked[first] += remaining
            if booked[first] > deadline:
                self._jobs[k] = (deadline, remaining, booked[first])

    def admits(self, candidate: BookedJob) -> bool:
        """Tell whether the candidate would be in time and leave everybody no worse off."""
        jobs = [*self._jobs, (candidate.deadline, candidate.remaining, -1.0)]
        if float_sum([remaining for _, remaining, _ in jobs]) <= min(jobs)[0]:
            return True  # one processor alone would do it all before the first deadline
        booked = [0.0] * self.ncpus
        for deadline, remaining, late in sorted_2007(jobs):
            first = booked.index(min(booked))
            booked[first] += remaining
            if booked[first] > (late if late >= 0.0 else deadline):
                return False
        return True

    def add(self, job: BookedJob) -> None:
        """Book a job that is sent."""
        self._jobs.append((job.deadline, job.remaining, -1.0))


def sorted_2007(jobs: list[tuple[float, float, float]]) -> list[tuple[float, float, float]]:
    """Return the jobs by their first member, as the C++ library puts them."""
    items = list(jobs)
    parts = [(0, len(items))]
    while parts:
        first, last = parts.pop()
        while last - first > SHORT:
            cut = _partition(items, first, last)
            parts.append((cut, last))
            last = cut
    return sorted(items, key=_deadline)  # insertion keeps the order of equals


def _deadline(job: tuple[float, float, float]) -> float:
    return job[0]


def _partition(items: list[tuple[float, float, float]], first: int, last: int) -> int:
    """Split by the median of the second, the middle and the last; return where the upper part begins."""
    a, b, c = first + 1, first + (last - first) // 2, last - 1
    median = _median(items, a, b, c)
    items[first], items[median] = items[median], items[first]
    pivot = items[first][0]
    low, high = first + 1, last
    while True:
        while items[low][0] < pivot:
            low += 1
        high -= 1
        while pivot < items[high][0]:
            high -= 1
        if low >= high:
            return low
        items[low], items[high] = items[high], items[low]
        low += 1


def _median(items: list[tuple[float, float, float]], a: int, b: int, c: int) -> int:
    """Return which one is the median; of equals, the one that the library's comparisons lead to."""
    if items[a][0] < items[b][0]:
        return b if items[b][0] < items[c][0] else (c if items[a][0] < items[c][0] else a)
    return a if items[a][0] < items[c][0] else (c if items[b][0] < items[c][0] else b)
