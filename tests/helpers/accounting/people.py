"""People of the simulation of accounting, their computers, the kinds of cheating, and the projects that they work for."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from cobblestone.domain.exports import CountedJobState
from cobblestone.domain.values import DAY, float_sum
from cobblestone.policy.account_manager.accounting import CREDIT_PER_FLOP
from cobblestone.policy.account_manager.accounting_policies import JobAnswer, ReportedDay


class SampleProject(StrEnum):
    """The projects; each has its own faults."""

    PROMPT = "prompt"  #: decides within a day
    USUAL = "usual"  #: after three days
    LATE = "late"  #: after one to three weeks
    DOWN = "down"  #: as usual; answers nothing from day 10 to day 15
    REVOKING = "revoking"  #: as usual; takes back one grant in a hundred on day 20
    FRIENDLY = "friendly"  #: a liar: grants its friends a thousand times


HONEST_PROJECTS = (
    SampleProject.PROMPT,
    SampleProject.USUAL,
    SampleProject.LATE,
    SampleProject.DOWN,
    SampleProject.REVOKING,
)
PROJECT_WEIGHTS = (0.3, 0.4, 0.1, 0.1, 0.1)


class Habit(StrEnum):
    """Properties of honest people's computers."""

    PLAIN = "plain"
    FAILING = "failing"  #: one job in ten fails at its end
    EARLY = "early"  #: one job in five ends at a third of what was expected, and is granted that
    GENEROUS = "generous"  #: the benchmark says twice what jobs reach
    LEAVING = "leaving"  #: stops on a day between 8 and 25


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """A way to cheat: the differences from an honest twin with the same computer."""

    name: str
    says: str  #: for the table
    speed: float = 1.0  #: reported estimated credit, times
    time: float = 1.0  #: reported run time and what follows from it, times
    lies_in: float = 1.0  #: part of contacts that these two are used in
    cpus: int | None = None  #: reported
    gpus: int = 0
    works: float = 1.0  #: part of the time that is computed in truth
    noise: float = 0.0  #: part of jobs whose outputs are noise
    hoards: bool = False  #: fetches jobs and never returns them
    claims_idle: bool = False  #: reports full time though it does not compute
    every_project: bool = False  #: reports full time at each of three projects
    account_days: float = 0.0  #: a new account every so many days; the ones before go on claiming
    own_blocks: bool = False  #: each of these from another address block
    host_ticks: int = 0  #: a new computer every so many contacts; the ones before go on claiming
    totals: str = ""  #: ``restart``, ``replay``, ``leap``: what happens to the reported totals
    friendly: bool = False  #: half of the work is at a project that lies
    strangers: bool = False  #: lists jobs and gives keys of other people's accounts
    shared: int = 0  #: so many accounts with one account at the projects


