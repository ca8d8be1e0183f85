"""What a client learns of an app's jobs (CS3, WF3): how large they are compared with the project's estimates, and
what the progress that they report is worth.

Nothing that an app says of its progress is believed because it is said.  At every reading the total that the fraction
foretells (time used / fraction) is noted; when the job has ended, it is compared with the truth.  Apps are judged band
by band of the fraction, so an app that runs unevenly, begins in the middle, or stays at 99 % is understood or ignored, but
cannot mislead twice.  Where an app's progress is distorted but grows, its *curve* still tells how far a job is at most: not
farther than finished jobs were when they said the same or a little more.  Sizes are kept as they were, since a correction factor
that remembers one number takes all jobs for the largest.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from cobblestone.domain.sums import float_sum
from cobblestone.policy.client.estimates import remaining_2007
from cobblestone.policy.client.progress_trials import Trials

#: Jobs remembered per app.
MEMORY = 64
#: Finished jobs before the spread of an app's sizes counts as known.
KNOWN = 5
#: Part of the jobs that may be smaller than what counts as the least size.
RARE = 0.05
#: Bands of the reported fraction begin here; a smaller fraction says nothing.
BANDS = (0.0001, 0.005, 0.02, 0.1, 0.25, 0.5, 0.75, 0.9)
#: Stands for the band before the first.
NOTHING_YET = -1
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
#: Readings of the progress curve that are remembered per app.
CURVE = 256
#: Of the readings at the same fraction or above, so many of the nearest bound how far a job can be ...
NEAREST = 8
#: ... and with fewer than these nothing is known.
FEWEST_NEAR = 4
#: A job that is longer than all before it is taken to need at least this part of its time once more ...
LEAST_EXCESS = 0.1
#: ... and probably this part.
LIKELY_EXCESS = 0.5


class BandReadings(NamedTuple):
    """What a job reported in one band of fractions: each time the fraction and the seconds used until then."""

    band: int
    first: tuple[float, float]
    last: tuple[float, float]


class CurvePoint(NamedTuple):
    """A fraction that a job reported, and how far it was in truth."""

    fraction: float
    part: float  #: of its time, when it last said no more than that
    until: float  #: ... when it was next seen to say more, or had ended


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
    readings: tuple[CurvePoint, ...] = ()  #: latest last
    curve: tuple[CurvePoint, ...] = ()  #: the same in order of the fraction
    misled: tuple[
        bool, ...
    ] = ()  #: per job that ended: was it farther than the curve of those before allows?
    trials: Trials = Trials()
    truthful: bool = False
    """Progress was true wherever it was read.  Only then is a job given up because of it; what is distorted evenly serves
    to guess how long a job will take.
    """

    def after_job(self, ratio: float, readings: Sequence[BandReadings], total: float) -> AppHistory:
        """Return what is known after a job of ``ratio`` times its estimate, in truth ``total`` seconds, with what it reported."""
        ratios = (*self.ratios, ratio)
        ordered = list(self.ordered)
        if len(ratios) > MEMORY:
            ordered.remove(ratios[0])
            ratios = ratios[1:]
        insort(ordered, ratio)
        truths = list(self.truths)
        if total <= 0.0:  # it had nothing to do, whatever it said
            readings = ()
        for band, first, last in readings:
            if band == NOTHING_YET:
                continue
            # the last one tells of progress that stands still while the job goes on
            truth = max([total * fraction / used for fraction, used in (first, last)], key=_error)
            truths[band] = (*truths[band][1 - MEMORY :], truth)
        points = _points(readings, total)
        known = (*self.readings, *points)[-CURVE:]
        misled = any(p.part > TRUE_PROGRESS * (self._farthest(p.fraction) or 1.0) for p in points)
        return AppHistory(
            ratios=ratios,
            ordered=tuple(ordered),
            truths=tuple(truths),
            trusts=_trusts(truths),
            readings=known,
            curve=tuple(sorted(known)),
            misled=(*self.misled[1 - MEMORY :], misled),
            trials=self.trials.after_job(misled=misled),
            truthful=all(_is_true(min(seen), max(seen)) for seen in truths if seen),
        )

    def with_trials(self, trials: Trials) -> AppHistory:
        """Return the same with what is believed now."""
        return replace(self, trials=trials)

    def need(self, *, estimate: float, used: float, fraction: float | None) -> Need:
        """Return what a job still needs; ``estimate`` is the project's for the whole job, ``used`` its time so far."""
        by_sizes = self.by_sizes(estimate, used, fraction)
        by_progress = self._by_progress(used, fraction)
        if by_progress is not None and self.truthful:
            return by_progress
        least = self._by_curve(used, fraction)
        # an app whose progress has misled foretells no job that is larger than all before it
        surely = min(least, max(0.0, self.ordered[-1] * estimate - used)) if any(self.misled) else least
        if by_progress is None:
            return Need(likely=max(by_sizes.likely, least), least=max(by_sizes.least, surely))
        surely = max(surely, min(by_progress.least, by_sizes.least))
        return Need(likely=max(by_progress.likely, least), least=surely)

    def _by_curve(self, used: float, fraction: float | None) -> float:
        """Return what a job needs if it is as far as any that reported so much; 0 if nothing is known."""
        if used < FIRST_READING or len(self.ordered) < KNOWN:
            return 0.0
        done = self._farthest(said(fraction))
        return 0.0 if done is None else used / done - used

    def _farthest(self, fraction: float) -> float | None:
        """Return how far a job can be that says so much; None if nothing is known."""
        near = self.curve[bisect_left(self.curve, (fraction, 0.0, 0.0)) :]
        if len(near) < FEWEST_NEAR:
            return None
        last = near[:NEAREST][-1].fraction
        # a job that says the same as another did may go on saying it for as long
        return max([p.until if p.fraction == fraction else p.part for p in near if p.fraction <= last])

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

    def by_sizes(self, estimate: float, used: float, fraction: float | None) -> Need:
        """Return what a job still needs by the sizes of those that have ended; its progress counts while these are few."""
        ordered = self.ordered
        if not ordered or estimate <= 0.0:
            return Need(likely=_by_estimate(estimate, used, fraction), least=0.0)
        place = bisect_right(ordered, used / estimate)
        larger = ordered[place:]
        likely = float_sum(larger) / len(larger) * estimate - used if larger else LIKELY_EXCESS * used
        if len(ordered) < KNOWN:
            mean = float_sum(ordered) / len(ordered)
            return Need(likely=max(likely, _by_estimate(mean * estimate, used, fraction)), least=0.0)
        if not larger:
            return Need(likely=likely, least=LEAST_EXCESS * used)
        return Need(likely=likely, least=larger[int(len(larger) * RARE)] * estimate - used)


