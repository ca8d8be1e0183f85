"""Would this job be done in time on that host?  Work-send policies WS1 and WS2.

WS1 sends jobs until their estimated time adds up to the request.  WS2 also runs the host's known workload
by earliest deadline first and refuses a job that would be late or would make another one (later than it
was) late.  Source: Kondo et al. 2007, 2.3; BOINC's ``edf_sim``.

Deadlines are relative to now, run times estimated.  The code of 2007 passed absolute deadlines; a caller
that wants that old behaviour passes them too, the test itself is the same.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable
from heapq import heapreplace
from typing import NamedTuple


class BookedJob(NamedTuple):
    """A job that a host has, or might get."""

    deadline: float  #: seconds from now by which it should be computed
    remaining: float  #: estimated seconds of one processor


class Workload:
    """The jobs in progress on a host, as the server believes them to be, in order of deadline."""

    __slots__ = ("_jobs", "_late", "_soonest", "_total", "ncpus")

    def __init__(self, jobs: Iterable[BookedJob], *, ncpus: int) -> None:
        self.ncpus = max(1, ncpus)
        self._jobs = sorted(jobs, key=_job_deadline)
        self._total = sum([job.remaining for job in self._jobs])
        self._soonest = self._jobs[0].deadline if self._jobs else float("inf")
        if self._total <= self._soonest:
            self._late = [-1.0] * len(self._jobs)
        else:
            self._late = _finish_times(self._jobs, self.ncpus)

    def admits(self, candidate: BookedJob) -> bool:
        """Tell whether the candidate would be in time and leave everybody no worse off."""
        if self._total + candidate.remaining <= min(self._soonest, candidate.deadline):
            return True  # one processor alone would do it all before the first deadline
        jobs = [(job.deadline, job.remaining, late) for job, late in zip(self._jobs, self._late, strict=True)]
        insort(jobs, (candidate.deadline, candidate.remaining, -1.0), key=_by_deadline)
        booked = [0.0] * self.ncpus
        for deadline, remaining, late in jobs:
            first = booked.index(min(booked))
            booked[first] += remaining
            allowed = late if late >= 0.0 else deadline
            if booked[first] > allowed:
                return False
        return True

    def add(self, job: BookedJob) -> None:
        """Book a job that is sent.  Those that are in time stay so if :meth:`admits` said yes."""
        position = len(self._jobs)
        while position > 0 and self._jobs[position - 1].deadline > job.deadline:
            position -= 1
        self._jobs.insert(position, job)
        self._late.insert(position, -1.0)
        self._total += job.remaining
        self._soonest = self._jobs[0].deadline


def all_in_time(jobs: Iterable[BookedJob], *, ncpus: int) -> bool:
    """Tell whether all jobs are in time if they are run by earliest deadline first."""
    booked = [0.0] * ncpus  # a heap: when each processor is free
    for deadline, remaining in sorted(jobs):
        end = booked[0] + remaining
        if end > deadline:
            return False
        heapreplace(booked, end)
    return True


def too_many(begun: Iterable[BookedJob], others: Iterable[BookedJob], *, ncpus: int) -> list[bool]:
    """Tell of each of ``others``, taken by deadline, whether it is one too many beside ``begun`` and those before it.

    The answers are those of :meth:`Workload.admits`.  A job changes nothing for those with earlier deadlines, so only the
    jobs that have begun and have later ones are looked at again.
    """
    begun = sorted(begun, key=_job_deadline)
    allowed = [
        late if late >= 0.0 else job.deadline
        for job, late in zip(begun, _finish_times(begun, ncpus), strict=True)
    ]
    candidates = list(others)
    found = [False] * len(candidates)
    booked = [0.0] * ncpus  # a heap: when each processor is free
    passed = 0
    for number in sorted(range(len(candidates)), key=lambda i: candidates[i].deadline):
        deadline, remaining = candidates[number]
        while passed < len(begun) and begun[passed].deadline <= deadline:
            heapreplace(booked, booked[0] + begun[passed].remaining)
            passed += 1
        end = booked[0] + remaining
        if end <= deadline:
            trial = booked.copy()
            heapreplace(trial, end)
            if _stay_in_time(trial, begun[passed:], allowed[passed:]):
                booked = trial
                continue
        found[number] = True
    return found


def _stay_in_time(booked: list[float], jobs: Iterable[BookedJob], allowed: Iterable[float]) -> bool:
    booked = booked.copy()
    for job, latest in zip(jobs, allowed, strict=True):
        end = booked[0] + job.remaining
        if end > latest:
            return False
        heapreplace(booked, end)
    return True


def _job_deadline(job: BookedJob) -> float:
    return job.deadline


def _by_deadline(entry: tuple[float, float, float]) -> float:
    return entry[0]


def _finish_times(jobs: list[BookedJob], ncpus: int) -> list[float]:
    """Return the finish time of each job that is late already, -1 for the others."""
    booked = [0.0] * ncpus
    late: list[float] = []
    for job in jobs:
        first = booked.index(min(booked))
        booked[first] += job.remaining
        late.append(booked[first] if booked[first] > job.deadline else -1.0)
    return late
