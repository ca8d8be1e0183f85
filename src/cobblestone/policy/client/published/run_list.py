"""Which jobs should run, which running task is preempted, and how long the list stays valid (published policies: CS1, CS2).

Which jobs should run, and which running task gives way (published family: CS1, CS2).

Source: Kondo et al. 2007, 2.1 and 2.2; BOINC's ``cpu_sched`` of 2007 (``schedule_cpus``,
``enforce_schedule``).

For how long a run list need not be made again: a proof that the same one would come out of it.

Between two events jobs only progress.  Where all of them are of one project and none can come near its deadline, whatever
progress the running ones report, those that run go on running.  How near they can come follows from two bounds: of what a
job may be estimated to need later, and of when the last of a queue ends on equal processors, in any order that leaves none
idle (total / processors + largest: Graham, "Bounds for certain multiprocessing anomalies", Bell System Technical
Journal 45, 1966).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import NamedTuple, Protocol

from cobblestone.domain.values import float_sum, value
from cobblestone.policy.client.choice import Faults2007
from cobblestone.policy.client.core.protocol import Changes
from cobblestone.policy.client.core.state import ClientJob, CoreState
from cobblestone.policy.client.core.values import TIME_CONSTANT
from cobblestone.policy.client.estimates import DCF_ENDANGERED
from cobblestone.policy.client.published.round_robin import PESSIMISM

#: A task counts as recently checkpointed for this many seconds.
RECENT_CHECKPOINT = 10.0


class Victims(Protocol):
    """Running tasks in the order in which they give way."""

    def __len__(self) -> int: ...
    def top(self) -> ClientJob: ...  #: the next to give way
    def pop(self) -> ClientJob: ...  #: take it out
    def keep(self, job: ClientJob) -> None: ...  #: it goes on running


class ByPreemptability:
    """Tasks of projects without misses give way first, then the longer on the processor, then the later deadline."""

    def __init__(self, running: Sequence[ClientJob], now: float, misses: Sequence[int]) -> None:
        self._left = list(running)
        self._now = now
        self._misses = misses

    def __len__(self) -> int:
        return len(self._left)

    def top(self) -> ClientJob:
        """Return the next to give way."""
        return self._left[0] if len(self._left) == 1 else max(self._left, key=self._key)

    def pop(self) -> ClientJob:
        """Take it out."""
        top = self.top()
        self._left.remove(top)
        return top

    def keep(self, job: ClientJob) -> None:
        """Check that a wanted task is never among them."""

    def _key(self, job: ClientJob) -> tuple[bool, float, float]:
        calm = not self._misses[job.project]
        return (calm, self._now - job.run_start if calm else 0.0, job.report_deadline)


def make_run_list(
    jobs: Sequence[ClientJob],
    *,
    ncpus: int,
    slice_seconds: float,
    shares: Sequence[float],
    short_term_debts: Sequence[float],
    misses: Sequence[int] | None,
    dcf: Sequence[float] | None = None,
    ties_ignore_progress: bool = False,
) -> list[ClientJob]:
    """Return up to ``ncpus`` jobs that ought to run, most important first.

    ``jobs`` are runnable ones in arrival order.  ``misses`` per project come from the round-robin
    simulation; ``None`` leaves the deadlines out of it (CS1).  With them (CS2) a project with m misses has
    its m earliest deadlines run first.  Then projects take turns by anticipated debt, which each chosen job
    lowers by its share of a time slice.  Equal deadlines: a started job goes first, then the one with least
    left; ``ties_ignore_progress`` (2007) looks at what is left alone, so that a job whose estimate grows
    while it runs loses its place.
    """
    running_share = float_sum({job.project: shares[job.project] for job in jobs}.values())
    debts = list(short_term_debts)
    pay = [share / running_share * slice_seconds if running_share > 0 else 0.0 for share in shares]
    chosen: list[ClientJob] = []
    if misses is not None and (any(misses) or (dcf is not None and max(dcf) >= DCF_ENDANGERED)):
        chosen = _endangered(jobs, list(misses), dcf, ties_ignore_progress=ties_ignore_progress)[:ncpus]
        for job in chosen:
            debts[job.project] -= pay[job.project]
    if len(chosen) >= ncpus:
        return chosen
    candidates = _candidates_by_project(jobs, set(map(id, chosen)))
    while len(chosen) < ncpus and candidates:
        best = -1
        for project in candidates:
            if best < 0 or debts[project] > debts[best]:
                best = project
        queue = candidates[best]
        chosen.append(queue.pop())
        if not queue:
            del candidates[best]
        debts[best] -= pay[best]
    return chosen


def _endangered(
    jobs: Sequence[ClientJob], left: list[int], dcf: Sequence[float] | None, *, ties_ignore_progress: bool
) -> list[ClientJob]:
    """Return so many jobs of each project, by deadline, and all of those whose estimates are far off."""
    found: list[ClientJob] = []
    for job in sorted(jobs, key=_deadline_key_2007 if ties_ignore_progress else _deadline_key):
        if left[job.project] or (dcf is not None and dcf[job.project] >= DCF_ENDANGERED):
            left[job.project] -= 1
            found.append(job)
    return found


def _deadline_key(job: ClientJob) -> tuple[float, bool, float]:
    return (job.report_deadline, job.start_order == 0, job.remaining)


def _deadline_key_2007(job: ClientJob) -> tuple[float, float]:
    return (job.report_deadline, job.remaining)


def _candidates_by_project(jobs: Sequence[ClientJob], taken: set[int]) -> dict[int, list[ClientJob]]:
    """Per project, in order of project number: its jobs, best last (running, then preempted by first start,
    then arrival).
    """
    candidates: dict[int, list[ClientJob]] = {}
    for job in jobs:
        if id(job) not in taken:
            candidates.setdefault(job.project, []).append(job)
    for queue in candidates.values():
        if len(queue) > 1:
            queue.sort(key=_candidate_key)
            queue.reverse()
    return dict(sorted(candidates.items()))


def _candidate_key(job: ClientJob) -> tuple[int, int]:
    if job.running:
        return (0, job.start_order)
    if job.start_order:
        return (1, job.start_order)
    return (2, 0)


def last_checkpoints(times: Sequence[float | None], now: float) -> list[float] | None:
    """Return when each running task last checkpointed, for :func:`enforce_run_list`; None if all have done so just now."""
    if all(time == now for time in times):
        return None
    return [-math.inf if time is None else time for time in times]


def enforce_run_list(
    wanted: Sequence[ClientJob],
    running: Sequence[ClientJob],
    *,
    now: float,
    ncpus: int,
    slice_seconds: float,
    misses: Sequence[int],
    last_checkpoint: Sequence[float] | None = None,
    line_up: Callable[[Sequence[ClientJob], float, Sequence[int]], Victims] | None = None,
    patient: Callable[[ClientJob, float], bool] | None = None,
) -> tuple[Changes, list[int]]:
    """Return who starts and who is preempted, and the misses, less one for each task preempted for a project.

    Tasks beyond ``ncpus`` stop at once.  A wanted job takes a free processor, or the place of the most preemptable task if
    its own project is in deadline trouble or that task has had its time slice and checkpointed within
    ``RECENT_CHECKPOINT`` seconds.  ``last_checkpoint`` (per running task) may be left out if tasks checkpoint all the time.
    ``patient`` tells of a job in trouble whether it can wait so many seconds, for the end of the other's slice.
    ``line_up`` may put another order of preemption in place of :class:`ByPreemptability`; it gets all running tasks, the
    time and the misses, which fall as tasks are preempted for a project.
    """
    left = list(misses)
    wanted_ids = {id(job) for job in wanted}
    victims: Victims = (
        ByPreemptability([job for job in running if id(job) not in wanted_ids], now, left)
        if line_up is None
        else line_up(running, now, left)
    )
    checkpoint = (
        {id(job): last_checkpoint[i] for i, job in enumerate(running)}
        if last_checkpoint is not None
        else None
    )
    used = len(running)
    start: list[ClientJob] = []
    preempt: list[ClientJob] = []
    look_again = math.inf
    while used > ncpus and len(victims):  # the volunteer has taken processors away
        preempt.append(victims.pop())
        used -= 1
    for job in wanted:
        if job.running and job not in preempt:
            victims.keep(job)
            continue
        if used >= ncpus and len(victims):
            victim = victims.top()
            fresh = checkpoint is None or now - checkpoint[id(victim)] < RECENT_CHECKPOINT
            slice_end = victim.run_start + slice_seconds
            pressed = left[job.project] and not (patient is not None and patient(job, slice_end - now))
            if not pressed and not (now >= slice_end and fresh):
                due = slice_end if slice_end > now else now + RECENT_CHECKPOINT
                look_again = min(look_again, due)
                continue
            if left[job.project]:
                left[job.project] -= 1
            preempt.append(victims.pop())
            used -= 1
        if job.running:
            preempt.remove(job)
        else:
            start.append(job)
        used += 1
    return Changes(start, preempt, look_again), left


class EstimatedNeed(NamedTuple):
    """An upper bound of a job's future estimates."""

    seconds: float  #: of computing, now
    growth: float = 0.0  #: more per second that passes
    lasts: float = math.inf  #: seconds for which that holds


