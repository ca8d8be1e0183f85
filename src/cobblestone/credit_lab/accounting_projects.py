"""The projects of the simulation of accounting: jobs, what becomes of them, and answers to a manager's questions."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

from cobblestone.credit_lab.accounting_people import Project
from cobblestone.domain.accounting import JobState
from cobblestone.domain.sums import float_sum
from cobblestone.policy.account_manager.accounting import DAY
from cobblestone.policy.account_manager.accounting_policies import DaySums, JobAnswer

FRIENDLY_FACTOR = 1000.0
DEADLINE = 10 * DAY
REVOKED_PART = 0.01


@dataclass(slots=True, kw_only=True)
class Job:
    """One job, or as many as the computer has CPUs, which run side by side."""

    name: str
    credit: float  #: granted if it is valid
    expected: float
    valid: bool
    sent: float
    reported: float = float("inf")
    decided: float = float("inf")
    granted: float = 0.0
    over: bool = False


@dataclass(slots=True, kw_only=True)
class ProjectAccount:
    """What a project knows of one account of its own."""

    project: Project
    opaque: str
    jobs: dict[str, Job] = field(default_factory=dict[str, Job])  #: those that may still be asked about
    open: list[Job] = field(default_factory=list[Job])
    total: float = 0.0
    final_by_day: dict[int, float] = field(default_factory=dict[int, float])
    revoked_by_day: dict[int, float] = field(default_factory=dict[int, float])
    _sent: int = 0

    def send(self, credit: float, expected: float, *, valid: bool, now: float) -> Job:
        """Hand out a job."""
        self._sent += 1
        factor = FRIENDLY_FACTOR if self.project is Project.FRIENDLY else 1.0
        job = Job(
            name=f"{self.opaque}_{self._sent}",
            credit=credit * factor,
            expected=expected,
            valid=valid,
            sent=now,
        )
        self.jobs[job.name] = job
        self.open.append(job)
        return job

    def receive(self, job: Job, rng: random.Random, *, now: float) -> None:
        """Take back what was computed; it is decided later."""
        job.reported = now
        job.decided = now + _latency(self.project, rng)

    def decide(self, now: float, *, memory: float = 14 * DAY) -> None:
        """Grant what is due; forget jobs that have been over for long."""
        left: list[Job] = []
        for job in self.open:
            if job.decided > now and now - job.sent < DEADLINE + (
                0 if job.reported == float("inf") else 90 * DAY
            ):
                left.append(job)
                continue
            job.over = True
            if job.decided <= now and job.valid:
                job.granted = job.credit
                self._book(job.credit, 0.0, job.decided)
        self.open = left
        if len(self.jobs) > 200:
            self.jobs = {
                name: job for name, job in self.jobs.items() if not job.over or now - job.decided < memory
            }

    def revoke_some(self, rng: random.Random, *, now: float) -> None:
        """Take back one grant in a hundred: a validator was wrong."""
        for job in self.jobs.values():
            if job.granted and rng.random() < REVOKED_PART:
                self._book(0.0, job.granted, now)
                job.granted = 0.0

    def _book(self, final: float, revoked: float, now: float) -> None:
        day = int(now // DAY)
        self.total += final - revoked
        self.final_by_day[day] = self.final_by_day.get(day, 0.0) + final
        self.revoked_by_day[day] = self.revoked_by_day.get(day, 0.0) + revoked

    def forget_details(self) -> None:
        """Keep the total alone."""
        for each in (self.jobs, self.open, self.final_by_day, self.revoked_by_day):
            each.clear()

    # -- answers ----------------------------------------------------------------------------------------

    def sums_since(self, day: int, *, now: float) -> list[DaySums]:
        """Return the days from ``day`` on that have something, and today with what is pending."""
        today = int(now // DAY)
        pending = float_sum(job.expected * (1.0 if job.reported <= now else 0.5) for job in self.open)
        days = sorted({each for each in (*self.final_by_day, *self.revoked_by_day) if each >= day} | {today})
        return [
            DaySums(
                day=each,
                final=self.final_by_day.get(each, 0.0),
                provisional=pending if each == today else None,
                revoked=self.revoked_by_day.get(each, 0.0),
            )
            for each in days
        ]

    def jobs_named(self, names: Iterable[str], *, now: float) -> list[JobAnswer]:
        """Return what each of these was granted; those of other accounts are unknown."""
        return [self._answer(name, now) for name in names]

    def _answer(self, name: str, now: float) -> JobAnswer:
        job = self.jobs.get(name)
        if job is None:
            return JobAnswer(name=name, state=JobState.UNKNOWN)
        if job.over:
            state = JobState.GRANTED if job.granted else JobState.REFUSED
            return JobAnswer(name=name, state=state, credit=job.granted)
        state = JobState.REPORTED if job.reported <= now else JobState.IN_PROGRESS
        return JobAnswer(name=name, state=state, credit=job.expected)


def _latency(project: Project, rng: random.Random) -> float:
    if project is Project.FRIENDLY:
        return 0.0
    if project is Project.LATE:
        return rng.uniform(7, 21) * DAY
    return rng.expovariate(1.0 / ((0.5 if project is Project.PROMPT else 3.0) * DAY))


def answers_now(project: Project, now: float, *, start: float) -> bool:
    """Whether a project answers at all."""
    return project is not Project.DOWN or not 10 * DAY <= now - start < 15 * DAY