ATTACKS = (
    Attack(name="speed x10", says="benchmark times 10", speed=10),
    Attack(name="speed x100", says="benchmark times 100", speed=100),
    Attack(name="speed 1e9", says="benchmark of 1e9 exactly, times what it is", speed=1e9),
    Attack(name="speed 1e304", says="benchmark of 1e304", speed=1e304),
    Attack(name="speed NaN", says="benchmark that is no number", speed=float("nan")),
    Attack(name="speed negative", says="negative benchmark", speed=-1.0),
    Attack(name="4096 cores", says="4096 cores, all busy", cpus=4096, time=64),
    Attack(name="128 GPUs", says="128 GPUs, all busy", gpus=128),
    Attack(name="time x10", says="run time times 10", time=10),
    Attack(name="time x10, some", says="run time times 10 in three contacts of ten", time=10, lies_in=0.3),
    Attack(name="every project", says="three projects at once, each with full time", every_project=True),
    Attack(name="new hosts", says="a new host id at each contact", host_ticks=1),
    Attack(name="new accounts", says="a new account every day, one address block", account_days=1),
    Attack(
        name="new accounts, blocks",
        says="a new account every day, each from a block of its own",
        account_days=1,
        own_blocks=True,
    ),
    Attack(
        name="manager only", says="computes nothing, reports to the manager only", works=0, claims_idle=True
    ),
    Attack(name="noise", says="computes nothing, uploads noise", noise=1.0),
    Attack(name="noise 10 %", says="noise in one job of ten", noise=0.1),
    Attack(name="hoard", says="fetches jobs, never returns them", hoards=True, claims_idle=True),
    Attack(name="reattach", says="detaches after each contact", totals="restart"),
    Attack(name="replay", says="sends old contacts again", totals="replay"),
    Attack(name="clock", says="clock a year ahead, then back", totals="leap"),
    Attack(name="friendly", says="half of the time at a project that lies", friendly=True),
    Attack(
        name="strangers",
        says="other people's jobs, computers and accounts",
        works=0,
        claims_idle=True,
        strangers=True,
    ),
    Attack(name="shared key", says="ten accounts with one account at each project", shared=10),
    Attack(name="freeze", says="a new account every 5 days, the old ones go on claiming", account_days=5),
    Attack(
        name="freeze, all",
        says="as before, from blocks of their own, with speed times 10",
        account_days=5,
        own_blocks=True,
        speed=10,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleComputer:
    """A computer and its owner's choices; a cheat's twin has the same."""

    model: str
    cpus: int
    flops: float  #: of one CPU, by the benchmark
    on: float  #: part of the day
    efficiency: float  #: granted of what the benchmark would give
    job_seconds: float  #: median time that all CPUs together need for a job of each
    projects: tuple[SampleProject, ...]
    habit: Habit
    stops: float  #: Unix seconds

    @property
    def credit_per_second(self) -> float:
        """Return the estimated credit per second of all CPUs."""
        return self.cpus * self.flops * CREDIT_PER_FLOP


def draw_computer(
    rng: random.Random, *, start: float, days: float, habit: Habit | None = None
) -> SampleComputer:
    """Draw a computer; speeds differ by a factor of about 60 between the slowest and the fastest hundredth."""
    cpus = rng.choices((2, 4, 8, 16, 32), weights=(10, 30, 35, 18, 7))[0]
    tier = rng.randrange(4)
    habit = habit or rng.choices(list(Habit), weights=(70, 8, 8, 7, 7))[0]
    flops = (1.0, 1.6, 2.5, 4.0)[tier] * 1e9 * rng.lognormvariate(0.0, 0.08)
    n_projects = rng.choices((1, 2, 3), weights=(50, 30, 20))[0]
    projects: list[SampleProject] = []
    while len(projects) < n_projects:
        found = rng.choices(HONEST_PROJECTS, weights=PROJECT_WEIGHTS)[0]
        if found not in projects:
            projects.append(found)
    on = rng.uniform(0.25, 1.0)
    return SampleComputer(
        model=f"{cpus} x {tier}",
        cpus=cpus,
        flops=flops,
        on=on,
        efficiency=rng.lognormvariate(-0.35, 0.2) / (2.0 if habit is Habit.GENEROUS else 1.0),
        # No scheduler sends what a computer cannot finish in time.
        job_seconds=min(3600.0 * rng.lognormvariate(2.0, 0.9), 4 * DAY * on / n_projects),
        projects=tuple(projects),
        habit=habit,
        stops=start + (rng.uniform(8, 25) if habit is Habit.LEAVING else days) * DAY,
    )


FRIENDLY_FACTOR = 1000.0
DEADLINE = 10 * DAY
REVOKED_PART = 0.01


@dataclass(slots=True, kw_only=True)
class SampleJob:
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
class SampleAccount:
    """A project's record of one of its accounts."""

    project: SampleProject
    opaque: str
    jobs: dict[str, SampleJob] = field(
        default_factory=dict[str, SampleJob]
    )  #: those that may still be asked about
    open: list[SampleJob] = field(default_factory=list[SampleJob])
    total: float = 0.0
    final_by_day: dict[int, float] = field(default_factory=dict[int, float])
    revoked_by_day: dict[int, float] = field(default_factory=dict[int, float])
    _sent: int = 0

    def send(self, credit: float, expected: float, *, valid: bool, now: float) -> SampleJob:
        """Send a job."""
        self._sent += 1
        factor = FRIENDLY_FACTOR if self.project is SampleProject.FRIENDLY else 1.0
        job = SampleJob(
            name=f"{self.opaque}_{self._sent}",
            credit=credit * factor,
            expected=expected,
            valid=valid,
            sent=now,
        )
        self.jobs[job.name] = job
        self.open.append(job)
        return job

    def receive(self, job: SampleJob, rng: random.Random, *, now: float) -> None:
        """Receive a computed job; it is decided later."""
        job.reported = now
        job.decided = now + _latency(self.project, rng)

    def decide(self, now: float, *, memory: float = 14 * DAY) -> None:
        """Grant what is due; forget jobs that ended long ago."""
        left: list[SampleJob] = []
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
        """Take back one grant in a hundred, as if a validator was wrong."""
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
        """Keep only the total."""
        for each in (self.jobs, self.open, self.final_by_day, self.revoked_by_day):
            each.clear()

    # -- answers ----------------------------------------------------------------------------------------

    def sums_since(self, day: int, *, now: float) -> list[ReportedDay]:
        """Return the days from ``day`` on that have credit, and today with pending credit."""
        today = int(now // DAY)
        pending = float_sum(job.expected * (1.0 if job.reported <= now else 0.5) for job in self.open)
        days = sorted({each for each in (*self.final_by_day, *self.revoked_by_day) if each >= day} | {today})
        return [
            ReportedDay(
                day=each,
                final=self.final_by_day.get(each, 0.0),
                provisional=pending if each == today else None,
                revoked=self.revoked_by_day.get(each, 0.0),
            )
            for each in days
        ]

    def jobs_named(self, names: Iterable[str], *, now: float) -> list[JobAnswer]:
        """Return the grants of these jobs; those of other accounts are unknown."""
        return [self._answer(name, now) for name in names]

    def _answer(self, name: str, now: float) -> JobAnswer:
        job = self.jobs.get(name)
        if job is None:
            return JobAnswer(name=name, state=CountedJobState.UNKNOWN)
        if job.over:
            state = CountedJobState.GRANTED if job.granted else CountedJobState.REFUSED
            return JobAnswer(name=name, state=state, credit=job.granted)
        state = CountedJobState.REPORTED if job.reported <= now else CountedJobState.IN_PROGRESS
        return JobAnswer(name=name, state=state, credit=job.expected)


def _latency(project: SampleProject, rng: random.Random) -> float:
    if project is SampleProject.FRIENDLY:
        return 0.0
    if project is SampleProject.LATE:
        return rng.uniform(7, 21) * DAY
    return rng.expovariate(1.0 / ((0.5 if project is SampleProject.PROMPT else 3.0) * DAY))


def answers_now(project: SampleProject, now: float, *, start: float) -> bool:
    """Return whether a project answers at all."""
    return project is not SampleProject.DOWN or not 10 * DAY <= now - start < 15 * DAY
