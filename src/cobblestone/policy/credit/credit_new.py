"""The third credit system (CreditNew), as designed and as deployed.

The third credit system as designed (CreditNew), before the code left the design behind.

Source: BOINC wiki, page *CreditNew*.  With T elapsed seconds, P peak FLOPS of the devices, E the job's
estimate, V the app version, H the host, and means of PFC / E over the samples:

* PFC = T P; default PFC D = E x the app's smallest average, if known;
* sanity check: PFC beyond the job's bound claims D and is looked at no further;
* one-time cheat: PFC / E beyond 20 x the mean of V claims D, teaches nothing, and puts the host on probation;
* anonymous platform claims D (no version to compare with);
* F = PFC x Scale(V) x Scale(H); Scale(V) makes versions equal (`cobblestone.policy.credit.scales`),
  Scale(H) = mean(V) / mean(H, V), at most 10, when V has 100 samples and H has 10;
* claimed = F x unit; granted = mean of the claims that are neither anonymous nor on probation, else D x unit.

Probation against cherry picking (an option of the app, off by default) is kept in
`cobblestone.policy.credit.host_records`.

Where the page is silent: claims that failed the sanity check or look like a cheat are treated as on
probation, so they do not enter the mean; averages of a host are straight for 10 samples and weigh later
ones by 0.01.

The third credit system as deployed: what the server's code does under the name of CreditNew.

Source: ``sched/credit.cpp`` of BOINC's tree of 2026 (server-semantics: peak FLOP count, combining replicas,
design note versus code).  With T elapsed seconds, P peak FLOPS (none, or exactly 1e9, counts as 4.3e9), E
the estimate:

* raw = T P;  estimate D = E x the app's smallest average (E if that is 0);
* normal platform: pfc = raw x version scale x host scale; the host scale min(10, mean(V) / mean(H, V))
  needs 10 and 100 samples and, where the app checks, 10 consecutive valid results; the mode is normal when
  both scales exist;
* anonymous platform: pfc = raw x smallest average / mean(H) after 10 samples, else D; never normal;
* record lost: D; clamped to the job's bound; a claim beyond the limit of a grant does not count;
* two or more normal claims: their pegged average around D.  One: it counts twice among the others.  None:
  pegged average of the approximate ones.  Nothing: D.

Differences, the design first:

* claim beyond the job's bound: D, nothing learned; the check has no effect: cut to the bound, samples are taken
* one-time cheat: D, probation; samples are capped
* host scale: not during probation; after ten valid results in a row, if the app asks for it
* record of a host: error rate per version; valid results in a row
* apps with GPU versions only: scale found by other projects for the plan class; a tenth, always
* versions to compare: two of one kind; two CPU versions, or a single GPU version; more than 100 samples to join the
  mean, 100 to be scaled
* a new version: starts fresh; takes over the host's record of the version before
* peak speed: benchmark, or the vendor's formula; further scaled by plan classes
* trickle messages: name a result and its run time; benchmark × run time, whichever result
* run time of a job: E × mean of T/E; three levels, capped at 250 ×, with chance in the choice of versions
* daily quota: follows crashes and successes; follows validity too, without an upper limit

Where the design is silent, a claim that fails one of the first two checks counts as one on probation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from cobblestone.domain.hosts import HostVersionStatistics
from cobblestone.domain.reasons import Reason, reason
from cobblestone.domain.statistics import AveragingRule
from cobblestone.domain.values import AppVersionId
from cobblestone.policy.credit.claims import (
    AppStatistics,
    Claim,
    ClaimInput,
    ClaimMode,
    CreditContext,
    Grant,
    PlatformKind,
    StatisticIncrements,
    VersionStatistics,
    WorkunitFacts,
    mean,
    pegged_average,
)
from cobblestone.policy.credit.scales import (
    MAX_HOST_SCALE,
    MIN_HOST_SAMPLES,
    MIN_VERSION_SAMPLES,
    NO_VERSION_SCALE,
    LearnsRunTimes,
    ResultPeakFlops,
    estimated_flops,
    learn_run_times,
    missing_host_scale,
    peak_flop_count,
    run_time,
)

#: A claim beyond this multiple of its version's mean is suspicious.
CHEAT_MULTIPLE = 20.0

#: Averages of one app version on one host: straight for 10 samples.
DESIGN_HOST_RULE = AveragingRule(threshold=11, weight=0.01)


def _is_past_probation(host: HostVersionStatistics, app: AppStatistics, now: float) -> bool:
    return not app.host_scale_check or not (host.scale_probation or now < host.host_scale_time)


def _host_scale(
    host: HostVersionStatistics, version: VersionStatistics, app: AppStatistics, now: float
) -> float | None:
    """Scale(H), or None while it may not be used."""
    if not _is_past_probation(host, app, now):
        return None
    if host.pfc.n < MIN_HOST_SAMPLES or version.pfc.n < MIN_VERSION_SAMPLES:
        return None
    if host.pfc.mean <= 0.0 or version.pfc.mean <= 0.0:
        return None
    return min(MAX_HOST_SCALE, version.pfc.mean / host.pfc.mean)


@dataclass(frozen=True, slots=True)
class DesignedSystem:
    """CreditNew by its design."""

    name: str = "creditnew-designed"

    def claim(self, facts: ClaimInput, workunit: WorkunitFacts, context: CreditContext) -> Claim:
        """PFC, scaled by version and host, or the default PFC with the reason why."""
        statistics = context.statistics
        raw = run_time(facts) * facts.peak_flops
        version = statistics.versions.get(facts.app_version_id, VersionStatistics())
        if raw > workunit.rsc_fpops_bound:
            why = reason(
                "beyond_bound",
                "Peak FLOP count {pfc} is above the job's bound {bound}.",
                pfc=raw,
                bound=workunit.rsc_fpops_bound,
            )
            return self._default(workunit, context, why, suspicious=True)
        if raw <= 0.0:
            return self._default(workunit, context, reason("speed_unknown", "No run time or speed reported."))
        if facts.platform is PlatformKind.ANONYMOUS:
            return self._default(
                workunit, context, reason("anonymous_platform", "Anonymous platform: the app's average.")
            )
        ratio = raw / workunit.rsc_fpops_est
        if version.pfc.n >= MIN_VERSION_SAMPLES and ratio > CHEAT_MULTIPLE * version.pfc.mean:
            why = reason(
                "one_time_cheat",
                "Peak FLOP count / estimate {ratio} is above {multiple} x the version's mean {mean}.",
                ratio=ratio,
                multiple=CHEAT_MULTIPLE,
                mean=version.pfc.mean,
            )
            return self._default(workunit, context, why, suspicious=True)
        host = facts.host_version or HostVersionStatistics()
        return self._scaled(raw, facts, host, version, context)

    def _default(
        self, workunit: WorkunitFacts, context: CreditContext, why: Reason, *, suspicious: bool = False
    ) -> Claim:
        flops = estimated_flops(workunit, context.statistics.app)
        amount = context.unit.of_flops(flops)
        taken = reason(
            "default_pfc", "Claim {amount}: default of the job, {flops}.", amount=amount, flops=flops
        )
        return Claim(
            amount=amount,
            mode=ClaimMode.APPROXIMATE,
            reasons=(why, taken),
            outlier=suspicious,
            on_probation=suspicious,
        )

    def _scaled(
        self,
        raw: float,
        facts: ClaimInput,
        host: HostVersionStatistics,
        version: VersionStatistics,
        context: CreditContext,
    ) -> Claim:
        app = context.statistics.app
        host_scale = _host_scale(host, version, app, context.now)
        version_scale = version.pfc_scale or None
        amount = context.unit.of_flops(raw * (version_scale or 1.0) * (host_scale or 1.0))
        why = reason(
            "scaled_pfc",
            "Claim {amount}: {seconds} s x {peak_flops} FLOPS x version scale {version_scale}{about_version} x host scale"
            " {host_scale}{about_host}.",
            amount=amount,
            seconds=run_time(facts),
            peak_flops=facts.peak_flops,
            version_scale=version_scale or 1.0,
            about_version="" if version_scale else NO_VERSION_SCALE,
            host_scale=host_scale or 1.0,
            about_host=""
            if host_scale
            else missing_host_scale(host, version, proven=_is_past_probation(host, app, context.now)),
        )
        probation = app.host_scale_check and host.scale_probation
        mode = ClaimMode.APPROXIMATE if probation else ClaimMode.NORMAL
        return Claim(amount=amount, mode=mode, reasons=(why,))

    def grant(self, claims: Sequence[Claim], workunit: WorkunitFacts, context: CreditContext) -> Grant:
        """Mean of the normal claims, else the job's default."""
        normal = [claim.amount for claim in claims if claim.mode is ClaimMode.NORMAL]
        if normal:
            amount = mean(normal)
            why = reason(
                "mean_of_normal", "Granted {amount}: mean of claims ({n}).", amount=amount, n=len(normal)
            )
        else:
            amount = context.unit.of_flops(estimated_flops(workunit, context.statistics.app))
            why = reason("default_granted", "Granted {amount}: no claim is reliable.", amount=amount)
        return Grant(credits=(amount,) * len(claims), reasons=(why,))

    def learn(
        self,
        inputs: Sequence[ClaimInput],
        claims: Sequence[Claim],
        workunit: WorkunitFacts,
        context: CreditContext,
    ) -> StatisticIncrements:
        """Return samples of every claim that passed the checks."""
        return learn_run_times(inputs, claims, workunit, host_rule=DESIGN_HOST_RULE, speed_as_reported=True)


