"""Version scales: what makes the versions of an app claim the same for the same work.  Run every ten
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

from cobblestone.domain.ids import AppVersionId
from cobblestone.domain.reasons import Reason, reason
from cobblestone.domain.statistics import RunningAverage
from cobblestone.domain.sums import float_sum
from cobblestone.policy.credit.pfc import MIN_VERSION_SAMPLES

GPU_ONLY_SCALE = 0.1
"""Deployed: what remains of the claims of an app that has GPU versions only."""


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
    why = reason(code, "{n} versions are scaled to the average {x}.", n=len(scales), x=x)
    return VersionScales(scales=scales, min_avg_pfc=x, reasons=(why,))


def _unchanged() -> VersionScales:
    why = reason("too_few_samples", "Too few versions with {n} samples: scales stay.", n=MIN_VERSION_SAMPLES)
    return VersionScales(reasons=(why,))


def deployed_scales(versions: Sequence[VersionRecord]) -> VersionScales:
    """Scales of an app's versions as the code sets them: more than 100 samples to join a mean, 100 to be
    scaled."""
    above = [
        version for version in versions if version.pfc.n > MIN_VERSION_SAMPLES and version.pfc.mean > 0.0
    ]
    cpu = [version for version in above if not version.is_gpu]
    gpu = [version for version in above if version.is_gpu]
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
    above = [
        version for version in versions if version.pfc.n >= MIN_VERSION_SAMPLES and version.pfc.mean > 0.0
    ]
    cpu = [version for version in above if not version.is_gpu]
    gpu = [version for version in above if version.is_gpu]
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
            scaled = [version for version in above if version.app_version_id in known]
            samples = sum(version.pfc.n for version in scaled)
            total = float_sum(
                version.pfc.n * version.pfc.mean * known[version.app_version_id] for version in scaled
            )
            why = reason("published_scales", "{n} GPU versions take published scales.", n=len(known))
            return VersionScales(
                scales=known, min_avg_pfc=total / samples if samples else None, reasons=(why,)
            )
        return _normalised(versions, weighted_mean(gpu), "gpu_only") if len(gpu) >= 2 else _unchanged()
    return _normalised(versions, weighted_mean(cpu), "cpu_only") if len(cpu) >= 2 else _unchanged()
