"""For how long a run list need not be made anew: a proof that the same one would come out of it.

Between two events jobs only progress.  Where all of them are of one project and none can come near its deadline, whatever
progress the running ones report, those that run go on running.  How near they can come follows from two bounds: of what a
job may be estimated to need later, and of when the last of a queue ends on equal processors, in any order that leaves none
idle (total / processors + largest: Graham, "Bounds for certain multiprocessing anomalies", Bell System Technical
Journal 45, 1966).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from cobblestone.policy.client.availability import TIME_CONSTANT
from cobblestone.policy.client.core.state import ClientState, Job
from cobblestone.policy.client.estimates import DCF_ENDANGERED
from cobblestone.policy.client.round_robin import PESSIMISM


class Need(NamedTuple):
    """What a job will be estimated to need, at most."""

    seconds: float  #: of computing, now
    growth: float = 0.0  #: more per second that passes
    lasts: float = math.inf  #: seconds for which that holds


def need_2007(job: Job, estimate: float) -> Need:
    """Return the bound for ``remaining_2007``, of a job whose corrected estimate is ``estimate``.

    With the fraction f done and the time used u it is at most u (1 - f) + (1 - f)^2 estimate; f does not fall, u grows by the
    second.  It may be less now, and rise without a second of computing: of a job that has done next to nothing for long the
    whole time is cut at what a job may take.
    """
    if not job.running:
        return Need(job.remaining)
    left = max(0.0, 1.0 - (job.fraction_done or 0.0))
    return Need(max(job.remaining, left * (job.done + left * estimate)), left)


def need_recent(job: Job, estimate: float, span: float) -> Need:
    """Return the bound for ``remaining_elapsed``, one that holds for more than ``span`` seconds if there is one.

    With the fraction f done and the time used u it is at most (1 - f) estimate, as long as u has not passed the estimate and the
    app does not vouch for its fractions; and in any case, from the first fraction on, at most that or u (1 - f) / f.
    """
    if not job.running:
        return Need(job.remaining)
    fraction = job.fraction_done or 0.0
    left = 1.0 - fraction
    young = 0.0 if job.exact_fraction else estimate - job.done
    if young > span or left >= 1.0:
        return Need(max(job.remaining, left * estimate), lasts=young)
    odds = max(0.0, left) / fraction
    return Need(max(job.remaining, left * estimate, odds * job.done), odds)


def calm_seconds(needs: Sequence[Need], *, ncpus: int, speed: float, until_cutoffs: Sequence[float]) -> float:
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
    needs: Sequence[Need], *, ncpus: int, available: float, until_cutoffs: Sequence[float]
) -> float:
    """Return what :func:`calm_seconds` does, where the host may be off for any part of that time.

    It is ``available`` for that part of the time, as it has learned, and expects less the longer it is off.
    """
    speed = min(1.0, max(0.01, available))
    calm = calm_seconds(needs, ncpus=ncpus, speed=speed, until_cutoffs=until_cutoffs)
    if calm <= 0.0:
        return calm
    speed = min(1.0, max(0.01, available * math.exp(-calm / TIME_CONSTANT)))
    return calm_seconds(needs, ncpus=ncpus, speed=speed, until_cutoffs=until_cutoffs)


def stands_2007(
    state: ClientState, misses: Sequence[int] | None, dcf: Sequence[float], available: float
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


def stands_recent(state: ClientState, correction: Callable[[Job], float], available: float) -> float:
    """Return for how long the run list of today's family stands (seconds); 0 if that is not known.

    Marks of endangered jobs are worked out anew from look to look, so none may have one, nor come to have one.
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


def _first_deadlines_run(state: ClientState) -> bool:
    """Tell whether those that run would run by their deadlines as well as in turn; of equal deadlines a started job is first."""
    waiting = [
        (job.report_deadline, not job.start_order) for job in state.jobs if job.runnable and not job.running
    ]
    last = max([job.report_deadline for job in state.running], default=math.inf)
    return not waiting or (last, False) < min(waiting)


def _nothing_but_deadlines(state: ClientState) -> bool:
    """Tell whether only deadlines could change what runs: one project, one kind of jobs, no processor that could be filled."""
    if len(state.projects) != 1 or not state.ncpus:
        return False
    running = sum([job.runnable for job in state.running])
    runnable = sum([job.runnable for job in state.jobs])
    return running == len(state.running) == min(state.ncpus, runnable) and all(
        job.cpus == 1.0 and not (job.gpu or job.always_runs) for job in state.jobs
    )
