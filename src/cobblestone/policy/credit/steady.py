"""The steady system: a job is worth its estimate times one slow factor of the app, on any host.

    credit = rsc_fpops_est x factor x unit

Each valid result of a workunit gets this, on any host, by any app version, also on the anonymous platform and as a
straggler.  What a result reports never enters its own grant: it only *teaches* the factor, which is the app's stored
``min_avg_pfc`` (actual work per estimated operation, 1 while nothing is known).

**Votes.**  A host votes on an app version with its own mean of peak FLOP count / estimate, after every `VOTE_EVERY` valid
results with that version, once it has been known for `VOTING_AGE`.  So votes stand for valid work, which a new identity does
not have: what many identities compute votes as often as one that computes it all.  The computers of one person vote together
as often as their average one: a host of an owner of k computers votes after every k x `VOTE_EVERY` results.

**Steps.**  A vote x moves the version's mean m to m (1 + w clip(ln(x / m), -c, c)) with c = ln 2.  This is Huber's
location estimate of ln x by stochastic approximation: like a median where votes are far apart, like a mean where they
agree.  Source: P. J. Huber, *Robust estimation of a location parameter* (1964); H. Robbins and S. Monro, *A stochastic
approximation method* (1951).  w is 1 / n while fewer than `STEADY_RULE`.threshold votes are in, then its weight.  A
version begins at the app's factor as if it had `PRIOR_VOTES` votes.

**The factor** is the geometric mean of the CPU versions' means, weighted by votes (at most the threshold each).  Credit
is defined by CPU benchmarks, so GPU versions do not take part: their jobs are paid by the same factor, and their scale
factor / mean follows.  An app that has GPU versions only keeps its factor: 1, or what applied cross-project scales gave.
Once the versions hold `STEADY_RULE`.threshold votes, it moves by at most `DAILY_LIMIT` a day.

**Bounds**, whatever is reported:

* one vote moves a version's mean by at most c / (`PRIOR_VOTES` + 1), 13.9 %, and by at most c x 0.01, 0.7 %, after 100
  votes;
* whoever has a share f < 1/2 of the votes, that is of the valid work, and lies, moves the place where the mean comes to rest
  by at most the step at which the honest ones balance f / (1 - f) x c: a factor of 1.08 for f = 0.1 while honest hosts agree
  within a factor of 2; and the factor of the app by at most 1.1 a day;
* inflating run time, benchmark or counted operations gains a host nothing but its share in the factor's shift.

Weaker than systems that look at each run time: a job that takes ten times its estimate is paid its estimate.

**Measured.**  For apps whose jobs cannot be estimated well, ``steady-measured`` asks each host how long the job was *by its
own measure*: peak FLOP count / estimate over the host's mean of it, within 1/4 … 4.  A constant lie is in both and cancels.
The smallest answer of two or more hosts with `MIN_HOST_SAMPLES` results counts, so that a lie of the day needs an
accomplice in the same job; without two such answers the estimate stays.  Still the same for all valid results.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from cobblestone.domain.reasons import reason
from cobblestone.domain.statistics import AveragingRule, RunningAverage
from cobblestone.domain.values import DAY, AppVersionId, float_sum
from cobblestone.policy.credit.claims import (
    AppStatistics,
    Claim,
    ClaimInput,
    ClaimMode,
    CreditContext,
    CreditUnit,
    Grant,
    PlatformKind,
    StatisticIncrements,
    VersionIncrement,
    VersionStatistics,
    WorkunitFacts,
    minimum,
)
from cobblestone.policy.credit.scales import (
    LARGEST_RATIO,
    MIN_HOST_SAMPLES,
    SMALLEST_RATIO,
    ResultPeakFlops,
    VersionRecord,
    VersionScales,
    estimated_flops,
    learn_run_times,
    peak_flop_count,
)

STEADY, MEASURED = "steady", "steady-measured"

#: How a version's mean takes votes.
STEADY_RULE = AveragingRule(threshold=100, weight=0.01)

#: A vote counts as at most this far from the mean, in logarithms: as twice or half of it, or nearer.
CLIP = math.log(2.0)

#: Votes that the app's factor is worth when a version begins.
PRIOR_VOTES = 4

#: Valid results of a version on a host that a vote stands for.
VOTE_EVERY = 8

#: Seconds since its first call before a host votes.
VOTING_AGE = DAY

#: The factor of an app that has its votes grows or shrinks by at most this much a day.
DAILY_LIMIT = 1.1

#: Results that tell what an app's jobs were worth under another system.
MIN_PAID = 20

#: A job counts as at most this many times as long as its estimate says, and as at least the inverse (measured).
LARGEST_LENGTH = 4.0


def votes_at(results: int, computers: int = 1) -> bool:
    """Return whether a host votes after this many results, if its owner has so many computers."""
    return results > 0 and results % (VOTE_EVERY * max(1, computers)) == 0


def steady_scales(
    versions: Sequence[VersionRecord], *, previous: float = 0.0, elapsed: float = math.inf
) -> VersionScales:
    """Return the app's factor (as ``min_avg_pfc``), and what each version's means are worth by it.  Run every ten minutes or so.

    ``previous`` is the factor so far (0: not known), ``elapsed`` the seconds since it was set.
    """
    voted = [version for version in versions if version.pfc.n > 0 and version.pfc.mean > 0.0]
    logarithms = weights = 0.0
    for version in voted:
        if not version.is_gpu:
            weight = float(min(version.pfc.n, STEADY_RULE.threshold))
            logarithms += weight * math.log(version.pfc.mean)
            weights += weight
    if not weights:
        return VersionScales(
            reasons=(reason("no_cpu_votes", "No CPU version has enough samples: the factor stays."),)
        )
    factor = math.exp(logarithms / weights)
    if previous > 0.0 and weights >= STEADY_RULE.threshold:
        most = DAILY_LIMIT ** (min(max(elapsed, 0.0), DAY) / DAY)
        factor = min(previous * most, max(previous / most, factor))
    known = [version for version in voted if version.pfc.n >= 2 * PRIOR_VOTES]
    why = reason("factor_of_cpu_versions", "CPU versions set the factor to {factor}.", factor=factor)
    return VersionScales(
        scales={version.app_version_id: factor / version.pfc.mean for version in known},
        min_avg_pfc=factor,
        reasons=(why,),
    )


def factor_paid(paid: Sequence[tuple[float, float]], unit: CreditUnit) -> float | None:
    """Return the factor under which jobs are worth what they were paid on average; None for fewer than `MIN_PAID`.

    An app that changes to this system begins with it, so that its jobs are worth what they were worth before.
    ``paid``: (credit, ``rsc_fpops_est``) of its newest results.
    """
    worth = float_sum(unit.of_flops(estimate) for _, estimate in paid)
    credit = float_sum(credit for credit, _ in paid)
    if len(paid) < MIN_PAID or worth <= 0.0 or credit <= 0.0:
        return None
    return min(LARGEST_RATIO, max(SMALLEST_RATIO, credit / worth))


@dataclass(frozen=True, slots=True)
class SteadySystem:
    """A job's estimate x one robust factor of the app: the same for all hosts."""

    name: str = STEADY
    measured: bool = False  #: correct the estimate by what several hosts agree on
    votes: bool = True  #: how many computers an owner has matters

    def claim(self, facts: ClaimInput, workunit: WorkunitFacts, context: CreditContext) -> Claim:
        """Return the claim by the result's own figures.  Kept for readers of the ledger; it is not paid."""
        count = peak_flop_count(facts)
        if self.measured:
            return _by_own_measure(count, facts, workunit, context)
        scale = context.statistics.versions.get(facts.app_version_id, VersionStatistics()).pfc_scale or 1.0
        flops = min(count.flops * scale, workunit.rsc_fpops_bound)
        amount = min(context.unit.of_flops(flops), context.max_granted)
        why = reason(
            "own_figures",
            "Its own figures claim {amount}: {seconds} s x {peak_flops} FLOPS x version scale "
            "{scale}; they are only used for learning.",
            amount=amount,
            seconds=count.seconds,
            peak_flops=count.peak_flops,
            scale=scale,
        )
        mode = ClaimMode.ESTIMATE if count.speed_substituted else ClaimMode.NORMAL
        return Claim(amount=amount, mode=mode, reasons=(why,))

    def grant(self, claims: Sequence[Claim], workunit: WorkunitFacts, context: CreditContext) -> Grant:
        """Estimate x factor, for all; measured: the smallest of two or more claims by hosts' own measures."""
        own = [claim.amount for claim in claims if claim.mode is ClaimMode.NORMAL]
        if self.measured and len(own) >= 2:
            amount = minimum(own)
            why = reason(
                "smallest_measure",
                "Granted {amount}: the smallest of {n} {n:measure|measures} of the job; the same for every valid result.",
                amount=amount,
                n=len(own),
            )
            return Grant(credits=(amount,) * len(claims), reasons=(why,))
        amount = context.unit.of_flops(estimated_flops(workunit, context.statistics.app))
        why = reason(
            "estimate_times_factor",
            "Granted {amount}: estimate {estimate} x the app's factor {factor}; the same for every valid result.",
            amount=amount,
            estimate=workunit.rsc_fpops_est,
            factor=_factor(context.statistics.app),
        )
        return Grant(credits=(amount,) * len(claims), reasons=(why,))

    def learn(
        self,
        inputs: Sequence[ClaimInput],
        claims: Sequence[Claim],
        workunit: WorkunitFacts,
        context: CreditContext,
    ) -> StatisticIncrements:
        """Run times of hosts as under every system, and the votes that are due on versions."""
        learned = learn_run_times(inputs, claims, workunit)
        averages: dict[AppVersionId, RunningAverage] = {}
        samples: dict[AppVersionId, tuple[float, ...]] = {}
        for version_id, vote in _votes(inputs, learned):
            known = context.statistics.versions.get(version_id, VersionStatistics())
            average = averages.get(version_id, known.pfc)
            taken = _samples(average, vote, _factor(context.statistics.app))
            averages[version_id] = average.with_samples(taken, STEADY_RULE)
            samples[version_id] = samples.get(version_id, ()) + taken
        versions = tuple(
            VersionIncrement(app_version_id=version_id, pfc=taken, rule=STEADY_RULE)
            for version_id, taken in samples.items()
        )
        return replace(learned, versions=versions)


