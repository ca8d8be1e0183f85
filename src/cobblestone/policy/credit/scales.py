"""Peak FLOP count (PFC), and the scales that make the versions of an app claim the same for the same work.

Peak FLOP count (PFC): what the devices of a job could have computed in its run time; and what is learned
from it.

Source: CreditNew page; ``sched/credit.cpp`` (server-semantics: peak FLOP count of one valid result).

Version scales: what makes the versions of an app claim the same for the same work.  Run every ten
minutes or so.

Source: CreditNew page, cross-version and cross-project normalisation; ``sched/credit.cpp``
(server-semantics: version scales).  With the mean PFC / estimate of a kind (CPU, GPU) weighted by samples
over its versions with enough samples: X is the smaller mean of the two kinds; the scale of a version is X /
its own mean, and X becomes the app's ``min_avg_pfc``.  Design and code differ in what happens when only one
kind has samples:

* designed: two versions of the one kind that exists are made equal; a GPU-only app takes scales that other
  projects found for the plan class;
* deployed: two CPU versions, or a single GPU version, suffice; and the mean of GPU versions is cut to a
  tenth.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cobblestone.domain.hosts import HostVersionStatistics
from cobblestone.domain.reasons import Reason, phrase, reason
from cobblestone.domain.statistics import HOST_VERSION_RULE, AveragingRule, RunningAverage
from cobblestone.domain.values import AppVersionId, float_sum, value
from cobblestone.policy.credit.claims import (
    AppStatistics,
    Claim,
    ClaimInput,
    CreditContext,
    HostVersionIncrement,
    PlatformKind,
    StatisticIncrements,
    VersionIncrement,
    VersionStatistics,
    WorkunitFacts,
)

#: Exactly this speed is what a client reports whose benchmark failed or has not run.
FAILED_BENCHMARK = 1e9

#: Speed that stands in for an unknown one, operations/s.
TYPICAL_CPU_SPEED = 4.3e9

SMALLEST_RATIO = 1e-4
#: Samples of PFC / rsc_fpops_est outside are errors of the estimate, not of the host: not learned.
LARGEST_RATIO = 1e4

MIN_HOST_SAMPLES = 10
MIN_VERSION_SAMPLES = 100
MAX_HOST_SCALE = 10.0


NO_VERSION_SCALE = phrase(" (not known yet: versions need {n} samples)", n=MIN_VERSION_SAMPLES)


def missing_host_scale(host: HostVersionStatistics, version: VersionStatistics, *, proven: bool) -> Reason:
    """Return why a host has no scale, as the note in brackets after the 1 that is used instead."""
    if not proven:
        return phrase(" (not known yet: this host is not proven)")
    if host.pfc.n < MIN_HOST_SAMPLES:
        return phrase(" (not known yet: fewer than {n} samples of this host)", n=MIN_HOST_SAMPLES)
    if version.pfc.n < MIN_VERSION_SAMPLES:
        return phrase(" (not known yet: fewer than {n} samples of the version)", n=MIN_VERSION_SAMPLES)
    return phrase(" (not known yet: an average is 0)")


@value()
class ResultPeakFlops:
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


def peak_flop_count(facts: ClaimInput) -> ResultPeakFlops:
    """PFC of a result as the deployed server counts it: an unknown speed is a typical one."""
    unknown = facts.peak_flops <= 0.0 or facts.peak_flops == FAILED_BENCHMARK
    return ResultPeakFlops(run_time(facts), TYPICAL_CPU_SPEED if unknown else facts.peak_flops, unknown)


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


#: Deployed: what remains of the claims of an app that has GPU versions only.
GPU_ONLY_SCALE = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRecord:
    """Statistics of one app version; only current versions (newest, not deprecated) take part."""

    app_version_id: AppVersionId
    is_gpu: bool = False
    plan_class: str = ""
    pfc: RunningAverage = RunningAverage()


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionScales:
    """New scales of an app's versions, and its new smallest average; None: nothing changes."""

    scales: Mapping[AppVersionId, float] = field(default_factory=dict[AppVersionId, float])
    min_avg_pfc: float | None = None
    reasons: tuple[Reason, ...] = ()


