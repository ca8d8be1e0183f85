"""Cross-project scales: what GPU versions are worth in projects that have no CPU version to compare them with.

Source of the idea: CreditNew page, *cross-project normalization*: projects export app name, platform, recent average
credit, plan class and scale of each version; per plan class the average scale, weighted by recent average credit (RAC), is
used by projects whose apps have GPU versions only.

A plain weighted mean would let one project decide (by a wrong scale, or by a wrong RAC, which is its weight).  So, for
each plan class:

1. a project has one opinion: the mean of its versions' scales, weighted by their RAC;
2. its weight is its RAC (at one unit of credit), at most `MAX_SHARE` of all weights;
3. each opinion counts as at most `CLIP` times the weighted median m, and at least m / `CLIP`;
4. the published scale is the weighted mean of these.

Where no cap and no clip is needed, that is the plain mean weighted by RAC.

**Bound.** Let the other projects say scales from lo to hi.  Whatever one project says about scale and RAC, and also if it
says nothing, with three or more projects the published scale stays within

    lo * (1 - MAX_SHARE * (1 - 1 / CLIP))  …  hi * (1 + MAX_SHARE * (CLIP - 1)),        that is  0.8 lo … 1.4 hi.

For its share is below one half, so the median lies within lo … hi, the others' clipped opinions too, and its own counts as at
most CLIP times the median with weight MAX_SHARE.  The same holds for several liars with a share f < 1/2 instead of
MAX_SHARE.  Two projects can only contradict each other, so fewer than three publish nothing unless asked to.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cobblestone.domain.exports import LARGEST_SCALE, SMALLEST_SCALE, ProjectScales, PublishedScale
from cobblestone.domain.values import DAY
from cobblestone.policy.credit.claims import DEPLOYED
from cobblestone.policy.credit.rac import HALF_LIFE, LARGEST
from cobblestone.policy.credit.scales import VersionRecord, VersionScales, designed_scales

#: No project has a larger share of the weights of a plan class (with three or more projects).
MAX_SHARE = 0.4

#: No opinion counts as further than this factor from the weighted median.
CLIP = 2.0

MIN_PROJECTS = 3

#: Recent average credit, per day, below which a version has no say.
SMALLEST_WEIGHT = 0.001

#: A project that has been silent for longer is left out; until then its last word fades as its RAC would.
MAX_AGE = 14 * DAY


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedScales:
    """A project's export as it was at ``time`` (by the collector's clock, Unix seconds)."""

    scales: ProjectScales
    time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """Scales per plan class, and how many projects stand behind those that are not published."""

    scales: tuple[PublishedScale, ...] = ()
    withheld: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class Opinion:
    """One project's report on one plan class."""

    scale: float
    weight: float  #: recent average credit at 200 per GFLOPS-day


def credible_scale(scale: float) -> bool:
    """Return whether a scale is a finite number of a size that occurs."""
    return SMALLEST_SCALE <= scale <= LARGEST_SCALE


def project_opinions(project: ProjectScales, *, age: float = 0.0) -> dict[str, Opinion]:
    """One opinion per plan class; weights have faded for ``age`` seconds.

    Versions without credit, without a credible scale, or whose scale was not measured have no say.
    """
    unit = project.credit_per_gflops_day
    if unit == 0.0:  # no weight is a number, or large enough, with any other senseless unit
        return {}
    fading = math.exp(-max(age, 0.0) * math.log(2.0) / HALF_LIFE)
    by_class: dict[str, list[Opinion]] = {}
    for version in project.versions:
        weight = version.expavg_credit * (DEPLOYED.per_gflops_day / unit) * fading
        if version.measured and credible_scale(version.pfc_scale) and SMALLEST_WEIGHT <= weight < math.inf:
            weight = min(weight, LARGEST)
            by_class.setdefault(version.plan_class, []).append(Opinion(version.pfc_scale, weight))
    return {
        plan_class: Opinion(weighted_mean(opinions), math.fsum(opinion.weight for opinion in opinions))
        for plan_class, opinions in by_class.items()
    }


