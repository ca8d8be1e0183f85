"""Peak FLOP count (PFC): what the devices of a job could have computed in its run time; and what is learned
from it.

Source: CreditNew page; ``sched/credit.cpp`` (server-semantics: peak FLOP count of one valid result).
"""

from __future__ import annotations

from collections.abc import Sequence

from cobblestone.domain.ids import AppVersionId
from cobblestone.domain.reasons import Reason, phrase
from cobblestone.domain.statistics import HOST_VERSION_RULE, AveragingRule
from cobblestone.domain.values import value
from cobblestone.policy.credit.claims import (
    AppStatistics,
    Claim,
    ClaimInput,
    HostVersionIncrement,
    HostVersionStatistics,
    PlatformKind,
    StatisticIncrements,
    VersionIncrement,
    VersionStatistics,
    WorkunitFacts,
)

FAILED_BENCHMARK = 1e9
"""Exactly this speed is what a client reports whose benchmark failed or has not run."""

TYPICAL_CPU_SPEED = 4.3e9
"""Speed that stands in for an unknown one, operations/s."""

SMALLEST_RATIO = 1e-4
LARGEST_RATIO = 1e4
"""Samples of PFC / rsc_fpops_est outside are errors of the estimate, not of the host: not learned."""

MIN_HOST_SAMPLES = 10
MIN_VERSION_SAMPLES = 100
MAX_HOST_SCALE = 10.0


NO_VERSION_SCALE = phrase(" (not known yet: versions need {n} samples)", n=MIN_VERSION_SAMPLES)


def missing_host_scale(host: HostVersionStatistics, version: VersionStatistics, *, proven: bool) -> Reason:
    """Why a host has no scale, in the brackets that stand behind the 1 which is taken then."""
    if not proven:
        return phrase(" (not known yet: this host is not proven)")
    if host.pfc.n < MIN_HOST_SAMPLES:
        return phrase(" (not known yet: fewer than {n} samples of this host)", n=MIN_HOST_SAMPLES)
    if version.pfc.n < MIN_VERSION_SAMPLES:
        return phrase(" (not known yet: fewer than {n} samples of the version)", n=MIN_VERSION_SAMPLES)
    return phrase(" (not known yet: an average is 0)")


@value()
class PeakFlopCount:
    """Run time x peak speed of one result."""

    seconds: float
    peak_flops: float
    speed_substituted: bool  #: the speed is `TYPICAL_CPU_SPEED`, not the host's

    @property
    def flops(self) -> float:
        """The count itself, before any scale."""
        return self.seconds * self.peak_flops


def run_time(facts: ClaimInput) -> float:
    """Elapsed seconds; of a client that reports none, CPU time, at most the time since it was sent."""
    if facts.elapsed_time >= 1e-6:
        return facts.elapsed_time
    if facts.sent_time and facts.received_time:
        return min(facts.cpu_time, facts.received_time - facts.sent_time)
    return facts.cpu_time


def peak_flop_count(facts: ClaimInput) -> PeakFlopCount:
    """PFC of a result as the deployed server counts it: an unknown speed is a typical one."""
    unknown = facts.peak_flops <= 0.0 or facts.peak_flops == FAILED_BENCHMARK
    return PeakFlopCount(run_time(facts), TYPICAL_CPU_SPEED if unknown else facts.peak_flops, unknown)


def estimated_flops(workunit: WorkunitFacts, app: AppStatistics) -> float:
    """Default PFC of a job when its run time says nothing: estimate x the app's average, if that is known."""
    return workunit.rsc_fpops_est * (app.min_avg_pfc if app.min_avg_pfc > 0.0 else 1.0)


def learn_run_times(
    inputs: Sequence[ClaimInput],
    claims: Sequence[Claim],
    workunit: WorkunitFacts,
    *,
    host_rule: AveragingRule = HOST_VERSION_RULE,
    speed_as_reported: bool = False,
) -> StatisticIncrements:
    """Return samples of PFC, run time and turnaround; used by every system, since run-time estimates need them.

    Nothing is learned from outliers and from results without a usable run time; no PFC from those whose speed is not known
    (a speed of exactly 1e9 is one, unless it counts ``speed_as_reported``).  Version samples are of normal app versions only.
    """
    hosts: list[HostVersionIncrement] = []
    versions: dict[AppVersionId, tuple[float, ...]] = {}
    for facts, claim in zip(inputs, claims, strict=True):
        seconds = run_time(facts)
        if facts.outlier or claim.outlier or seconds <= 0.0 or facts.host_version is None:
            if claim.on_probation:
                hosts.append(
                    HostVersionIncrement(
                        host_id=facts.host_id, app_version_id=facts.app_version_id, on_probation=True
                    )
                )
            continue
        known_speed = facts.peak_flops > 0.0 and (speed_as_reported or facts.peak_flops != FAILED_BENCHMARK)
        ratio = seconds * facts.peak_flops / workunit.rsc_fpops_est
        pfc = (ratio,) if known_speed and SMALLEST_RATIO <= ratio <= LARGEST_RATIO else ()
        known = facts.sent_time > 0.0 and facts.received_time > 0.0
        hosts.append(
            HostVersionIncrement(
                host_id=facts.host_id,
                app_version_id=facts.app_version_id,
                pfc=pfc,
                elapsed=(seconds / workunit.rsc_fpops_est,),
                turnaround=(facts.received_time - facts.sent_time,) if known else (),
                on_probation=claim.on_probation,
                rule=host_rule,
            )
        )
        if pfc and facts.platform is PlatformKind.NORMAL:
            versions[facts.app_version_id] = versions.get(facts.app_version_id, ()) + pfc
    return StatisticIncrements(
        host_versions=tuple(hosts),
        versions=tuple(VersionIncrement(app_version_id=key, pfc=pfc) for key, pfc in versions.items()),
    )