def weighted_mean(versions: Iterable[VersionRecord]) -> float:
    """Mean PFC / estimate of versions, weighted by their numbers of samples; 0 without samples."""
    samples = total = 0.0
    for version in versions:
        samples += version.pfc.n
        total += version.pfc.mean * version.pfc.n
    return total / samples if samples else 0.0


def _normalised(versions: Sequence[VersionRecord], x: float, code: str) -> VersionScales:
    """Scales that bring every version with enough samples to ``x``."""
    scales = {
        version.app_version_id: x / version.pfc.mean
        for version in versions
        if version.pfc.n >= MIN_VERSION_SAMPLES and version.pfc.mean > 0.0
    }
    why = reason(code, "{n} {n:version is|versions are} scaled to the average {x}.", n=len(scales), x=x)
    return VersionScales(scales=scales, min_avg_pfc=x, reasons=(why,))


def _unchanged() -> VersionScales:
    why = reason(
        "too_few_samples", "Too few versions with {n} samples: the scales stay.", n=MIN_VERSION_SAMPLES
    )
    return VersionScales(reasons=(why,))


def _known(versions: Sequence[VersionRecord], least: int) -> tuple[list[VersionRecord], list[VersionRecord]]:
    """Return the versions with enough samples: those for CPUs, and those for GPUs."""
    above = [version for version in versions if version.pfc.n >= least and version.pfc.mean > 0.0]
    return [each for each in above if not each.is_gpu], [each for each in above if each.is_gpu]


def deployed_scales(versions: Sequence[VersionRecord]) -> VersionScales:
    """Scales of an app's versions as the code sets them: more than 100 samples to join a mean, 100 to be
    scaled."""
    cpu, gpu = _known(versions, MIN_VERSION_SAMPLES + 1)
    if cpu and gpu:
        return _normalised(versions, min(weighted_mean(cpu), weighted_mean(gpu)), "cpu_and_gpu")
    if len(cpu) >= 2:
        return _normalised(versions, weighted_mean(cpu), "cpu_only")
    if gpu:
        return _normalised(versions, weighted_mean(gpu) * GPU_ONLY_SCALE, "gpu_only_tenth")
    return _unchanged()


def designed_scales(
    versions: Sequence[VersionRecord], *, published: Mapping[str, float] | None = None
) -> VersionScales:
    """Scales of an app's versions as the design sets them.

    ``published`` holds the scale per plan class that other projects found; used by GPU-only apps.
    """
    cpu, gpu = _known(versions, MIN_VERSION_SAMPLES)
    if cpu and gpu:
        return _normalised(versions, min(weighted_mean(cpu), weighted_mean(gpu)), "cpu_and_gpu")
    if any(version.is_gpu for version in versions):
        gpu_only = all(version.is_gpu for version in versions)
        if not gpu_only:
            return _unchanged()
        known = {
            version.app_version_id: published[version.plan_class]
            for version in versions
            if published and published.get(version.plan_class, 0.0) > 0.0
        }
        if known:
            scaled = [version for version in gpu if version.app_version_id in known]
            samples = sum(version.pfc.n for version in scaled)
            total = float_sum(
                version.pfc.n * version.pfc.mean * known[version.app_version_id] for version in scaled
            )
            why = reason("published_scales", "GPU versions that get published scales: {n}.", n=len(known))
            return VersionScales(
                scales=known, min_avg_pfc=total / samples if samples else None, reasons=(why,)
            )
        return _normalised(versions, weighted_mean(gpu), "gpu_only") if len(gpu) >= 2 else _unchanged()
    return _normalised(versions, weighted_mean(cpu), "cpu_only") if len(cpu) >= 2 else _unchanged()


@dataclass(frozen=True, slots=True)
class LearnsRunTimes:
    """Systems whose only statistics are run times."""

    name: str

    def learn(
        self,
        inputs: Sequence[ClaimInput],
        claims: Sequence[Claim],
        workunit: WorkunitFacts,
        context: CreditContext,
    ) -> StatisticIncrements:
        """Run times only."""
        return learn_run_times(inputs, claims, workunit)
