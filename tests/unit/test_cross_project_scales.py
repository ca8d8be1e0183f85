"""Cross-project scales: who has a say, with which weight, and what is published."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from cobblestone.domain.exports import ProjectScales, VersionScale
from cobblestone.domain.statistics import RunningAverage
from cobblestone.domain.values import AppVersionId
from cobblestone.policy.credit.cross_project import (
    MAX_AGE,
    CollectedScales,
    Opinion,
    agreed_scale,
    applied_scales,
    capped_weights,
    project_opinions,
    publish,
    weighted_median,
)
from cobblestone.policy.credit.rac import LARGEST
from cobblestone.policy.credit.scales import VersionRecord

NOW = 1_800_000_000.0


def version(scale: float, credit: float = 100.0, plan_class: str = "cuda", **more: bool) -> VersionScale:
    return VersionScale(
        app_name="a", platform="p", plan_class=plan_class, expavg_credit=credit, pfc_scale=scale, **more
    )


def collected(*versions: VersionScale, age: float = 0.0, unit: float = 200.0) -> CollectedScales:
    return CollectedScales(
        scales=ProjectScales(versions=versions, credit_per_gflops_day=unit), time=NOW - age
    )


def published(*items: CollectedScales, min_projects: int = 3) -> dict[str, float]:
    found = publish(items, now=NOW, min_projects=min_projects)
    return {item.plan_class: item.scale for item in found.scales}


def test_without_anybody_too_large_or_too_far_it_is_the_mean_weighted_by_recent_credit() -> None:
    items = [collected(version(0.10, 300)), collected(version(0.12, 300)), collected(version(0.15, 200))]
    expected = (0.10 * 300 + 0.12 * 300 + 0.15 * 200) / 800
    assert published(*items) == {"cuda": pytest.approx(expected)}


def test_a_projects_versions_count_by_their_own_recent_credit() -> None:
    opinions = project_opinions(ProjectScales(versions=(version(0.1, 300), version(0.2, 100))))
    assert opinions["cuda"].scale == pytest.approx(0.125)
    assert opinions["cuda"].weight == 400.0


def test_credit_of_another_unit_has_the_weight_of_the_work_behind_it() -> None:
    half = project_opinions(ProjectScales(versions=(version(0.1),), credit_per_gflops_day=100.0))
    assert half["cuda"].weight == pytest.approx(200.0)


@pytest.mark.parametrize(
    "useless",
    [
        version(0.0),
        version(math.nan),
        version(math.inf),
        version(-0.1),
        version(1e7),
        version(1e-7),
        version(0.1, 0.0),
        version(0.1, -5.0),
        version(0.1, math.nan),
        version(0.1, math.inf),
        version(0.1, measured=False),
    ],
)
def test_versions_without_credit_or_credible_scale_or_measurement_have_no_say(useless: VersionScale) -> None:
    assert project_opinions(ProjectScales(versions=(useless,))) == {}


@pytest.mark.parametrize("unit", [0.0, -1.0, math.nan, math.inf])
def test_a_project_with_a_senseless_unit_has_no_say(unit: float) -> None:
    assert project_opinions(ProjectScales(versions=(version(0.1),), credit_per_gflops_day=unit)) == {}


@pytest.mark.parametrize(
    ("weights", "shares"),
    [
        ([5.0], [1.0]),
        ([1.0, 1e30], [0.5, 0.5]),
        ([1.0, 1.0, 1.0], [1 / 3, 1 / 3, 1 / 3]),
        ([1.0, 1.0, 1e30], [0.3, 0.3, 0.4]),
        ([1.0, 1e30, 1e30], [0.2, 0.4, 0.4]),
        ([100.0, 200.0, 300.0], [0.2, 0.4, 0.4]),
        ([3.0, 3.0, 2.0], [0.375, 0.375, 0.25]),
    ],
)
def test_no_project_has_more_than_its_share(weights: list[float], shares: list[float]) -> None:
    assert capped_weights(weights) == pytest.approx(shares)


def test_a_lie_by_a_thousand_moves_the_average_by_the_stated_part_only() -> None:
    honest = [collected(version(0.1, 100)), collected(version(0.1, 100))]
    assert published(*honest, collected(version(100.0, 1e9)))["cuda"] == pytest.approx(0.14)
    assert published(*honest, collected(version(0.0001, 1e9)))["cuda"] == pytest.approx(0.08)


def test_plan_classes_of_too_few_projects_are_withheld() -> None:
    items = [
        collected(version(0.1), version(0.3, plan_class="rare")),
        collected(version(0.1)),
        collected(version(0.1)),
    ]
    found = publish(items, now=NOW)
    assert [item.plan_class for item in found.scales] == ["cuda"]
    assert found.withheld == {"rare": 1}
    assert published(*items, min_projects=1)["rare"] == pytest.approx(0.3)


def test_two_that_contradict_each_other_meet_near_the_middle() -> None:
    found = published(collected(version(0.1)), collected(version(10.0)), min_projects=2)
    assert found["cuda"] == pytest.approx((0.5 + 2.0) / 2)  # around the geometric middle, 1


def test_the_class_without_a_name_is_never_published() -> None:
    items = [collected(version(1.0, plan_class=""))] * 3
    assert publish(items, now=NOW).scales == ()
    assert publish(items, now=NOW).withheld == {}


def test_the_last_word_of_a_silent_project_fades_and_ends() -> None:
    others = [collected(version(0.1)), collected(version(0.1)), collected(version(0.1))]
    fresh = published(*others, collected(version(0.15)))["cuda"]
    older = published(*others, collected(version(0.15), age=7 * 86400))["cuda"]
    gone = published(*others, collected(version(0.15), age=MAX_AGE + 1))["cuda"]
    assert gone == pytest.approx(0.1)
    assert gone < older < fresh


def test_a_clock_that_went_back_does_not_raise_a_weight() -> None:
    project = ProjectScales(versions=(version(0.1),))
    assert project_opinions(project, age=-1e9) == project_opinions(project)


def test_no_weight_is_larger_than_any_real_one() -> None:
    huge = [version(0.1, 1e308), version(0.1, 1e308, "opencl"), version(0.1, 1e308)]
    assert project_opinions(ProjectScales(versions=tuple(huge)))["cuda"].weight == 2 * LARGEST
    (_, found) = publish([collected(*huge)] * 3, now=NOW).scales
    assert found.expavg_credit == LARGEST


def test_where_half_of_the_weight_ends_between_two_the_median_does_too() -> None:
    shares = (0.1, 0.2, 0.3)  # of which two come to a little more than the third
    found = weighted_median([Opinion(scale, share) for scale, share in zip((1, 4, 9), shares, strict=True)])
    assert found == pytest.approx(6.0)


def test_equal_opinions_are_published_as_they_are() -> None:
    assert agreed_scale([Opinion(0.07, weight) for weight in (1.0, 50.0, 1e9)]) == pytest.approx(0.07)


GPU = VersionRecord(app_version_id=AppVersionId(1), is_gpu=True, plan_class="cuda")
CPU = VersionRecord(app_version_id=AppVersionId(2))


def test_gpu_only_apps_take_published_scales_and_the_average_that_follows() -> None:
    learnt = replace(GPU, pfc=RunningAverage(200, 8.0))
    found = applied_scales([learnt], {"cuda": 0.05})
    assert found is not None
    assert found.scales == {1: 0.05}
    assert found.min_avg_pfc == pytest.approx(0.4)


@pytest.mark.parametrize(
    "versions",
    [[], [CPU], [GPU, CPU], [replace(GPU, plan_class="other")]],
    ids=["none", "cpu", "both", "unknown"],
)
def test_other_apps_are_left_alone(versions: list[VersionRecord]) -> None:
    assert applied_scales(versions, {"cuda": 0.05, "": 1.0}) is None


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf, 1e9])
def test_a_published_scale_that_cannot_be_is_not_applied(scale: float) -> None:
    assert applied_scales([GPU], {"cuda": scale}) is None
