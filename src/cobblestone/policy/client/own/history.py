"""Statistics on the jobs of an app and of a project (CS3, WF3), and when progress alone justifies giving up a job.

When progress alone may condemn a job (CS3): an app's claims are put to the test before they are believed.

A job may be called late although jobs like it would be in time, only because of the progress that it reports.  If that is
believed, the job is given up or starves, and no one learns whether it told the truth: an app of which each third job lies
would lose each third job for ever.  So claims of an app are believed unseen only after some of its jobs have ended and none
of them misled, and only so many; the next such job runs on as if nothing was known.  If it turns out as large as it
seemed, more are believed unseen, with each trial that is passed; with one that fails trust starts over.

What a client learns of an app's jobs (CS3, WF3): how large they are compared with the project's estimates, and
what the progress that they report is worth.

Nothing that an app says of its progress is believed because it is said.  At every reading the total that the fraction
foretells (time used / fraction) is noted; when the job has ended, it is compared with the truth.  Apps are judged band
by band of the fraction, so an app that runs unevenly, begins in the middle, or stays at 99 % is understood or ignored, but
cannot mislead twice.  Where an app's progress is distorted but grows, its *curve* still tells how far a job is at most: not
farther than finished jobs were when they said the same or a little more.  Sizes are kept as they were, since a correction factor
that remembers one number takes all jobs for the largest.

What a client learns of a project's jobs as a whole (CS3, WF3): how long they keep a processor, and whether any of
them can be in time on this host.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import NamedTuple

from cobblestone.domain.values import float_sum, value
from cobblestone.policy.client.estimates import remaining_2007

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


class ProgressClaim(NamedTuple):
    """The least total need of a job that seems late; seconds of computing."""

    by_progress: float
    by_sizes: float
    certain: bool = False  #: it is late whatever it reports


@value(kw_only=True)
class Trials:
    """How far the progress reports of an app are trusted."""

    honest: int = 0  #: jobs that have ended before one misled, up to :data:`HONEST_JOBS`
    passed: int = 0  #: trials since one has failed
    credit: int = 0  #: jobs that are still believed unseen

    @property
    def believed(self) -> bool:
        """Return whether a job may be called late because of its progress alone."""
        return self.credit > 0

    def after_job(self, *, misled: bool) -> Trials:
        """Return the trust after a job has ended, whose progress may have misled."""
        if self.honest >= HONEST_JOBS:
            return self
        if misled:
            return replace(self, honest=HONEST_JOBS)
        credit = self.credit + (FIRST_BELIEVED if self.honest + 1 == HONEST_JOBS else 0)
        return replace(self, honest=self.honest + 1, credit=credit)

    def after_belief(self) -> Trials:
        """Return the trust after a job was called late without a trial."""
        return replace(self, credit=max(0, self.credit - 1))

    def after_trial(self, claim: ProgressClaim, used: float, *, ended: bool) -> Trials:
        """Return the trust after a job on trial has used this many seconds, and has ended or is too late.

        One that is too late without having outgrown the sizes of others proves nothing.
        """
        if used >= NEARLY * claim.by_progress or (not ended and used > claim.by_sizes):
            credit = BELIEVED_AFTER_TRIAL << min(self.passed, MOST_DOUBLINGS)
            return replace(self, passed=self.passed + 1, credit=self.credit + credit)
        return replace(self, honest=HONEST_JOBS, passed=0, credit=0) if ended else self


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
    """A job's reports in one band of fractions: the fraction and the seconds used until then."""

    band: int
    first: tuple[float, float]
    last: tuple[float, float]


class CurvePoint(NamedTuple):
    """A fraction that a job reported, and how far it was in truth."""

    fraction: float
    part: float  #: of its time, when it last said no more than that
    until: float  #: ... when it was next seen to say more, or had ended


@value(kw_only=True)
class RemainingNeed:
    """Seconds of computing that a job still needs."""

    likely: float
    least: float  #: only one job of twenty needs less; 0 while too little is known


