"""Causes of late jobs and their consequences (CS3): interruptions, impossible deadlines, useful parts of shares.

How long a computation takes on this host, with the times when it is off: mean and spread (CS3, WF3).

The fraction of time that a host computes says how long a job takes on average.  Whether a job will be in time
is a question of the spread as well: a host that is off for some minutes every hour is predictable, one that
is off for a weekend is not.  So the client keeps the number, the sum and the sum of squares of its off-times.

Model: off-times begin at random while the host computes (a Poisson process), so the wall time for ``c``
seconds of computing has the mean ``c (1 + r m)`` and the variance ``c r q``, where ``r`` is the number of
off-times per second of computing, ``m`` their mean and ``q`` the mean of their squares.  For exponential on-
and off-times this is exact.

Which jobs to give up because they will be late whatever is done, and how many (CS3).

A late job earns nothing and keeps a processor from jobs that could be in time.  A job counts as hopeless if it would be
late even with luck: if the host were off much less than usual, ran only this job, and the job needed no more than the
least that its app's jobs need.  A project learns early that it has to send the job again; but it counts a job that is given
up as an error of the host, so there is an allowance per project and day, and what exceeds it is kept for processors that
have nothing better to do.

What comes of the computing that a project gets (CS3): a project that wastes most of its time weighs less.

A share is a promise to a project, and what is late earns it nothing.  Where part of a project's jobs cannot be in time, and
no one knows beforehand which, all of its share would be paid in waste.  So its share is weighed with the part of its
time that was useful, to the power of the volunteer's waste aversion: at 0 shares are kept whatever comes of them, the larger
it is, the less is wasted and the more shares are violated.  It never falls below :data:`FLOOR` of the share, and what was
long ago is forgotten, so each project has its second chance.
"""

from __future__ import annotations

import math
from dataclasses import replace

from cobblestone.domain.values import DAY, value

#: Seconds of computing after which an observation has lost all but 1/e of its weight.
MEMORY = 30 * 86400.0

#: After fewer off-times than this no one knows what luck there may be.
FEW_GAPS = 3.0


@value(kw_only=True)
class Interruptions:
    """Statistics on the host's off-times; sums fade with :data:`MEMORY`."""

    on_seconds: float = 0.0
    gaps: float = 0.0
    gap_seconds: float = 0.0
    gap_squares: float = 0.0

    def after_gap(self, *, on_seconds: float, gap_seconds: float) -> Interruptions:
        """Return the statistics after ``on_seconds`` of computing time and an off-time that followed it."""
        keep = math.exp(-max(0.0, on_seconds) / MEMORY)
        return Interruptions(
            on_seconds=self.on_seconds * keep + max(0.0, on_seconds),
            gaps=self.gaps * keep + 1.0,
            gap_seconds=self.gap_seconds * keep + gap_seconds,
            gap_squares=self.gap_squares * keep + gap_seconds * gap_seconds,
        )

    def wall_seconds(self, computing: float, *, deviations: float = 0.0) -> float:
        """Return the wall time for ``computing`` seconds, so many standard deviations above (or below) its mean.

        Never less than ``computing``.
        """
        on = self.on_seconds
        if on <= 0.0 or (deviations < 0.0 and self.gaps < FEW_GAPS):
            return computing
        wall = computing * (1.0 + self.gap_seconds / on)
        if deviations and computing > 0.0:
            wall += deviations * math.sqrt(computing * self.gap_squares / on)
        return wall if wall > computing else computing


#: Standard deviations of luck with the host's off-times that are granted to a job.
LUCK = 2.0
#: Jobs of one project that may be given up in a day, per processor.
GIVEN_UP_PER_DAY = 2.0


def can_be_in_time(
    computing: float, seconds_left: float, interruptions: Interruptions, *, luck: float = LUCK
) -> bool:
    """Tell whether ``computing`` CPU seconds can be done within ``seconds_left`` of wall time, with some luck."""
    return interruptions.wall_seconds(computing, deviations=-luck) <= seconds_left


@value(kw_only=True)
class GivingUp:
    """How many more jobs of one project may be given up; a day's allowance at most."""

    left: float = 0.0
    since: float | None = None  #: seconds; None: nothing was given up yet

    def at(self, now: float, *, ncpus: int) -> GivingUp:
        """Return the allowance at a time; it grows evenly."""
        full = GIVEN_UP_PER_DAY * ncpus
        if self.since is None:
            return GivingUp(left=full, since=now)
        days = max(0.0, now - self.since) / DAY  # a clock that is set back takes nothing away
        return GivingUp(left=min(full, self.left + days * full), since=now)

    @property
    def possible(self) -> bool:
        """Return whether one more may be given up."""
        return self.left >= 1.0

    def after_one(self) -> GivingUp:
        """Return the allowance after one job was given up."""
        return replace(self, left=self.left - 1.0)


#: Power of the useful part by which a share is weighed, unless the volunteer says otherwise.
WASTE_AVERSION = 2.0
#: A project keeps at least this part of its share.
FLOOR = 0.1
#: Seconds of computing that count as useful before anything is known.
TRUST = 86400.0
#: Seconds after which a result has lost all but 1/e of its weight.
YIELD_MEMORY = 20 * 86400.0


@value()
class ProjectYield:
    """Seconds of computing of a project's jobs that ended; they fade."""

    useful: float = 0.0
    wasted: float = 0.0
    at: float = 0.0

    def after_job(self, seconds: float, *, useful: bool, now: float) -> ProjectYield:
        """Return the yield after a job ended, in time or not."""
        keep = math.exp(-max(0.0, now - self.at) / YIELD_MEMORY)
        return ProjectYield(
            self.useful * keep + (seconds if useful else 0.0),
            self.wasted * keep + (0.0 if useful else seconds),
            now,
        )

    def weight(self, *, waste_aversion: float = WASTE_AVERSION) -> float:
        """Return by what its share is to be multiplied."""
        useful = self.useful + TRUST
        return max(FLOOR, (useful / (useful + self.wasted)) ** waste_aversion)