def _by_own_measure(
    count: ResultPeakFlops, facts: ClaimInput, workunit: WorkunitFacts, context: CreditContext
) -> Claim:
    """Estimate x factor x how long the job was for this host, compared with its others."""
    flops = estimated_flops(workunit, context.statistics.app)
    usual = facts.host_version.pfc if facts.host_version is not None else RunningAverage()
    known = usual.n >= MIN_HOST_SAMPLES and usual.mean > 0.0 and count.flops > 0.0
    if count.speed_substituted or facts.outlier or not known:
        amount = min(context.unit.of_flops(flops), context.max_granted)
        why = reason(
            "no_own_measure", "No measure of its own yet: the job's estimate, {amount}.", amount=amount
        )
        return Claim(amount=amount, mode=ClaimMode.ESTIMATE, reasons=(why,))
    length = count.flops / workunit.rsc_fpops_est / usual.mean
    counted = min(LARGEST_LENGTH, max(1.0 / LARGEST_LENGTH, length))
    amount = min(context.unit.of_flops(flops * counted), context.max_granted)
    why = reason(
        "own_measure",
        "Claim {amount}: estimate x factor {flops} x {counted}; the job took {length} times as long "
        "on it as usual.",
        amount=amount,
        flops=flops,
        counted=counted,
        length=length,
    )
    return Claim(amount=amount, reasons=(why,))