#: Valid results in a row that make a host proven, for apps with ``host_scale_check``.
MIN_CONSECUTIVE_VALID = 10


def inherited_version(records: Iterable[tuple[AppVersionId, int]]) -> AppVersionId | None:
    """Return the version whose statistics on a host a new app version takes over: the highest version number.

    ``records`` are (app version, version number) of the host's records of the same app, platform and plan
    class; the deployed server re-labels the row, so that the old version has none afterwards.  None: a
    fresh record.
    """
    best = max(records, key=lambda record: record[1], default=None)
    return None if best is None else best[0]


def _is_proven(host: HostVersionStatistics, app: AppStatistics) -> bool:
    return not app.host_scale_check or host.consecutive_valid >= MIN_CONSECUTIVE_VALID


def _host_usable(host: HostVersionStatistics, app: AppStatistics) -> bool:
    return _is_proven(host, app) and host.pfc.n >= MIN_HOST_SAMPLES and host.pfc.mean > 0.0


@dataclass(frozen=True, slots=True)
class DeployedSystem(LearnsRunTimes):
    """CreditNew by its code."""

    name: str = "creditnew-deployed"

    def claim(self, facts: ClaimInput, workunit: WorkunitFacts, context: CreditContext) -> Claim:
        """PFC of one result, scaled as far as scales exist, within the bounds."""
        app = context.statistics.app
        count = peak_flop_count(facts)
        if facts.host_version is None or count.seconds <= 0.0:
            flops = estimated_flops(workunit, app)
            mode = ClaimMode.ESTIMATE
            why = (
                reason("record_lost", "No record of this host: the job's estimate is used.")
                if facts.host_version is None
                else reason("no_run_time", "No usable run time was reported: the job's estimate is used.")
            )
        elif facts.platform is PlatformKind.ANONYMOUS:
            flops, mode, why = self._anonymous(count, facts.host_version, workunit, app)
        else:
            version = context.statistics.versions.get(facts.app_version_id, VersionStatistics())
            flops, mode, why = self._normal(count, facts.host_version, version, app)
        reasons: tuple[Reason, ...] = (why,)
        if count.speed_substituted:
            reasons = (
                reason(
                    "speed_substituted",
                    "Speed {reported} is that of a failed benchmark: {used} is used.",
                    reported=facts.peak_flops,
                    used=count.peak_flops,
                ),
                why,
            )
        claim = Claim(amount=0.0, mode=mode, reasons=reasons)
        return self._limited(flops, claim, workunit, context)

    def _normal(
        self,
        count: ResultPeakFlops,
        host: HostVersionStatistics,
        version: VersionStatistics,
        app: AppStatistics,
    ) -> tuple[float, ClaimMode, Reason]:
        host_scale = None
        if _host_usable(host, app) and version.pfc.n >= MIN_VERSION_SAMPLES:
            host_scale = min(MAX_HOST_SCALE, version.pfc.mean / host.pfc.mean) or None
        version_scale = version.pfc_scale or None
        flops = count.flops * (version_scale or 1.0) * (host_scale or 1.0)
        mode = ClaimMode.NORMAL if version_scale and host_scale else ClaimMode.APPROXIMATE
        why = reason(
            "scaled_pfc",
            "{seconds} s x {peak_flops} FLOPS x version scale {version_scale}{about_version} x host scale"
            " {host_scale}{about_host} = {flops}.",
            seconds=count.seconds,
            peak_flops=count.peak_flops,
            version_scale=version_scale or 1.0,
            about_version="" if version_scale else NO_VERSION_SCALE,
            host_scale=host_scale or 1.0,
            about_host="" if host_scale else missing_host_scale(host, version, proven=_is_proven(host, app)),
            flops=flops,
        )
        return flops, mode, why

    def _anonymous(
        self, count: ResultPeakFlops, host: HostVersionStatistics, workunit: WorkunitFacts, app: AppStatistics
    ) -> tuple[float, ClaimMode, Reason]:
        if not _host_usable(host, app):
            flops = estimated_flops(workunit, app)
            why = reason(
                "anonymous_estimate", "Anonymous platform, not proven: the job's estimate {f}.", f=flops
            )
            return flops, ClaimMode.APPROXIMATE, why
        flops = count.flops * app.min_avg_pfc / host.pfc.mean
        why = reason(
            "anonymous_scaled",
            "Anonymous platform: {seconds} s x {peak_flops} FLOPS x app average {average} / host average {host} = {f}.",
            seconds=count.seconds,
            peak_flops=count.peak_flops,
            average=app.min_avg_pfc,
            host=host.pfc.mean,
            f=flops,
        )
        return flops, ClaimMode.APPROXIMATE, why

    def _limited(self, flops: float, claim: Claim, workunit: WorkunitFacts, context: CreditContext) -> Claim:
        """Return the claim in credit, clamped to the job's bound; refused beyond the limit of a grant."""
        reasons = claim.reasons
        if flops > workunit.rsc_fpops_bound:
            flops = workunit.rsc_fpops_bound
            reasons += (reason("beyond_bound", "Capped at the job's bound {bound}.", bound=flops),)
        amount = context.unit.of_flops(flops)
        if amount > context.max_granted:
            why = reason(
                "beyond_max_granted",
                "Claim {amount} is above the limit of a grant, {limit}: it does not count.",
                amount=amount,
                limit=context.max_granted,
            )
            # its samples are still taken: the deployed server leaves out the claim, not the run time
            return replace(claim, amount=context.max_granted, mode=ClaimMode.REFUSED, reasons=(*reasons, why))
        return Claim(amount=amount, mode=claim.mode, reasons=reasons)

    def grant(self, claims: Sequence[Claim], workunit: WorkunitFacts, context: CreditContext) -> Grant:
        """Pegged average around the job's estimate; the same amount for all."""
        peg = context.unit.of_flops(estimated_flops(workunit, context.statistics.app))
        normal = [claim.amount for claim in claims if claim.mode is ClaimMode.NORMAL]
        others = [
            claim.amount for claim in claims if claim.mode in (ClaimMode.APPROXIMATE, ClaimMode.ESTIMATE)
        ]
        counted = normal if len(normal) > 1 else others + normal * 2
        amount = pegged_average(counted, peg) if counted else peg
        why = reason(
            "pegged_average",
            "Granted {amount}: average of {n} {n:claim|claims} ({normal} normal), weighted by their distance "
            "from the estimate {peg}.",
            amount=amount,
            n=len(counted),
            normal=len(normal),
            peg=peg,
        )
        return Grant(credits=(amount,) * len(claims), reasons=(why,))
