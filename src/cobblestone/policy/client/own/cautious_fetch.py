"""WF3: ask only for jobs that can be in time, for enough of them, and in rare contacts.

When to make a rare contact (CS3, WF3).

Where contacts must lie at least an interval apart, each contact shuts the door for jobs whose deadline falls
before the next one can be made.  A client that is in contact as soon as it may loses jobs that need another hour
after days of computing.  So a contact waits for such jobs as long as the computing that it saves is worth more
than that of processors which stand idle in the meantime.

WF3: ask only for jobs that can be in time, and for enough of them (our own policy).

WF2 decides when the host needs work and which project is owed most.  WF3 keeps that order, but

* asks a project only for as many jobs as would be in time with everything that the host has already promised:
  the server's deadline check (WS2), made by the client, which knows its own off-times and how long the
  project's jobs keep its processors busy.  Without it a buffer that is longer than the latency bound makes
  jobs late while they wait, and blocked projects come back all at once when the host runs dry;
* keeps few jobs of a project until some have ended: where the project's estimate is a quarter of the truth, a full buffer is
  four full buffers, most of which will be late;
* keeps no more of a project than its share can do in half of the latency bound: what is more gets a processor by its deadline
  alone, and others lose their share to it;
* takes no more of a project that has had more than its share while there is work for the minimal buffer, or for a time slice
  while someone who is owed work waits with jobs that are here: those who are owed work may not be asked for any that would be
  in time, and short jobs with a tight deadline, which always would, must not come in their stead;
* asks for more where sizes vary, so that the buffer lasts although some of the jobs turn out to be short.

A processor that is idle overrules the check if no one passes it: a job that may be late is better than none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from cobblestone.domain.values import float_sum, value
from cobblestone.policy.client.core.reasons import Why, why
from cobblestone.policy.client.core.state import NEVER, ClientJob, CoreState, Phase
from cobblestone.policy.client.own.history import KNOWN, JobOutlook
from cobblestone.policy.client.own.lateness import Interruptions
from cobblestone.policy.client.own.memory import OwnMemory
from cobblestone.policy.client.published.debts import is_overworked
from cobblestone.policy.client.published.round_robin import RoundRobinOutcome
from cobblestone.policy.client.published.work_fetch import (
    FetchPlan,
    FetchPreferences,
    FetchProject,
    Urgency,
    fetch_by_shortfall,
)
from cobblestone.policy.dispatch.deadline_check import BookedJob, Workload


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


def wait_for_reports(
    state: CoreState, memory: OwnMemory, on_cpus: Sequence[ClientJob], *, ncpus: int
) -> float:
    """Return for how many seconds a contact that may be made now should wait for jobs that it would make late.

    ``on_cpus``: the jobs that take a processor, each as often as it needs one.
    """
    now, wall = state.now, memory.interruptions.wall_seconds
    pending = [
        PendingReport(0.0, job.report_deadline - now, job.done, 0.0)
        for job in state.finished
        if not job.failed and job.phase is not Phase.GIVEN_UP
    ]
    pending += [
        PendingReport(wall(job.remaining), job.report_deadline - now, job.done, job.remaining)
        for job in on_cpus
        if job.serial not in memory.unmeetable
    ]
    return contact_delay(pending, interval=memory.interval, ncpus=ncpus, stretch=wall(1.0))


def busy_seconds(remaining: Sequence[float], ncpus: int) -> list[float]:
    """Return for how many CPU seconds each processor has something to compute, if the longest jobs begin first."""
    busy = [0.0] * ncpus
    for seconds in sorted(remaining, reverse=True):
        first = busy.index(min(busy))
        busy[first] += seconds
    return busy


#: Standard deviations of bad luck with off-times that a job must survive.
CAUTION = 1.5
#: Standard deviations of the jobs' sizes by which a request is enlarged.
RESERVE = 1.0
#: Seconds without contact for which one job of an unknown project will do.
FEW_JOBS_LAST = 3600.0
#: Jobs per processor that are kept of a project before the first has ended; so many more with each that ends, until
#: :data:`KNOWN` have.
FIRST_JOBS = 2
#: A project's jobs should take this part of their latency bound at most, at the project's share of the processors.
PART_OF_BOUND = 0.5
#: Seconds of its share of all processors that a project may be owed before it gets a job that may be late.
OWED = 43200.0
#: The host may be on for so many times its usual time until the next contact.
MORE_THAN_USUAL = 2.0
#: Work for so many times the time until the next contact counts as enough for it: jobs may be shorter than they seem.
SHORTER = 1.5
#: Largest number of jobs asked for at once, per processor.
MAX_JOBS_PER_CPU = 32


def fetch_before_deadlines(
    state: CoreState,
    memory: OwnMemory,
    projects: Sequence[FetchProject],
    outcome: RoundRobinOutcome,
    on_cpus: Sequence[ClientJob],
    *,
    prefs: FetchPreferences,
    idle_cpus: int,
    explain: bool,
) -> FetchPlan:
    """Return whom to ask for how much CPU work, by the jobs that the host has and what it expects of each project's.

    ``on_cpus``: the jobs that take a processor, each as often as it needs one.
    """
    promised = [
        BookedJob(
            NEVER
            if memory.outlooks[job.project].hopeless
            else _safe_report(state, job.report_deadline, memory.interval) - state.now,
            job.remaining,
        )
        for job in on_cpus
        if job.serial not in memory.unmeetable
    ]
    held = [0.0] * len(projects)
    for job in on_cpus:
        held[job.project] += job.remaining
    return fetch_in_time(
        projects,
        outcome,
        memory.outlooks,
        promised,
        memory.interruptions,
        prefs=prefs,
        held=held,
        remaining=[job.remaining for job in on_cpus],
        idle_cpus=idle_cpus,
        until_next_contact=memory.interval,
        explain=explain,
    )


def _safe_report(state: CoreState, deadline: float, interval: float) -> float:
    """Return the last time before a deadline at which the client may be in contact, if it never waits with one."""
    if interval <= 0.0:
        return deadline
    first = state.next_contact(state.now)
    if first > deadline:
        return deadline
    return first + math.floor((deadline - first) / interval) * interval


def fetch_in_time(
    projects: Sequence[FetchProject],
    outcome: RoundRobinOutcome,
    outlooks: Sequence[JobOutlook],
    promised: Sequence[BookedJob],
    interruptions: Interruptions,
    *,
    prefs: FetchPreferences,
    held: Sequence[float],
    remaining: Sequence[float],
    idle_cpus: int,
    until_next_contact: float = 0.0,
    explain: bool = False,
) -> FetchPlan:
    """Return the request.

    ``promised``: deadline (seconds from now) and remaining CPU seconds of every job on the host.
    ``held``: remaining CPU seconds of each project's jobs, ``remaining``: of each job; also of those that will be late, since
    they keep processors busy as well, and else more of them would be asked for without end.
    ``until_next_contact``: seconds for which no one can be asked again after this.
    """
    booked = [BookedJob(job.deadline, _cautious(job.remaining, interruptions)) for job in promised]
    host = _Host(booked, remaining, interruptions, prefs, until_next_contact)
    candidates = list(projects)
    total_share = float_sum([project.share for project in projects])
    first: FetchPlan | None = None
    passed_over: dict[int, Why] = {}
    enough = _enough(projects, outcome, prefs, until_next_contact)
    while True:
        plan = fetch_by_shortfall(candidates, outcome, prefs=prefs, explain=explain)
        if plan.project is None:
            break
        first = first or plan
        outlook, debt = outlooks[plan.project], projects[plan.project].long_term_debt
        overworked = is_overworked(debt, slice_seconds=prefs.slice_seconds)
        if outcome.idle_after > enough and (overworked or (passed_over and debt <= 0.0)):
            passed_over[plan.project] = why("fetch.overworked", project=plan.project)
            candidates[plan.project] = replace(candidates[plan.project], contactable=False)
            continue
        if outlook.hopeless:
            return plan  # a deadline that no job can meet is no reason to withhold the project's share
        if not outlook.known:
            # one job, to get to know the project, if more can be had soon
            return replace(plan, seconds=1.0) if until_next_contact < FEW_JOBS_LAST else plan
        part = projects[plan.project].share / total_share if total_share > 0.0 else 1.0
        seconds, reason = host.may_have(
            plan.seconds,
            outlook,
            projects[plan.project],
            part=part,
            held=held[plan.project],
            late=outcome.misses[plan.project] > 0,
        )
        if seconds > 0.0:
            return replace(plan, seconds=seconds)
        passed_over[plan.project] = why(reason, project=plan.project)
        candidates[plan.project] = replace(candidates[plan.project], contactable=False)
    if first is not None and idle_cpus > 0 and first.urgency is Urgency.NEED_IMMEDIATELY:
        return replace(first, seconds=1.0)
    if explain:  # true reasons, instead of what this looked like to those who came after them
        others = [each for each in plan.reasons if each.values.get("project") not in passed_over]
        plan = replace(plan, reasons=(*others, *passed_over.values()))
    return plan


@value()
class _Host:
    """The work of a host, and its deadlines."""

    booked: Sequence[BookedJob]
    remaining: Sequence[float]
    interruptions: Interruptions
    prefs: FetchPreferences
    until_next_contact: float

    def may_have(
        self,
        wanted: float,
        outlook: JobOutlook,
        project: FetchProject,
        *,
        part: float,
        held: float,
        late: bool,
    ) -> tuple[float, str]:
        """Return for how many of the CPU seconds that are wanted a project may be asked, and the reason if for none.

        ``part``: the project's share of all; ``late``: whether jobs of it are in deadline trouble.
        """
        ncpus = self.prefs.ncpus
        plenty = wanted
        if self.until_next_contact < FEW_JOBS_LAST:
            cpus = part * ncpus / self.interruptions.wall_seconds(1.0)
            wanted = min(wanted, _room(outlook, project.queued, held, cpus, ncpus))
        seconds = _admitted(outlook, self.booked, wanted, ncpus, self.interruptions)
        if self.until_next_contact > 0.0:
            seconds = max(seconds, min(plenty, _with_reserve(outlook, self._missing())))
        if seconds > 0.0:
            return seconds, ""
        owed = project.long_term_debt - OWED * ncpus * part - held
        # jobs with less time than the minimal buffer are in trouble as soon as they are there
        if wanted > 0.0 and owed > 0.0 and not (late and outlook.time_left > self.prefs.buffer_min):
            return min(wanted, owed), ""
        return 0.0, "fetch.late" if wanted > 0.0 else "fetch.runnable"

    def _missing(self) -> float:
        """Return the CPU seconds for which processors will have nothing to do before the next contact."""
        on = self.until_next_contact * min(1.0, MORE_THAN_USUAL / self.interruptions.wall_seconds(1.0))
        return float_sum([max(0.0, on - each) for each in busy_seconds(self.remaining, self.prefs.ncpus)])


def _enough(
    projects: Sequence[FetchProject],
    outcome: RoundRobinOutcome,
    prefs: FetchPreferences,
    until_next_contact: float,
) -> float:
    """Return for how many seconds there must be work, from any project.

    While someone who is owed work has jobs in trouble here, or is owed half a day and has any, more of another project would
    take the processors that these need.
    """
    total = max(float_sum([project.share for project in projects]), 1e-9)
    pressed = any(
        project.queued
        and project.long_term_debt > (0.0 if misses else OWED * prefs.ncpus * project.share / total)
        for project, misses in zip(projects, outcome.misses, strict=True)
    )
    if pressed and until_next_contact <= prefs.slice_seconds:
        return prefs.slice_seconds
    return max(prefs.buffer_min, SHORTER * until_next_contact)


def _room(outlook: JobOutlook, queued: int, held: float, cpus: float, ncpus: int) -> float:
    """Return the CPU seconds of jobs for which a project that holds ``held`` has room.

    Few until its jobs are known, and no more than its share of the processors (``cpus`` of them, off-times deducted) can do
    well before their deadline.
    """
    room = max(PART_OF_BOUND * outlook.time_left * cpus, outlook.busy) - held
    if outlook.ended < KNOWN:
        jobs = FIRST_JOBS * ncpus * (1 + outlook.ended) - queued
        room = min(room, jobs * outlook.busy)
    return max(0.0, room)


def _with_reserve(outlook: JobOutlook, seconds: float) -> float:
    """Return a request that is enlarged, since some of the jobs will be shorter than their mean."""
    return seconds + RESERVE * outlook.deviation * math.sqrt(seconds / max(1e-3, outlook.busy))


def _cautious(computing: float, interruptions: Interruptions) -> float:
    return interruptions.wall_seconds(computing, deviations=CAUTION)


def _admitted(
    outlook: JobOutlook, booked: Sequence[BookedJob], seconds: float, ncpus: int, interruptions: Interruptions
) -> float:
    """Return the CPU seconds of jobs that would be in time, up to the request with its reserve."""
    busy = max(1e-3, outlook.busy)
    wanted = _with_reserve(outlook, seconds)
    workload = Workload(booked, ncpus=ncpus)
    job = BookedJob(outlook.time_left, _cautious(busy, interruptions))
    total = 0.0
    for _ in range(MAX_JOBS_PER_CPU * ncpus):
        if total >= wanted or not workload.admits(job):
            break
        workload.add(job)
        total += busy
    return min(wanted, max(0.0, total - 0.5 * busy))