def need_2007(job: ClientJob, estimate: float) -> EstimatedNeed:
    """Return the bound for ``remaining_2007``, of a job whose corrected estimate is ``estimate``.

    With the fraction f done and the time used u it is at most u (1 - f) + (1 - f)^2 estimate; f does not fall, u grows by the
    second.  It may be less now, and rise without a second of computing: of a job that has done next to nothing for long the
    whole time is cut at what a job may take.
    """
    if not job.running:
        return EstimatedNeed(job.remaining)
    left = max(0.0, 1.0 - (job.fraction_done or 0.0))
    return EstimatedNeed(max(job.remaining, left * (job.done + left * estimate)), left)


def need_recent(job: ClientJob, estimate: float, span: float) -> EstimatedNeed:
    """Return the bound for ``remaining_elapsed``, one that holds for more than ``span`` seconds if there is one.

    With the fraction f done and the time used u it is at most (1 - f) estimate, as long as u has not passed the estimate and the
    app does not vouch for its fractions; and in any case, from the first fraction on, at most that or u (1 - f) / f.
    """
    if not job.running:
        return EstimatedNeed(job.remaining)
    fraction = job.fraction_done or 0.0
    left = 1.0 - fraction
    young = 0.0 if job.exact_fraction else estimate - job.done
    if young > span or left >= 1.0:
        return EstimatedNeed(max(job.remaining, left * estimate), lasts=young)
    odds = max(0.0, left) / fraction
    return EstimatedNeed(max(job.remaining, left * estimate, odds * job.done), odds)


