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
from math import inf
from typing import NamedTuple

from cobblestone.domain.values import float_sum


class BookedJob(NamedTuple):
    """A job that a host has, or might get."""

    deadline: float  #: seconds from now by which it should be computed
    remaining: float  #: estimated seconds of one processor


class Workload:
    """The jobs in progress on a host, as the server believes them to be, in order of deadline."""

    __slots__ = ("_jobs", "_refused", "_soonest", "_total", "ncpus")

    def __init__(self, jobs: Iterable[BookedJob], *, ncpus: int) -> None:
        self.ncpus = max(1, ncpus)
        self._refused: dict[float, float] = {}  # by deadline: the shortest candidate that was refused
        booked = sorted(jobs, key=_job_deadline)
        self._total = float_sum([job.remaining for job in booked])
        self._soonest = booked[0].deadline if booked else inf
        latest = [job.deadline for job in booked]
        if self._total > self._soonest:  # else one processor alone would do it all before the first deadline
            latest = _latest_ends(booked, self.ncpus)
        self._jobs = [  #: by deadline, with the latest end that each may have
            (job.deadline, job.remaining, end) for job, end in zip(booked, latest, strict=True)
        ]

    def admits(self, candidate: BookedJob) -> bool:
        """Return whether the candidate would be in time and make no other job later."""
        if candidate.remaining >= self._refused.get(candidate.deadline, inf):
            return False  # a longer one makes no job earlier, nor do jobs that were booked since
        if self._total + candidate.remaining <= min(self._soonest, candidate.deadline):
            return True  # one processor alone
        jobs = self._jobs.copy()
        insort(jobs, (candidate.deadline, candidate.remaining, candidate.deadline), key=_deadline)
        booked = [0.0] * self.ncpus  # a heap: when each processor is free
        for _, remaining, latest in jobs:
            end = booked[0] + remaining
            if end > latest:
                self._refused[candidate.deadline] = candidate.remaining
                return False
            heapreplace(booked, end)
        return True

    def add(self, job: BookedJob) -> None:
        """Book a job that is sent.  Those that are in time stay so if :meth:`admits` said yes."""
        insort(self._jobs, (job.deadline, job.remaining, job.deadline), key=_deadline)
        self._total += job.remaining
        self._soonest = self._jobs[0][0]


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
    latest = _latest_ends(begun, ncpus)
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
            if _stay_in_time(trial, begun[passed:], latest[passed:]):
                booked = trial
                continue
        found[number] = True
    return found


def _stay_in_time(booked: list[float], jobs: Iterable[BookedJob], latest: Iterable[float]) -> bool:
    booked = booked.copy()
    for job, last in zip(jobs, latest, strict=True):
        end = booked[0] + job.remaining
        if end > last:
            return False
        heapreplace(booked, end)
    return True


def _job_deadline(job: BookedJob) -> float:
    return job.deadline


def _deadline(entry: tuple[float, float, float]) -> float:
    return entry[0]


def _latest_ends(jobs: list[BookedJob], ncpus: int) -> list[float]:
    """Return when each job has to end: by its deadline, or if it is late already, no later than it would now."""
    booked = [0.0] * ncpus  # a heap: when each processor is free
    latest: list[float] = []
    for job in jobs:
        end = booked[0] + job.remaining
        heapreplace(booked, end)
        latest.append(max(job.deadline, end))
    return latest