@value(kw_only=True)
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
    #: per job that ended: was it farther than the curve of those before allows?
    misled: tuple[bool, ...] = ()
    trials: Trials = Trials()
    truthful: bool = False
    """Progress was true wherever it was read.  Only then is a job given up because of it; what is distorted evenly serves
    to guess how long a job will take.
    """

    def after_job(self, ratio: float, readings: Sequence[BandReadings], total: float) -> AppHistory:
        """Return the history after a job of ``ratio`` times its estimate, in truth ``total`` seconds, with its reports."""
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

    def need(self, *, estimate: float, used: float, fraction: float | None) -> RemainingNeed:
        """Return the remaining need of a job; ``estimate`` is the project's for the whole job, ``used`` its time so far."""
        by_progress = self._by_progress(used, fraction)
        if by_progress is not None and self.truthful:
            return by_progress
        by_sizes = self.by_sizes(estimate, used, fraction)
        least = self._by_curve(used, fraction)
        # an app whose progress has misled foretells no job that is larger than all before it
        surely = min(least, max(0.0, self.ordered[-1] * estimate - used)) if any(self.misled) else least
        if by_progress is None:
            return RemainingNeed(likely=max(by_sizes.likely, least), least=max(by_sizes.least, surely))
        surely = max(surely, min(by_progress.least, by_sizes.least))
        return RemainingNeed(likely=max(by_progress.likely, least), least=surely)

    def _by_curve(self, used: float, fraction: float | None) -> float:
        """Return the need of a job if it is as far as any with this report; 0 if nothing is known."""
        if used < FIRST_READING or len(self.ordered) < KNOWN:
            return 0.0
        done = self._farthest(said(fraction))
        return 0.0 if done is None else used / done - used

    def _farthest(self, fraction: float) -> float | None:
        """Return the greatest possible progress of a job with this report; None if nothing is known."""
        curve = self.curve
        first = bisect_left(curve, (fraction, 0.0, 0.0))
        if len(curve) - first < FEWEST_NEAR:
            return None
        last = curve[min(first + NEAREST, len(curve)) - 1].fraction
        near = curve[first : bisect_right(curve, (last, math.inf, math.inf))]
        # a job that says the same as another did may go on saying it for as long
        return max([p.until if p.fraction == fraction else p.part for p in near])

    def _by_progress(self, used: float, fraction: float | None) -> RemainingNeed | None:
        band = band_of(used, fraction)
        if band is None or fraction is None:
            return None
        trust = self.trusts[band]
        if trust is None:
            return None
        low, mean = trust
        total = used / fraction
        return RemainingNeed(likely=max(0.0, mean * total - used), least=max(0.0, low * total - used))

    def by_sizes(self, estimate: float, used: float, fraction: float | None) -> RemainingNeed:
        """Return the remaining need of a job by the sizes of ended ones; its progress counts while these are few."""
        ordered = self.ordered
        if not ordered or estimate <= 0.0:
            return RemainingNeed(likely=_by_estimate(estimate, used, fraction), least=0.0)
        place = bisect_right(ordered, used / estimate)
        larger = ordered[place:]
        likely = float_sum(larger) / len(larger) * estimate - used if larger else LIKELY_EXCESS * used
        if len(ordered) < KNOWN:
            mean = float_sum(ordered) / len(ordered)
            return RemainingNeed(likely=max(likely, _by_estimate(mean * estimate, used, fraction)), least=0.0)
        if not larger:
            return RemainingNeed(likely=likely, least=LEAST_EXCESS * used)
        return RemainingNeed(likely=likely, least=larger[int(len(larger) * RARE)] * estimate - used)


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
    """Return the probable need of a job of an unknown app: rather too much than too little."""
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


#: Part of a project's jobs that can be in time below which it counts as hopeless.
HARDLY_ANY = 0.1
#: A job that needed less of its estimate had nothing to do, and says nothing of the next until several have ended.
AT_ONCE = 0.02


class PastJob(NamedTuple):
    """A job whose size is known; seconds of computing."""

    size: float
    estimate: float  #: the project's
    latency_bound: float
    given_up: bool = False  #: it would have been late; the size is the least that it can have been
    app: str = ""


@value(kw_only=True)
class JobOutlook:
    """The expected next job of a project."""

    known: bool = False  #: has it had a job of the project?
    ended: int = 0  #: jobs whose size is known
    busy: float = 0.0  #: seconds of computing, mean
    deviation: float = 0.0
    time_left: float = 0.0  #: seconds from its arrival to its deadline
    correction: float = 1.0  #: size divided by the project's estimate
    #: the same per app, where there are several
    by_app: dict[str, float] = field(default_factory=dict[str, float])
    hopeless: bool = False  #: none of its jobs could have been in time here


@value(kw_only=True)
class ProjectHistory:
    """The latest jobs of a project."""

    jobs: tuple[PastJob, ...] = ()
    estimate: float = 0.0  #: of the job that came last
    latency_bound: float = 0.0  #: ... and its bound; 0 = no job was seen yet

    def after_job(self, job: PastJob) -> ProjectHistory:
        """Return the history after a job."""
        return replace(self, jobs=(*self.jobs[1 - MEMORY :], job))

    def after_delivery(self, *, estimate: float, latency_bound: float) -> ProjectHistory:
        """Return the history after a job arrived."""
        if (estimate, latency_bound) == (self.estimate, self.latency_bound):
            return self
        return replace(self, estimate=estimate, latency_bound=latency_bound)

    def outlook(self, fits: Callable[[float, float], bool]) -> JobOutlook:
        """Return the expectation; ``fits`` tests whether this much computing can be done in this many seconds.

        Jobs that do not fit are given up or run for want of better ones, so the others are what counts.
        """
        if not self.latency_bound:
            return JobOutlook()
        fitting = [job for job in self.jobs if not job.given_up and fits(job.size, job.latency_bound)]
        hopeless = len(self.jobs) >= KNOWN and len(fitting) < HARDLY_ANY * len(self.jobs)
        kept = fitting or self.jobs
        if len(self.jobs) < KNOWN:
            kept = [job for job in kept if job.size > AT_ONCE * job.estimate]
        if not kept:
            ended = len(self.jobs)
            return JobOutlook(known=True, ended=ended, busy=self.estimate, time_left=self.latency_bound)
        mean = math.fsum([job.size for job in kept]) / len(kept)
        variance = math.fsum([(job.size - mean) ** 2 for job in kept]) / len(kept)
        estimated = math.fsum([job.estimate for job in kept]) / len(kept)
        apps = {job.app for job in kept}
        return JobOutlook(
            known=True,
            ended=len(self.jobs),
            busy=mean,
            deviation=math.sqrt(variance),
            time_left=self.latency_bound,
            correction=mean / estimated if estimated > 0.0 else 1.0,
            by_app={app: _correction([job for job in kept if job.app == app]) for app in apps}
            if len(apps) > 1
            else {},
            hopeless=hopeless,
        )


def _correction(jobs: Sequence[PastJob]) -> float:
    estimated = math.fsum([job.estimate for job in jobs])
    return math.fsum([job.size for job in jobs]) / estimated if estimated > 0.0 else 1.0
