"""Estimated duration of a job: duration correction factor and remaining time (JC1, JC2), and statistics per app version.

How long a job will take: duration correction factor and remaining time (JC1, JC2).

Source: Kondo et al. 2007, section 2.4; BOINC's ``work_fetch``, ``cpu_sched`` and ``client_types`` of 2007
and today.  Where the paper's ``F*A + (1-F)*B`` and the code differ, the code is followed (A and B both read
as remaining times).

How much longer or shorter jobs take than their project says, learned per app version.

A duration correction factor is one number for a whole project: one app spoils the estimates of the other, it jumps up with a
single long job, and projects may switch it off.  Here the last ratios of true to estimated time are kept per app version and
their median is used.  Jobs that end long before the median, because they found nothing to do, count only once they are the rule.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from functools import lru_cache

from cobblestone.policy.client.core.state import LONGEST

DCF_MIN = 0.01
DCF_MAX = 100.0
#: Between these bounds a DCF is trusted by work fetch.
DCF_TRUSTED = (0.02, 80.0)
#: From here on all jobs of the project count as endangered.
DCF_ENDANGERED = 90.0

#: A job that has run for as long as its app version's last one needed has not run for longer, whatever rounding says: jobs
#: that began together meet this again and again.
TIE = 1.0 + 1e-9
#: So small a part of an estimate has lost its digits: numbers near the least one are multiples of it.
ROUNDED_AWAY = 1e-300


def update_dcf(dcf: float, actual: float, raw_estimate: float) -> float:
    """Return the duration correction factor after a successful job.

    ``actual`` and ``raw_estimate`` (uncorrected) are in seconds of the same kind.  The factor rises at once
    and falls slowly: underestimates are dangerous, overestimates are not; much shorter jobs than expected
    are hardly believed.
    """
    if raw_estimate <= 0:
        return dcf
    ratio = actual / raw_estimate
    against_corrected = ratio / dcf
    if against_corrected > 1.1:
        new = ratio
    elif against_corrected < 0.1:
        new = 0.99 * dcf + 0.01 * ratio
    else:
        new = 0.9 * dcf + 0.1 * ratio
    return min(DCF_MAX, max(DCF_MIN, new))


def remaining_2007(estimate: float, used: float, fraction_done: float) -> float:
    """Return estimated CPU seconds to completion (published family).

    ``estimate`` is the corrected estimate of the whole job, ``used`` the CPU seconds so far.
    """
    if fraction_done >= 1.0:
        return 0.0
    if fraction_done <= 0.0:
        return estimate
    left = 1.0 - fraction_done
    by_fraction = min(used / fraction_done, LONGEST) - used
    return fraction_done * by_fraction + left * left * estimate


def total_elapsed(
    *,
    estimate: float,
    elapsed: float,
    fraction_done: float | None,
    elapsed_at_fraction: float | None = None,
    exact_fraction: bool = False,
) -> float:
    """Return the estimated total elapsed seconds of a job (today's family).

    ``estimate`` is the corrected estimate; ``elapsed_at_fraction`` the elapsed time when ``fraction_done``
    was last reported; ``exact_fraction`` means that the app vouches for its fractions.  Without a fraction
    the estimate is stretched so that it never runs out.
    """
    if not fraction_done or fraction_done <= 0.0:
        part = elapsed / estimate if estimate > 0.0 else 0.0
        return elapsed / -math.expm1(-part) if part > ROUNDED_AWAY else estimate
    fraction = min(1.0, fraction_done)
    by_fraction = min((elapsed if elapsed_at_fraction is None else elapsed_at_fraction) / fraction, LONGEST)
    if exact_fraction or elapsed > estimate * TIE:
        return by_fraction
    return fraction * by_fraction + (1.0 - fraction) * estimate


def remaining_elapsed(
    *,
    estimate: float,
    elapsed: float,
    fraction_done: float | None,
    elapsed_at_fraction: float | None = None,
    exact_fraction: bool = False,
) -> float:
    """Return the estimated elapsed seconds still to come (today's family); never negative."""
    if fraction_done is not None and fraction_done >= 1.0:
        return 0.0
    total = total_elapsed(
        estimate=estimate,
        elapsed=elapsed,
        fraction_done=fraction_done,
        elapsed_at_fraction=elapsed_at_fraction,
        exact_fraction=exact_fraction,
    )
    return max(0.0, total - elapsed)


#: Ratios remembered per app version.
VERSION_MEMORY = 19
#: A job below this part of the median has ended early.
EARLY = 0.1
LOWEST, HIGHEST = 0.01, 100.0


@dataclass(slots=True)
class VersionHistory:
    """The latest jobs of an app version."""

    ratios: tuple[float, ...] = ()

    def after_job(self, *, actual: float, estimate: float) -> VersionHistory:
        """Return the history after a job that took ``actual`` instead of ``estimate`` seconds."""
        if estimate <= 0.0:
            return self
        ratio = min(HIGHEST, max(LOWEST, actual / estimate))
        return VersionHistory((*self.ratios[1 - VERSION_MEMORY :], ratio))

    @property
    def correction(self) -> float | None:
        """The factor for the next job's estimate; None while nothing is known."""
        return _usual(self.ratios) if self.ratios else None


@lru_cache(maxsize=1024)
def _usual(ratios: tuple[float, ...]) -> float:
    """Return the median without jobs that ended early."""
    middle = statistics.median(ratios)
    return statistics.median([ratio for ratio in ratios if ratio >= EARLY * middle])
