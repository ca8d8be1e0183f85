"""Badges and milestones: who gets which, and what they look like."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest
from lxml import etree

from cobblestone.domain.errors import ConfigError
from cobblestone.ops.settings import parse_settings
from cobblestone.policy.credit.history import BadgeRules, Reached, anniversaries, earned, n_best, shown
from cobblestone.server.web.awards import picture

RULES = BadgeRules(total=(1000, 100, 10_000), recent=(10, 50), rank_percent=(1, 25, 5))
CUTOFFS = {1.0: 900.0, 5.0: 300.0, 25.0: 40.0}


def names(**amounts: float) -> set[str]:
    return {badge.name for badge in earned(rules=RULES, rank_cutoffs=CUTOFFS, **amounts)}


@pytest.mark.parametrize(
    ("total", "recent", "expected"),
    [
        (0, 0, set()),
        (99.9, 9.9, set()),
        (100, 10, {"total-100", "recent-10"}),
        (5000, 45, {"total-1000", "recent-10", "rank-25"}),
        (1e9, 300, {"total-10000", "recent-50", "rank-5"}),
        (1e9, 1e9, {"total-10000", "recent-50", "rank-1"}),
    ],
)
def test_of_each_kind_one_has_the_highest_badge_that_is_reached(
    total: float, recent: float, expected: set[str]
) -> None:
    assert names(total=total, recent=recent) == expected


def test_more_credit_never_lowers_a_badge(rng: random.Random) -> None:
    places = {badge: place for place, badge in enumerate(RULES.badges)}
    for _ in range(200):
        total, recent = rng.uniform(0, 20_000), rng.uniform(0, 1200)
        less = earned(total=total, recent=recent, rules=RULES, rank_cutoffs=CUTOFFS)
        more = earned(total=total * 1.5, recent=recent * 1.5, rules=RULES, rank_cutoffs=CUTOFFS)
        for badge in less:
            (same_kind,) = (other for other in more if other.kind is badge.kind)
            assert places[same_kind] >= places[badge]


def test_nobody_has_a_rank_without_recent_credit_or_without_company() -> None:
    rules = BadgeRules(rank_percent=(1,))
    assert earned(total=0, recent=0.5, rules=rules, rank_cutoffs={1: 0.0}) == frozenset()
    assert earned(total=0, recent=500, rules=rules, rank_cutoffs={}) == frozenset()


@pytest.mark.parametrize(
    ("n_ranked", "percent", "n"),
    [(0, 5, 0), (1, 1, 1), (99, 1, 1), (200, 1, 2), (7, 100, 7), (1000, 25, 250)],
)
def test_the_best_so_many_percent_are_at_least_one(n_ranked: int, percent: float, n: int) -> None:
    assert n_best(n_ranked, percent) == n


@pytest.mark.parametrize(
    "values",
    [
        {"total": [0]},
        {"recent": [-1]},
        {"rank_percent": [101]},
        {"total": [float("nan")]},
        {"total": [1] * 31},
    ],
)
def test_levels_that_cannot_be_are_refused_with_their_key(values: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="badges"):
        parse_settings({"badges": values}, source="here")


def test_every_badge_has_a_picture_of_its_own_that_is_well_formed() -> None:
    rules = BadgeRules(
        total=tuple(10.0**power for power in range(1, 19)),
        recent=(0.5, 250, 2500),
        rank_percent=(0.1, 1, 5, 25),
    )
    pictures = {badge.name: picture(badge, rules.badges) for badge in rules.badges}
    assert len(set(pictures.values())) == len(pictures) == 25
    for svg in pictures.values():
        root = etree.fromstring(svg.encode())
        assert root.get("viewBox") == "0 0 64 64"
    assert ">2.5 k<" in pictures["recent-2500"]
    assert ">0.1 %<" in pictures["rank-0.1"]


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def test_years_are_counted_to_the_day() -> None:
    found = anniversaries(at("2024-02-29T12:00:00"), now=at("2028-02-29T11:59:59"))
    assert [(item.years, datetime.fromtimestamp(item.time, UTC).date().isoformat()) for item in found] == [
        (1, "2025-03-01"),
        (2, "2026-03-01"),
        (3, "2027-03-01"),
    ]


def test_milestones_that_a_correction_took_back_are_not_shown() -> None:
    reached = [Reached(time=10.0), Reached(credit=1000, time=20.0), Reached(credit=10_000, time=30.0)]
    found = shown(reached, total=5000, created=0.0, now=366 * 86400.0)
    assert [(item.credit, item.years) for item in found] == [(0, 1), (1000, 0), (0, 0)]
