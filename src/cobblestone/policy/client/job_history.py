"""What a client learns of a project's jobs: how large they are compared with the project's estimates, and how
long they keep a processor busy here (CS3, WF3).

The duration correction factor remembers one number and follows the largest job at once, so after one giant
the client takes all jobs for giants.  Here the last sizes themselves are kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

#: Jobs remembered per project.
MEMORY = 64
#: CPU seconds after which a job's own progress says how long it is.
PROBE_SECONDS = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobHistory:
    """The latest jobs of a project."""

    ratios: tuple[float, ...] = ()  #: true size divided by the project's estimate
    estimate: float = 0.0  #: CPU seconds, the project's latest estimate, uncorrected
    latency_bound: float = 0.0  #: seconds, of the latest job; 0 = no job was seen yet

    def after_job(self, ratio: float) -> JobHistory:
        """Return what is known after a job of ``ratio`` times its estimate."""
        return replace(self, ratios=(*self.ratios[1 - MEMORY :], ratio))

    def after_delivery(self, *, estimate: float, latency_bound: float) -> JobHistory:
        """Return what is known after a job came in."""
        return replace(self, estimate=estimate, latency_bound=latency_bound)

    def can_be_in_time(self, fits: Callable[[float], bool]) -> bool:
        """Tell whether some jobs can; ``fits`` says it of so many CPU seconds.  Unknown jobs are given the chance."""
        return not self.ratios or fits(self.estimate) or any(fits(r * self.estimate) for r in self.ratios)

    def busy_seconds(self, fits: Callable[[float], bool]) -> tuple[float, float]:
        """Return mean and standard deviation of the CPU seconds for which a job keeps a processor busy.

        Jobs that cannot be in time are given up as soon as that shows.  If all so far were like that, the project's
        estimate counts as one more job; if that does not fit either, there is nothing better to do than to run them.
        """
        if not self.ratios:
            return self.estimate, 0.0
        sizes = [ratio * self.estimate for ratio in self.ratios]
        if not any(map(fits, sizes)):
            sizes.append(self.estimate)
        kept = [size if fits(size) else min(size, PROBE_SECONDS) for size in sizes]
        if not any(map(fits, sizes)):
            kept = sizes[:-1]
        mean = math.fsum(kept) / len(kept)
        variance = math.fsum((size - mean) ** 2 for size in kept) / len(kept)
        return mean, math.sqrt(variance)

    def least_seconds(self) -> float:
        """Return the CPU seconds that nine jobs of ten need at least; 0 while too little is known."""
        if len(self.ratios) < 5:
            return 0.0
        return sorted(self.ratios)[len(self.ratios) // 10] * self.estimate


def remaining_by_progress(*, estimate: float, used: float, fraction_done: float) -> float:
    """Return the CPU seconds that a job still needs.

    Its own progress is believed once it has run for :data:`PROBE_SECONDS`; before, ``estimate`` is.
    """
    if fraction_done >= 1.0:
        return 0.0
    if used >= PROBE_SECONDS and fraction_done > 0.0:
        return used / fraction_done - used
    return max(estimate - used, 0.1 * estimate)
