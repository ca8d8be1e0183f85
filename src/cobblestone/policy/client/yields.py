"""What comes of the computing that a project gets (CS3): a project that wastes most of its time weighs less.

A share is a promise to a project, and what is late earns it nothing.  Where part of a project's jobs cannot be in time, and
nobody knows beforehand which, all of its share would be paid in waste.  So its share is weighed with the part of its
time that was useful, to the power of the volunteer's waste aversion: at 0 shares are kept whatever comes of them, the larger
it is, the less is wasted and the more shares are violated.  It never falls below :data:`FLOOR` of the share, and what was
long ago is forgotten, so each project has its second chance.
"""

from __future__ import annotations

import math

from cobblestone.domain.values import value

#: Power of the useful part by which a share is weighed, unless the volunteer says otherwise.
WASTE_AVERSION = 2.0
#: A project keeps at least this part of its share.
FLOOR = 0.1
#: Seconds of computing that count as useful before anything is known.
TRUST = 86400.0
#: Seconds after which a result has lost all but 1/e of its weight.
MEMORY = 20 * 86400.0


@value()
class ProjectYield:
    """Seconds of computing of a project's jobs that ended; they fade."""

    useful: float = 0.0
    wasted: float = 0.0
    at: float = 0.0

    def after_job(self, seconds: float, *, useful: bool, now: float) -> ProjectYield:
        """Return what is known after a job ended, in time or not."""
        keep = math.exp(-max(0.0, now - self.at) / MEMORY)
        return ProjectYield(
            self.useful * keep + (seconds if useful else 0.0),
            self.wasted * keep + (0.0 if useful else seconds),
            now,
        )

    def weight(self, *, waste_aversion: float = WASTE_AVERSION) -> float:
        """Return by what its share is to be multiplied."""
        useful = self.useful + TRUST
        return max(FLOOR, (useful / (useful + self.wasted)) ** waste_aversion)
