"""Which jobs to give up because they will be late whatever is done (CS3).

A late job earns nothing and keeps a processor from jobs that could be in time.  A job counts as hopeless if
it would be late even if the host were off much less than usual and ran only this job and those to which it is
more committed.  It is given
up only if there is something better to do; a project learns early that it has to send the job again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from cobblestone.policy.client.interruptions import Interruptions
from cobblestone.policy.dispatch.deadline_check import BookedJob, Workload, all_in_time

#: Standard deviations of luck with the host's off-times that are granted to a job.
LUCK = 2.0


JobT = TypeVar("JobT")


def can_be_in_time(
    computing: float, seconds_left: float, interruptions: Interruptions, *, luck: float = LUCK
) -> bool:
    """Tell whether ``computing`` CPU seconds can be done within ``seconds_left`` of wall time, with some luck."""
    return interruptions.wall_seconds(computing, deviations=-luck) <= seconds_left


def hopeless_jobs(
    jobs: Sequence[JobT],
    least: Sequence[float],
    left: Sequence[float],
    interruptions: Interruptions,
    *,
    ncpus: int,
) -> list[JobT]:
    """Return the jobs that will be late.

    ``jobs`` stand in the order in which the client is committed to them, ``least`` is the CPU time that each still
    needs at least, ``left`` the seconds until it must be ready.  A job is hopeless if it would be late even if all
    jobs before it in this order that are not were run by earliest deadline first from now on.
    """
    lucky = [interruptions.wall_seconds(needs, deviations=-LUCK) for needs in least]
    everything = [BookedJob(*both) for both in zip(left, lucky, strict=True)]
    if all_in_time(everything, ncpus=ncpus):
        return []
    committed = Workload((), ncpus=ncpus)
    hopeless: list[JobT] = []
    for job, booked in zip(jobs, everything, strict=True):
        if booked.remaining <= 0.0:
            if booked.deadline < 0.0:
                hopeless.append(job)
        elif committed.admits(booked):
            committed.add(booked)
        else:
            hopeless.append(job)
    return hopeless
