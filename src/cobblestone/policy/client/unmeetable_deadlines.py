"""Which jobs to give up because they will be late whatever is done, and how many (CS3).

A late job earns nothing and keeps a processor from jobs that could be in time.  A job counts as hopeless if it would be
late even with luck: if the host were off much less than usual, ran only this job, and the job needed no more than the
least that its app's jobs need.  A project learns early that it has to send the job again; but it counts a job that is given
up as an error of the host, so there is an allowance per project and day, and what exceeds it is kept for processors that
have nothing better to do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from cobblestone.policy.client.interruptions import Interruptions

#: Standard deviations of luck with the host's off-times that are granted to a job.
LUCK = 2.0
#: Jobs of one project that may be given up in a day, per processor.
GIVEN_UP_PER_DAY = 2.0
SECONDS_PER_DAY = 86400.0


def can_be_in_time(
    computing: float, seconds_left: float, interruptions: Interruptions, *, luck: float = LUCK
) -> bool:
    """Tell whether ``computing`` CPU seconds can be done within ``seconds_left`` of wall time, with some luck."""
    return interruptions.wall_seconds(computing, deviations=-luck) <= seconds_left


@dataclass(frozen=True, slots=True, kw_only=True)
class GivingUp:
    """How many jobs of one project may still be given up; a day's allowance at most."""

    left: float = 0.0
    since: float | None = None  #: seconds; None: nothing was given up yet

    def at(self, now: float, *, ncpus: int) -> GivingUp:
        """Return the allowance at a time; it grows evenly."""
        full = GIVEN_UP_PER_DAY * ncpus
        if self.since is None:
            return GivingUp(left=full, since=now)
        days = max(0.0, now - self.since) / SECONDS_PER_DAY  # a clock that is set back takes nothing away
        return GivingUp(left=min(full, self.left + days * full), since=now)

    @property
    def possible(self) -> bool:
        """Whether one more may be given up."""
        return self.left >= 1.0

    def after_one(self) -> GivingUp:
        """Return the allowance after one job was given up."""
        return replace(self, left=self.left - 1.0)