def capped_weights(weights: Sequence[float]) -> list[float]:
    """Shares (their sum is 1) in proportion to positive weights, none above ``MAX_SHARE``.

    Weights above a common limit are cut to it.  All are equal where there are too few for anything else.
    """
    n = len(weights)
    if n * MAX_SHARE <= 1.0:
        return [1.0 / n] * n
    falling = sorted(weights, reverse=True)
    rest = math.fsum(falling)
    limit = falling[0]
    for n_cut, weight in enumerate(falling):
        # With n_cut weights cut to the limit: limit = MAX_SHARE * (n_cut * limit + rest).
        limit = MAX_SHARE * rest / (1.0 - MAX_SHARE * n_cut)
        if weight <= limit:
            break
        rest = math.fsum(falling[n_cut + 1 :])
    cut = [min(weight, limit) for weight in weights]
    total = math.fsum(cut)
    return [weight / total for weight in cut]


def weighted_mean(opinions: Iterable[Opinion]) -> float:
    """Mean of scales by weight; there is at least one."""
    known = list(opinions)
    total = math.fsum(opinion.weight for opinion in known)
    return math.fsum(opinion.scale * opinion.weight for opinion in known) / total


def weighted_median(opinions: Sequence[Opinion]) -> float:
    """Return the scale with half of the weight on each side; the geometric mean of two if the half is between them."""
    rising = sorted(opinions, key=lambda opinion: opinion.scale)
    half = math.fsum(opinion.weight for opinion in rising) / 2.0
    passed = 0.0
    for place, opinion in enumerate(rising):
        passed += opinion.weight
        if math.isclose(passed, half, rel_tol=1e-9) and place + 1 < len(rising):
            return math.sqrt(opinion.scale * rising[place + 1].scale)
        if passed > half:
            return opinion.scale
    return rising[-1].scale


def agreed_scale(opinions: Sequence[Opinion]) -> float:
    """Return the scale that opinions (at least one) lead to; see the bound above."""
    shares = capped_weights([opinion.weight for opinion in opinions])
    shared = [Opinion(opinion.scale, share) for opinion, share in zip(opinions, shares, strict=True)]
    median = weighted_median(shared)
    return weighted_mean(
        Opinion(min(max(opinion.scale, median / CLIP), median * CLIP), opinion.weight) for opinion in shared
    )


def publish(
    collected: Iterable[CollectedScales], *, now: float, min_projects: int = MIN_PROJECTS
) -> Publication:
    """Average what projects say, plan class by plan class.  The plan class without a name is left out: its versions are
    what the others were compared with."""
    by_class: dict[str, list[Opinion]] = {}
    for item in collected:
        age = now - item.time
        if age <= MAX_AGE:
            for plan_class, opinion in project_opinions(item.scales, age=age).items():
                if plan_class:
                    by_class.setdefault(plan_class, []).append(opinion)
    scales = [
        PublishedScale(
            plan_class=plan_class,
            scale=agreed_scale(opinions),
            n_projects=len(opinions),
            lowest=min(opinion.scale for opinion in opinions),
            highest=max(opinion.scale for opinion in opinions),
            expavg_credit=min(math.fsum(opinion.weight for opinion in opinions), LARGEST),
        )
        for plan_class, opinions in sorted(by_class.items())
        if len(opinions) >= min_projects
    ]
    withheld = {name: len(found) for name, found in sorted(by_class.items()) if len(found) < min_projects}
    return Publication(scales=tuple(scales), withheld=withheld)


def applied_scales(versions: Sequence[VersionRecord], published: Mapping[str, float]) -> VersionScales | None:
    """Scales of an app's versions (those in use) from published ones, by plan class; None when the app has CPU versions,
    or when nothing is published for any of its plan classes."""
    credible = {name: scale for name, scale in published.items() if credible_scale(scale)}
    if not versions or not all(version.is_gpu for version in versions):
        return None
    if not any(version.plan_class in credible for version in versions):
        return None
    return designed_scales(versions, published=credible)
