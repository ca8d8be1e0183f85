"""The third credit system as designed (CreditNew), before the code left the design behind.

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
`cobblestone.policy.credit.host_quality`.

Where the page is silent: claims that failed the sanity check or look like a cheat are treated as on
probation, so they do not enter the mean; averages of a host are straight for 10 samples and weigh later
ones by 0.01.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cobblestone.domain.reasons import Reason, reason
from cobblestone.domain.statistics import AveragingRule
from cobblestone.policy.credit.claims import (
    AppStatistics,
    Claim,
    ClaimInput,
    ClaimMode,
    CreditContext,
    Grant,
    HostVersionStatistics,
    PlatformKind,
    StatisticIncrements,
    VersionStatistics,
    WorkunitFacts,
)
from cobblestone.policy.credit.combine import mean
from cobblestone.policy.credit.pfc import (
    MAX_HOST_SCALE,
    MIN_HOST_SAMPLES,
    MIN_VERSION_SAMPLES,
    NO_VERSION_SCALE,
    estimated_flops,
    learn_run_times,
    missing_host_scale,
    run_time,
)

CHEAT_MULTIPLE = 20.0
"""A claim beyond this multiple of its version's mean is suspicious."""

DESIGN_HOST_RULE = AveragingRule(threshold=11, weight=0.01)
"""Averages of one app version on one host: straight for 10 samples."""


def _is_proven(host: HostVersionStatistics, app: AppStatistics, now: float) -> bool:
    return not app.host_scale_check or not (host.scale_probation or now < host.host_scale_time)


def _host_scale(
    host: HostVersionStatistics, version: VersionStatistics, app: AppStatistics, now: float
) -> float | None:
    """Scale(H), or None while it may not be used."""
    if not _is_proven(host, app, now):
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
                "Peak FLOP count {pfc} is beyond the job's bound {bound}.",
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
                "Peak FLOP count / estimate {ratio} is beyond {multiple} x the version's mean {mean}.",
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
            else missing_host_scale(host, version, proven=_is_proven(host, app, context.now)),
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
                "mean_of_normal", "Granted {amount}: mean of {n} claims.", amount=amount, n=len(normal)
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
