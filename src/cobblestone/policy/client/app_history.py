"""What a client learns of an app's jobs (CS3, WF3): how large they are compared with the project's estimates, and
what the progress that they report is worth.

Nothing that an app says of its progress is believed because it is said.  At every reading the total that the fraction
foretells (time used / fraction) is noted; when the job has ended, it is compared with the truth.  Apps are judged band
by band of the fraction, so an app that runs unevenly, begins in the middle, or stays at 99 % is understood or ignored, but
cannot mislead twice.  Sizes are kept as they were, since a correction factor that remembers one number takes all jobs for
the largest.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass

from cobblestone.policy.client.estimates import remaining_2007

#: Jobs remembered per app.
MEMORY = 64
#: Finished jobs before the spread of an app's sizes counts as known.
KNOWN = 5
#: Part of the jobs that may be smaller than what counts as the least size.
RARE = 0.05
#: Bands of the reported fraction begin here; a smaller fraction says nothing.
BANDS = (0.0001, 0.005, 0.02, 0.1, 0.25, 0.5, 0.75, 0.9)
#: Seconds of computing before a fraction is read.
FIRST_READING = 120.0
#: When the progress of a job that has just begun is looked at.
PROBE_SECONDS = 300.0
#: Readings of a band that make it trusted ...
TRUSTED_READINGS = 3
#: ... if the truth was never more than so many times another reading's.
TRUSTED_SPREAD = 1.5
#: An app whose progress was true in a band, but for this, is believed in the bands below before it was seen there.
TRUE_PROGRESS = 1.1
#: A job that is longer than all before it is taken to need at least this part of its time once more ...
LEAST_EXCESS = 0.1
#: ... and probably this part.
LIKELY_EXCESS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Seconds of computing that a job still needs."""

    likely: float
    least: float  #: only one job of twenty needs less; 0 while too little is known


@dataclass(frozen=True, slots=True, kw_only=True)
class AppHistory:
    """The latest jobs of an app."""

    ratios: tuple[float, ...] = ()  #: true size divided by the project's estimate, in order of time
    ordered: tuple[float, ...] = ()  #: the same in order of size
    truths: tuple[tuple[float, ...], ...] = ((),) * len(BANDS)
    """Per band of the fraction: true total divided by the foretold one, latest last."""
    trusts: tuple[tuple[float, float] | None, ...] = (None,) * len(BANDS)
    """Least and mean of the truths of each band that is trusted."""
    truthful: bool = False
    """Progress was true wherever it was read.  Only then is a job given up because of it; what is distorted evenly serves
    to guess how long a job will take.
    """

    def after_job(self, ratio: float, foretold: Sequence[tuple[int, float]], total: float) -> AppHistory:
        """Return what is known after a job of ``ratio`` times its estimate, in truth ``total`` seconds.

        ``foretold``: bands, and the totals that the job's progress foretold in them.
        """
        ratios = (*self.ratios, ratio)
        ordered = list(self.ordered)
        if len(ratios) > MEMORY:
            ordered.remove(ratios[0])
            ratios = ratios[1:]
        insort(ordered, ratio)
        truths = list(self.truths)
        for band, said in foretold:
            truths[band] = (*truths[band][1 - MEMORY :], total / said)
        return AppHistory(
            ratios=ratios,
            ordered=tuple(ordered),
            truths=tuple(truths),
            trusts=_trusts(truths),
            truthful=all(_is_true(min(seen), max(seen)) for seen in truths if seen),
        )

    def need(self, *, estimate: float, used: float, fraction: float | None) -> Need:
        """Return what a job still needs; ``estimate`` is the project's for the whole job, ``used`` its time so far."""
        by_sizes = self._by_sizes(estimate, used, fraction)
        by_progress = self._by_progress(used, fraction)
        if by_progress is None:
            return by_sizes
        if self.truthful:
            return by_progress
        return Need(likely=by_progress.likely, least=min(by_progress.least, by_sizes.least))

    def _by_progress(self, used: float, fraction: float | None) -> Need | None:
        band = band_of(used, fraction)
        if band is None or fraction is None:
            return None
        trust = self.trusts[band]
        if trust is None:
            return None
        low, mean = trust
        total = used / fraction
        return Need(likely=max(0.0, mean * total - used), least=max(0.0, low * total - used))

    def _by_sizes(self, estimate: float, used: float, fraction: float | None) -> Need:
        ordered = self.ordered
        if not ordered or estimate <= 0.0:
            return Need(likely=_by_estimate(estimate, used, fraction), least=0.0)
        place = bisect_right(ordered, used / estimate)
        larger = ordered[place:]
        likely = sum(larger) / len(larger) * estimate - used if larger else LIKELY_EXCESS * used
        if len(ordered) < KNOWN:
            mean = sum(ordered) / len(ordered)
            return Need(likely=max(likely, _by_estimate(mean * estimate, used, fraction)), least=0.0)
        if not larger:
            return Need(likely=likely, least=LEAST_EXCESS * used)
        return Need(likely=likely, least=larger[int(len(larger) * RARE)] * estimate - used)


def _by_estimate(estimate: float, used: float, fraction: float | None) -> float:
    """Return what a job of an app that is not known yet probably needs: better too much than too little."""
    if fraction is None or not BANDS[0] <= fraction < 1.0 or used < FIRST_READING:
        return max(estimate - used, 0.1 * estimate)
    return remaining_2007(estimate=estimate, used=used, fraction_done=fraction)


def _trusts(truths: Sequence[Sequence[float]]) -> tuple[tuple[float, float] | None, ...]:
    found: list[tuple[float, float] | None] = []
    above: tuple[float, float] | None = None
    for seen in reversed(truths):
        if len(seen) >= TRUSTED_READINGS:
            low, high = min(seen), max(seen)
            trust = (low, sum(seen) / len(seen)) if high <= TRUSTED_SPREAD * low else None
            above = trust if _is_true(low, high) else None
        else:
            trust = above
        found.append(trust)
    return tuple(reversed(found))


def _is_true(low: float, high: float) -> bool:
    return low * TRUE_PROGRESS >= 1.0 and high <= TRUE_PROGRESS


def band_of(used: float, fraction: float | None) -> int | None:
    """Return the band of a reported fraction; None if it says nothing (yet)."""
    if fraction is None or used < FIRST_READING or not BANDS[0] <= fraction < 1.0:
        return None
    return bisect_right(BANDS, fraction) - 1