def _points(readings: Sequence[BandReadings], total: float) -> list[CurvePoint]:
    said_when = sorted({(used, fraction) for _, first, last in readings for fraction, used in (first, last)})
    times = [used for used, _ in said_when]
    points: list[CurvePoint] = []
    for _, fraction in said_when:
        last = max([k for k, (_, other) in enumerate(said_when) if other <= fraction])
        until = times[last + 1] if last + 1 < len(times) else total
        points.append(CurvePoint(fraction, times[last] / total, until / total))
    return sorted(points)


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
            trust = (low, float_sum(seen) / len(seen)) if high <= TRUSTED_SPREAD * low else None
            above = trust if _is_true(low, high) else None
        else:
            trust = above
        found.append(trust)
    return tuple(reversed(found))


def _error(truth: float) -> float:
    return max(truth, 1.0 / truth)


def _is_true(low: float, high: float) -> bool:
    return low * TRUE_PROGRESS >= 1.0 and high <= TRUE_PROGRESS


def said(fraction: float | None) -> float:
    """Return a reported fraction, 0 if there is none worth the name: that says something too, of an app whose jobs report one
    sooner or later.
    """
    return 0.0 if fraction is None or fraction < BANDS[0] else fraction


def note_progress(readings: dict[int, BandReadings], used: float, fraction: float | None) -> None:
    """Take note of what a job that is not done yet reports."""
    if used < FIRST_READING or (fraction is not None and fraction >= 1.0):
        return
    band = band_of(used, fraction)
    band = NOTHING_YET if band is None else band
    now = (said(fraction), used)
    readings[band] = BandReadings(band, readings[band].first if band in readings else now, now)


def band_of(used: float, fraction: float | None) -> int | None:
    """Return the band of a reported fraction; None if it says nothing (yet)."""
    if fraction is None or used < FIRST_READING or not BANDS[0] <= fraction < 1.0:
        return None
    return bisect_right(BANDS, fraction) - 1