def calm_seconds(
    needs: Sequence[EstimatedNeed], *, ncpus: int, speed: float, until_cutoffs: Sequence[float]
) -> float:
    """Return for how long no job can be found to end after its cutoff; negative if one may be found so now.

    The jobs are in the order in which processors take them, each of which yields at least ``speed`` seconds of computing per
    second.
    """
    before = steepness = 0.0  #: of the jobs that are taken earlier
    calm = math.inf
    for k, (need, until) in enumerate(zip(needs, until_cutoffs, strict=True)):
        waits, slows = (before / ncpus, steepness / ncpus) if k >= ncpus else (0.0, 0.0)
        spare = until - (waits + need.seconds) / speed
        calm = min(calm, need.lasts, spare / (1.0 + (slows + need.growth) / speed))
        before += need.seconds
        steepness += need.growth
    return calm


def calm_in_spite_of_gaps(
    needs: Sequence[EstimatedNeed], *, ncpus: int, available: float, until_cutoffs: Sequence[float]
) -> float:
    """Return the same as :func:`calm_seconds`, if the host may be off for any part of that time.

    It is ``available`` for that part of the time, as it has learned, and expects less the longer it is off.
    """
    speed = min(1.0, max(0.01, available))
    calm = calm_seconds(needs, ncpus=ncpus, speed=speed, until_cutoffs=until_cutoffs)
    if calm <= 0.0:
        return calm
    speed = min(1.0, max(0.01, available * math.exp(-calm / TIME_CONSTANT)))
    return calm_seconds(needs, ncpus=ncpus, speed=speed, until_cutoffs=until_cutoffs)


