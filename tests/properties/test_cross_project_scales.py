"""The stated bound of cross-project scales: what one project, or a minority, can do to the published average."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cobblestone.domain.errors import RemoteProtocolError
from cobblestone.domain.exports import LARGEST_SCALE, SMALLEST_SCALE, ProjectScales, VersionScale
from cobblestone.policy.credit.cross_project import (
    CLIP,
    MAX_SHARE,
    SMALLEST_WEIGHT,
    CollectedScales,
    Opinion,
    agreed_scale,
    capped_weights,
    publish,
)
from cobblestone.wire.project.scales import (
    parse_project_scales,
    parse_published_scales,
    write_project_scales_json,
    write_project_scales_xml,
)

SLACK = 1e-9

scales = st.floats(SMALLEST_SCALE, LARGEST_SCALE)
weights = st.floats(SMALLEST_WEIGHT, 1e30)
opinions = st.builds(Opinion, scales, weights)
any_number = st.floats() | st.sampled_from([0.0, -1.0, 1e304, 5e-324])


def bounds(honest: list[float], share: float) -> tuple[float, float]:
    """Least and largest that may be published while ``share`` of the weight lies."""
    low = min(honest) * (1 - share * (1 - 1 / CLIP))
    high = max(honest) * (1 + share * (CLIP - 1))
    return low * (1 - SLACK), high * (1 + SLACK)


def project(scale: float, credit: float, unit: float = 200.0) -> CollectedScales:
    version = VersionScale(
        app_name="a", platform="p", plan_class="gpu", expavg_credit=credit, pfc_scale=scale
    )
    return CollectedScales(scales=ProjectScales(versions=(version,), credit_per_gflops_day=unit), time=0.0)


@given(
    honest=st.lists(st.tuples(scales, st.floats(SMALLEST_WEIGHT, 1e12)), min_size=3, max_size=12),
    lie=st.tuples(any_number, any_number, any_number),
    place=st.integers(0, 12),
)
@example(honest=[(0.1, 100.0)] * 3, lie=(LARGEST_SCALE, 1e9, 200.0), place=0)
@example(honest=[(0.1, 100.0)] * 3, lie=(SMALLEST_SCALE, 1e9, 200.0), place=0)
def test_one_project_cannot_move_the_average_beyond_the_bound(
    honest: list[tuple[float, float]], lie: tuple[float, float, float], place: int
) -> None:
    """Nonsense, down (no say at all), or any lie about scale, recent credit and unit."""
    items = [project(*each) for each in honest]
    items.insert(place, project(*lie))
    (found,) = publish(items, now=0.0).scales
    low, high = bounds([scale for scale, _ in honest], MAX_SHARE)
    assert low <= found.scale <= high


@given(honest=st.lists(opinions, min_size=3, max_size=12), factor=st.sampled_from([1000.0, 1e-3, 1e6, 1e-6]))
def test_a_lie_by_a_thousand_changes_little_where_the_others_agree(
    honest: list[Opinion], factor: float
) -> None:
    agreeing = [Opinion(0.1, opinion.weight) for opinion in honest]
    lied = agreed_scale([*agreeing, Opinion(0.1 * factor, 1e30)])
    assert 0.8 * 0.1 * (1 - SLACK) <= lied <= 1.4 * 0.1 * (1 + SLACK)


@given(honest=st.lists(opinions, min_size=2, max_size=12), liars=st.lists(opinions, min_size=1, max_size=6))
def test_a_minority_is_bounded_by_its_share(honest: list[Opinion], liars: list[Opinion]) -> None:
    everybody = [*honest, *liars]
    shares = capped_weights([opinion.weight for opinion in everybody])
    share = math.fsum(shares[len(honest) :])
    if share < 0.5 - 1e-6:
        low, high = bounds([opinion.scale for opinion in honest], share)
        assert low <= agreed_scale(everybody) <= high


@given(st.lists(weights, min_size=1, max_size=40))
def test_shares_are_positive_capped_and_keep_the_order(given_weights: list[float]) -> None:
    shares = capped_weights(given_weights)
    assert math.fsum(shares) == pytest.approx(1.0)
    assert max(shares) <= max(MAX_SHARE, 1 / len(shares)) * (1 + SLACK)
    ranked = sorted(zip(given_weights, shares, strict=True))
    assert all(a[1] <= b[1] * (1 + SLACK) for a, b in pairwise(ranked))


@given(st.lists(opinions, min_size=1, max_size=12))
def test_the_published_scale_is_finite_and_does_not_depend_on_the_order(items: list[Opinion]) -> None:
    found = agreed_scale(items)
    assert 0.0 < found < math.inf
    assert agreed_scale(items[::-1]) == pytest.approx(found)


@given(
    st.lists(st.floats(0.1, 0.2), min_size=5, max_size=12).flatmap(
        lambda found: st.tuples(
            st.just(found), st.lists(st.floats(1.0, 1.5), min_size=len(found), max_size=len(found))
        )
    )
)
def test_projects_of_like_size_and_opinion_get_the_plain_weighted_mean(
    items: tuple[list[float], list[float]],
) -> None:
    plain = sum(scale * weight for scale, weight in zip(*items, strict=True)) / sum(items[1])
    found = agreed_scale([Opinion(scale, weight) for scale, weight in zip(*items, strict=True)])
    assert found == pytest.approx(plain)


# -- the export as bytes ---------------------------------------------------------------------------------

names = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S")), min_size=1, max_size=30)
versions = st.builds(
    VersionScale,
    app_name=names,
    platform=names,
    plan_class=names | st.just(""),
    version_num=st.integers(0, 100_000),
    expavg_credit=st.floats(0.0, 1e30),
    pfc_scale=scales | st.just(0.0),
    measured=st.booleans(),
)
projects = st.builds(
    ProjectScales,
    name=names,
    master_url=names,
    credit_per_gflops_day=st.floats(1e-3, 1e6),
    time=st.floats(0, 1e12),
    versions=st.lists(versions, max_size=5).map(tuple),
)


@given(projects)
def test_both_forms_of_an_export_are_read_as_they_were_written(given_project: ProjectScales) -> None:
    for body in (write_project_scales_xml(given_project), write_project_scales_json(given_project)):
        parsed = parse_project_scales(body)
        assert parsed.scales == given_project
        assert parsed.n_refused == 0


@given(projects, st.data())
def test_damaged_exports_are_read_or_refused_and_nothing_else(
    given_project: ProjectScales, data: st.DataObject
) -> None:
    write = data.draw(st.sampled_from([write_project_scales_xml, write_project_scales_json]))
    body = bytearray(write(given_project))
    for _ in range(data.draw(st.integers(0, 5))):
        place = data.draw(st.integers(0, len(body) - 1))
        body[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
    for parse in (parse_project_scales, parse_published_scales):
        try:
            parse(bytes(body))
        except RemoteProtocolError:
            continue


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused_and_nothing_else(body: bytes) -> None:
    for parse in (parse_project_scales, parse_published_scales):
        try:
            parse(body)
        except RemoteProtocolError:
            continue
