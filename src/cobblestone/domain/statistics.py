"""Averages as values: recent average (RAC and the like), credit totals, running mean and variance, kinds of contribution."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from cobblestone.domain.values import value


class Contribution(StrEnum):
    """A kind of contribution."""

    STORAGE = "storage"  #: byte-days of files that the project asked to keep, as far as they were proven
    RECEIVED = "received"  #: bytes of inputs that the scheduler asked the computer to fetch
    SENT = "sent"  #: bytes of outputs that the server took in


#: No sample counts as more: its square, and sums of such squares, are still finite.
LARGEST_SAMPLE = 1e100


@value()
class RecentAverage:
    """An exponentially decaying rate, in units per day, as it stood at ``time`` (Unix seconds; 0 = never)."""

    value: float = 0.0
    time: float = 0.0


@value()
class CreditStatement:
    """Total and recent average credit of a host, user, team or app version."""

    total: float = 0.0
    recent: RecentAverage = RecentAverage()


@dataclass(frozen=True, slots=True, kw_only=True)
class AveragingRule:
    """How a `RunningAverage` takes samples: a straight mean first, an exponential one after.

    Source: BOINC's ``lib/average.h`` and the CreditNew page.
    """

    threshold: int  #: number of the first sample that is weighted exponentially
    weight: float  #: weight of each sample from then on
    limit: float = 10.0  #: later samples count as at most this multiple of the mean


#: Averages of one app version on one host.
HOST_VERSION_RULE = AveragingRule(threshold=20, weight=0.01)

#: Averages of one app version over all hosts.
VERSION_RULE = AveragingRule(threshold=100, weight=0.001)


@value()
class RunningAverage:
    """Mean and variance of samples, with their number; a single sample cannot move the mean far.

    An *increment* is a tuple of samples.  Increments merge by concatenation and are applied to whatever
    the average is by then (`with_samples`), so that several validators add theirs without losing any.
    """

    n: int = 0
    mean: float = 0.0
    variance: float = 0.0
    q: float = 0.0  #: sum of squared deviations, while the mean is a straight one

    def updated(self, sample: float, rule: AveragingRule) -> RunningAverage:
        """Return the average with one sample more; negative and non-finite samples are ignored."""
        if not 0.0 <= sample < math.inf:
            return self
        if self.n > 0 and self.mean != 0.0:
            sample = min(sample, rule.limit * self.mean)
        sample = min(sample, LARGEST_SAMPLE)
        n = self.n + 1
        delta = sample - self.mean
        if n < rule.threshold:
            mean = self.mean + delta / n
            q = self.q + delta * (sample - mean)
            return RunningAverage(n, mean, q / n, q)
        mean = self.mean + rule.weight * delta
        return RunningAverage(n, mean, self.variance + rule.weight * (delta * delta - self.variance), self.q)

    def with_samples(self, samples: Iterable[float], rule: AveragingRule) -> RunningAverage:
        """Return the average after an increment, sample by sample."""
        average = self
        for sample in samples:
            average = average.updated(sample, rule)
        return average