def stands_2007(
    state: CoreState, misses: Sequence[int] | None, dcf: Sequence[float], available: float
) -> float:
    """Return for how long the published family's run list stands (seconds); 0 if that is not known.

    ``misses`` are those of the last look ahead, None where no deadline changes anything (CS1); ``available`` is what a task gets
    per second.
    """
    if not _nothing_but_deadlines(state):
        return 0.0
    if misses is None or _first_deadlines_run(state):
        return math.inf
    if misses[0] or dcf[0] >= DCF_ENDANGERED:
        return 0.0
    queue = state.projects[0].queue
    return calm_in_spite_of_gaps(
        [need_2007(job, job.raw * dcf[0]) for job in queue],
        ncpus=state.ncpus,
        available=available,
        until_cutoffs=[PESSIMISM * (job.cutoff - state.now) for job in queue],
    )


def stands_recent(state: CoreState, correction: Callable[[ClientJob], float], available: float) -> float:
    """Return for how long the run list of today's family stands (seconds); 0 if that is not known.

    Marks of endangered jobs are worked out again from look to look, so none may have one, nor come to have one.
    """
    if not _nothing_but_deadlines(state) or any(job.late_since is not None for job in state.jobs):
        return 0.0
    allowed, project = state.permission, state.projects[0].description
    memory_counts = allowed.ram_bytes is not None or allowed.swap_bytes is not None
    limited = project.max_concurrent > 0 or any(project.app_max_concurrent.values())
    if memory_counts or limited or state.devices.gpus or state.preferences.may_give_up:
        return 0.0
    queue = [job for job in state.jobs if job.queued]
    return calm_in_spite_of_gaps(
        [need_recent(job, job.raw * correction(job), 2.0 * state.slice) for job in queue],
        ncpus=state.ncpus,
        available=available,
        until_cutoffs=[job.cutoff - state.now for job in queue],
    )


def _first_deadlines_run(state: CoreState) -> bool:
    """Tell whether those that run would run by their deadlines as well as in turn; of equal deadlines a started job is first."""
    waiting = [
        (job.report_deadline, not job.start_order) for job in state.jobs if job.runnable and not job.running
    ]
    last = max([job.report_deadline for job in state.running], default=math.inf)
    return not waiting or (last, False) < min(waiting)


def _nothing_but_deadlines(state: CoreState) -> bool:
    """Tell whether only deadlines could change what runs: one project, one kind of jobs, no processor that could be filled."""
    if len(state.projects) != 1 or not state.ncpus:
        return False
    running = sum([job.runnable for job in state.running])
    runnable = sum([job.runnable for job in state.jobs])
    return running == len(state.running) == min(state.ncpus, runnable) and all(
        job.cpus == 1.0 and not (job.gpu or job.always_runs) for job in state.jobs
    )


@value(kw_only=True)
class Behaviour2007:
    """How the client of 2007 went about it; the default is none of it."""

    poll_seconds: float = 0.0  #: it looked at everything every so many seconds; 0 = when something happens
    every_poll: bool = False  #: ... really, and in the original's order of operations
    one_contact_reports_all: bool = False
    faults: Faults2007 = field(default_factory=Faults2007)
    line_up: Callable[[Sequence[ClientJob], float, Sequence[int]], Victims] | None = None
    """The order in which running tasks give way, if it is another than today's."""


TODAY = Behaviour2007()
