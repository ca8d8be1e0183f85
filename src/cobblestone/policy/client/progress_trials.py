"""When progress alone may condemn a job (CS3): an app's claims are put to the test before they are believed.

A job may be called late although jobs like it would be in time, only because of the progress that it reports.  If that is
believed, the job is given up or starves, and nobody learns whether it told the truth: an app of which each third job lies
would lose each third job for ever.  So claims of an app are believed unseen only after some of its jobs have ended and none
of them misled, and only so many; the next such job runs on as if nothing was known.  If it turns out as large as it
seemed, more are believed unseen, with each trial that is passed; with one that fails trust begins anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

#: Jobs of an app that must have ended without one that misled before anything is believed unseen ...
HONEST_JOBS = 8
#: ... and jobs that are believed unseen then.
FIRST_BELIEVED = 6
#: Jobs that are believed unseen after a trial that is passed; twice as many after each further one ...
BELIEVED_AFTER_TRIAL = 4
#: ... but doubled at most so often.
MOST_DOUBLINGS = 6
#: A claim is true if the job needed this part of what it foretold at least.
NEARLY = 0.9


class Claim(NamedTuple):
    """What a job that seems late needs in all, at least; seconds of computing."""

    by_progress: float
    by_sizes: float
    certain: bool = False  #: it is late whatever it reports


@dataclass(frozen=True, slots=True, kw_only=True)
class Trials:
    """How far the claims of an app are believed."""

    honest: int = 0  #: jobs that have ended before one misled, up to :data:`HONEST_JOBS`
    passed: int = 0  #: trials since one has failed
    credit: int = 0  #: jobs that are still believed unseen

    @property
    def believed(self) -> bool:
        """Whether a job may be called late because of its progress alone."""
        return self.credit > 0

    def after_job(self, *, misled: bool) -> Trials:
        """Return what is believed after a job has ended, the progress of which may have misled."""
        if self.honest >= HONEST_JOBS:
            return self
        if misled:
            return replace(self, honest=HONEST_JOBS)
        credit = self.credit + (FIRST_BELIEVED if self.honest + 1 == HONEST_JOBS else 0)
        return replace(self, honest=self.honest + 1, credit=credit)

    def after_belief(self) -> Trials:
        """Return what is left after a job was called late unseen."""
        return replace(self, credit=max(0, self.credit - 1))

    def after_trial(self, claim: Claim, used: float, *, ended: bool) -> Trials:
        """Return what is believed after a job on trial has used so many seconds, and has ended or is too late.

        One that is too late without having outgrown the sizes of others proves nothing.
        """
        if used >= NEARLY * claim.by_progress or (not ended and used > claim.by_sizes):
            credit = BELIEVED_AFTER_TRIAL << min(self.passed, MOST_DOUBLINGS)
            return replace(self, passed=self.passed + 1, credit=self.credit + credit)
        return replace(self, honest=HONEST_JOBS, passed=0, credit=0) if ended else self
