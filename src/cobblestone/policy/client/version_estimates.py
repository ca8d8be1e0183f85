"""How much longer or shorter jobs take than their project says, learned per app version.

A duration correction factor is one number for a whole project: one app spoils the estimates of the other, it jumps up with a
single long job, and projects may switch it off.  Here the last ratios of true to estimated time are kept per app version and
their median is used.  Jobs that end long before the median, because they found nothing to do, count only once they are the rule.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

#: Ratios remembered per app version.
MEMORY = 19
#: A job below this part of the median has ended early.
EARLY = 0.1
LOWEST, HIGHEST = 0.01, 100.0


@dataclass(slots=True)
class VersionHistory:
    """The latest jobs of an app version."""

    ratios: tuple[float, ...] = ()

    def after_job(self, *, actual: float, estimate: float) -> VersionHistory:
        """Return what is known after a job that took ``actual`` instead of ``estimate`` seconds."""
        if estimate <= 0.0:
            return self
        ratio = min(HIGHEST, max(LOWEST, actual / estimate))
        return VersionHistory((*self.ratios[1 - MEMORY :], ratio))

    @property
    def correction(self) -> float | None:
        """The factor for the next job's estimate; None while nothing is known."""
        if not self.ratios:
            return None
        middle = statistics.median(self.ratios)
        usual = [ratio for ratio in self.ratios if ratio >= EARLY * middle]
        return statistics.median(usual)
