"""What a client learns of a project's jobs as a whole (CS3, WF3): how long they keep a processor, and whether any of
them can be in time on this host.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from cobblestone.policy.client.app_history import KNOWN, MEMORY

#: Part of a project's jobs that can be in time below which it counts as hopeless.
HARDLY_ANY = 0.1
#: A job that needed less of its estimate had nothing to do, and says nothing of the next until several have ended.
AT_ONCE = 0.02


class PastJob(NamedTuple):
    """A job whose size is known; seconds of computing."""

    size: float
    estimate: float  #: the project's
    latency_bound: float
    given_up: bool = False  #: it would have been late; the size is the least that it can have been
    app: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """What is to be expected of a project's next job."""

    known: bool = False  #: has it had a job of the project?
    ended: int = 0  #: jobs whose size is known
    busy: float = 0.0  #: seconds of computing, mean
    deviation: float = 0.0
    time_left: float = 0.0  #: seconds from its arrival to its deadline
    correction: float = 1.0  #: size divided by the project's estimate
    by_app: dict[str, float] = field(
        default_factory=dict[str, float]
    )  #: the same per app, where there are several
    hopeless: bool = False  #: none of its jobs could have been in time here


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectHistory:
    """The latest jobs of a project."""

    jobs: tuple[PastJob, ...] = ()
    estimate: float = 0.0  #: of the job that came last
    latency_bound: float = 0.0  #: ... and its bound; 0 = no job was seen yet

    def after_job(self, job: PastJob) -> ProjectHistory:
        """Return what is known after a job."""
        return replace(self, jobs=(*self.jobs[1 - MEMORY :], job))

    def after_delivery(self, *, estimate: float, latency_bound: float) -> ProjectHistory:
        """Return what is known after a job came in."""
        if (estimate, latency_bound) == (self.estimate, self.latency_bound):
            return self
        return replace(self, estimate=estimate, latency_bound=latency_bound)

    def outlook(self, fits: Callable[[float, float], bool]) -> Outlook:
        """Return what to expect; ``fits`` says whether so much computing can be done in so many seconds.

        Jobs that do not fit are given up or run for want of better ones, so the others are what counts.
        """
        if not self.latency_bound:
            return Outlook()
        fitting = [job for job in self.jobs if not job.given_up and fits(job.size, job.latency_bound)]
        hopeless = len(self.jobs) >= KNOWN and len(fitting) < HARDLY_ANY * len(self.jobs)
        kept = fitting or self.jobs
        if len(self.jobs) < KNOWN:
            kept = [job for job in kept if job.size > AT_ONCE * job.estimate]
        if not kept:
            ended = len(self.jobs)
            return Outlook(known=True, ended=ended, busy=self.estimate, time_left=self.latency_bound)
        mean = math.fsum([job.size for job in kept]) / len(kept)
        variance = math.fsum([(job.size - mean) ** 2 for job in kept]) / len(kept)
        estimated = math.fsum([job.estimate for job in kept]) / len(kept)
        apps = {job.app for job in kept}
        return Outlook(
            known=True,
            ended=len(self.jobs),
            busy=mean,
            deviation=math.sqrt(variance),
            time_left=self.latency_bound,
            correction=mean / estimated if estimated > 0.0 else 1.0,
            by_app={app: _correction([job for job in kept if job.app == app]) for app in apps}
            if len(apps) > 1
            else {},
            hopeless=hopeless,
        )


def _correction(jobs: Sequence[PastJob]) -> float:
    estimated = math.fsum([job.estimate for job in jobs])
    return math.fsum([job.size for job in jobs]) / estimated if estimated > 0.0 else 1.0