def _factor(app: AppStatistics) -> float:
    return app.min_avg_pfc if app.min_avg_pfc > 0.0 else 1.0


def _votes(
    inputs: Iterable[ClaimInput], learned: StatisticIncrements
) -> Iterable[tuple[AppVersionId, float]]:
    """(version, mean of the host with its new results) of each vote that is due; own builds have none."""
    voters = {
        (facts.host_id, facts.app_version_id): facts
        for facts in inputs
        if facts.platform is PlatformKind.NORMAL and facts.host_age >= VOTING_AGE
    }
    records = {key: facts.host_version.pfc for key, facts in voters.items() if facts.host_version is not None}
    for increment in learned.host_versions:
        key = (increment.host_id, increment.app_version_id)
        if key in records and increment.pfc:
            records[key] = after = records[key].with_samples(increment.pfc, increment.rule)
            if votes_at(after.n, voters[key].owner_computers) and after.mean > 0.0:
                yield increment.app_version_id, after.mean


def _samples(average: RunningAverage, vote: float, factor: float) -> tuple[float, ...]:
    """Return the change of a version's mean by a vote: a bounded step, after the first ones where there are none yet."""
    prior: tuple[float, ...] = ()
    mean = average.mean
    if average.n == 0 or mean <= 0.0:
        prior, mean = (factor,) * PRIOR_VOTES, factor
    return *prior, mean * (1.0 + min(CLIP, max(-CLIP, math.log(vote / mean))))
