"""WF3: ask only for jobs that can be in time, and for enough of them (our own policy).

WF2 decides when the host needs work and which project is owed most.  WF3 keeps that order, but

* asks a project only for as many jobs as would be in time with everything that the host has already promised:
  the server's deadline check (WS2), made by the client, which knows its own off-times and how long the
  project's jobs keep its processors busy.  Without it a buffer that is longer than the latency bound makes
  jobs late while they wait, and blocked projects come back all at once when the host runs dry;
* keeps few jobs of a project until some have ended: where the project's estimate is a quarter of the truth, a full buffer is
  four full buffers, most of which will be late;
* keeps no more of a project than its share can do in half of the latency bound: what is more gets a processor by its deadline
  alone, and others lose their share to it;
* takes no more of a project that has had more than its share while there is work for the minimal buffer: those who are owed
  work may not be asked for any that would be in time, and short jobs with a tight deadline, which always would, must not come in
  their stead;
* asks for more where sizes vary, so that the buffer lasts although some of the jobs turn out to be short.

A processor that is idle overrules the check if nobody passes it: a job that may be late is better than none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from cobblestone.policy.client.app_history import KNOWN
from cobblestone.policy.client.core.reasons import Why, why
from cobblestone.policy.client.debts import is_overworked
from cobblestone.policy.client.interruptions import Interruptions
from cobblestone.policy.client.project_history import Outlook
from cobblestone.policy.client.round_robin import RoundRobinOutcome
from cobblestone.policy.client.work_fetch import (
    FetchPlan,
    FetchPreferences,
    FetchProject,
    Urgency,
    fetch_by_shortfall,
)
from cobblestone.policy.dispatch.deadline_check import BookedJob, Workload

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
#: Largest number of jobs asked for at once, per processor.
MAX_JOBS_PER_CPU = 32


def fetch_in_time(
    projects: Sequence[FetchProject],
    outcome: RoundRobinOutcome,
    outlooks: Sequence[Outlook],
    promised: Sequence[BookedJob],
    interruptions: Interruptions,
    *,
    prefs: FetchPreferences,
    held: Sequence[float],
    idle_cpus: int,
    until_next_contact: float = 0.0,
    explain: bool = False,
) -> FetchPlan:
    """Return the request.

    ``promised``: deadline (seconds from now) and remaining CPU seconds of every job on the host.
    ``held``: remaining CPU seconds of each project's jobs.
    ``until_next_contact``: seconds for which nobody can be asked again after this.
    """
    booked = [BookedJob(job.deadline, _cautious(job.remaining, interruptions)) for job in promised]
    candidates = list(projects)
    total_share = sum([project.share for project in projects])
    first: FetchPlan | None = None
    lasting = max(prefs.buffer_min, until_next_contact)
    while True:
        plan = fetch_by_shortfall(candidates, outcome, prefs=prefs, explain=explain)
        if plan.project is None:
            break
        first = first or plan
        outlook, debt = outlooks[plan.project], projects[plan.project].long_term_debt
        if outcome.idle_after > lasting and is_overworked(debt, slice_seconds=prefs.slice_seconds):
            # those who would be asked next are in deadline trouble, or have had more still
            return FetchPlan(None, 0.0, plan.urgency, _why_overworked(plan.project) if explain else ())
        if outlook.hopeless:
            return plan  # a deadline that no job can meet is no reason to withhold the project's share
        if not outlook.known:
            # one job, to get to know the project, if more can be had soon
            return replace(plan, seconds=1.0) if until_next_contact < FEW_JOBS_LAST else plan
        part = projects[plan.project].share / total_share if total_share > 0.0 else 1.0
        wanted = plan.seconds
        if until_next_contact < FEW_JOBS_LAST:
            cpus = part * prefs.ncpus / interruptions.wall_seconds(1.0)
            room = _room(outlook, projects[plan.project].queued, held[plan.project], cpus, prefs.ncpus)
            wanted = min(wanted, room)
        seconds = _admitted(outlook, booked, wanted, prefs.ncpus, interruptions)
        if until_next_contact > 0.0:
            part_on = min(1.0, MORE_THAN_USUAL / interruptions.wall_seconds(1.0))
            missing = until_next_contact * prefs.ncpus * part_on - sum([job.remaining for job in promised])
            seconds = max(seconds, min(plan.seconds, missing))
        if seconds > 0.0:
            return replace(plan, seconds=seconds)
        owed = debt - OWED * prefs.ncpus * part
        if owed > 0.0 and wanted > 0.0:
            return replace(plan, seconds=min(wanted, owed))
        candidates[plan.project] = replace(candidates[plan.project], contactable=False)
    if first is not None and idle_cpus > 0 and first.urgency is Urgency.NEED_IMMEDIATELY:
        return replace(first, seconds=1.0)
    return plan


def _why_overworked(project: int) -> tuple[Why, ...]:
    return (why("fetch.overworked", project=project),)


def _room(outlook: Outlook, queued: int, held: float, cpus: float, ncpus: int) -> float:
    """Return the CPU seconds of jobs for which a project that holds ``held`` has room.

    Few until its jobs are known, and no more than its share of the processors (``cpus`` of them, off-times deducted) can do
    well before their deadline.
    """
    room = max(PART_OF_BOUND * outlook.time_left * cpus, outlook.busy) - held
    if outlook.ended < KNOWN:
        jobs = FIRST_JOBS * ncpus * (1 + outlook.ended) - queued
        room = min(room, jobs * outlook.busy)
    return max(0.0, room)


def _cautious(computing: float, interruptions: Interruptions) -> float:
    return interruptions.wall_seconds(computing, deviations=CAUTION)


def _admitted(
    outlook: Outlook, booked: Sequence[BookedJob], seconds: float, ncpus: int, interruptions: Interruptions
) -> float:
    """Return the CPU seconds of jobs that would be in time, up to the request with its reserve."""
    busy = max(1e-3, outlook.busy)
    wanted = seconds + RESERVE * outlook.deviation * math.sqrt(seconds / busy)
    workload = Workload(booked, ncpus=ncpus)
    job = BookedJob(outlook.time_left, _cautious(busy, interruptions))
    total = 0.0
    for _ in range(MAX_JOBS_PER_CPU * ncpus):
        if total >= wanted or not workload.admits(job):
            break
        workload.add(job)
        total += busy
    return min(wanted, max(0.0, total - 0.5 * busy))
