"""Spot checks of trusted hosts, and the bound on wrong answers."""

from __future__ import annotations

import random

import pytest

from cobblestone.policy.dispatch.limits import must_replicate, spot_check_probability


def expected_wrong_accepted(valid_jobs: int) -> float:
    """Mean number of wrong answers accepted from a host that cheats from W = ``valid_jobs`` until caught."""
    p = spot_check_probability(valid_jobs)
    return (1.0 - p) / p


@pytest.mark.parametrize(
    ("valid_jobs", "probability"), [(0, 1), (1, 1), (10, 1), (11, 10 / 11), (100, 0.1), (1000, 0.01)]
)
def test_the_probability_is_ten_over_the_valid_jobs(valid_jobs: int, probability: float):
    assert spot_check_probability(valid_jobs) == pytest.approx(probability)


def test_a_host_with_up_to_ten_valid_jobs_is_always_checked(rng: random.Random):
    assert all(must_replicate(jobs, rng) for jobs in range(11) for _ in range(100))


def test_a_trusted_host_is_checked_as_often_as_stated():
    rng = random.Random(1)
    checked = sum(must_replicate(100, rng) for _ in range(20_000))
    assert checked / 20_000 == pytest.approx(0.1, abs=0.01)


def wrong_answers_until_caught(valid_jobs: int, rng: random.Random) -> int:
    accepted = 0
    while not must_replicate(valid_jobs, rng):
        accepted += 1
    return accepted


@pytest.mark.parametrize("valid_jobs", [5, 24, 50, 200])
def test_the_stated_mean_of_wrong_answers_is_met_by_simulation(valid_jobs: int):
    rng = random.Random(2)
    rounds = 4000
    mean = sum(wrong_answers_until_caught(valid_jobs, rng) for _ in range(rounds)) / rounds
    bound = expected_wrong_accepted(valid_jobs)
    assert bound == pytest.approx(max(0.0, valid_jobs / 10 - 1))
    assert mean == pytest.approx(bound, rel=0.1, abs=1e-9)


def share_of_wrong_answers(
    moment: int, rng: random.Random, cycles: int, *, only_replicated_count: bool
) -> float:
    """A host that behaves until W = ``moment``, cheats until it is caught, and starts anew."""
    right = wrong = 0
    for _ in range(cycles):
        record = 0
        while record < moment:
            right += 1
            record += 1 if must_replicate(record, rng) or not only_replicated_count else 0
        wrong += wrong_answers_until_caught(moment, rng)
    return wrong / (right + wrong)


def test_the_stated_share_of_wrong_answers_is_the_worst_case():
    shares = {
        moment: share_of_wrong_answers(moment, random.Random(3), 600, only_replicated_count=True)
        for moment in (11, 15, 20, 24, 30, 50, 100)
    }
    assert shares[24] == pytest.approx(0.041, abs=0.005)
    assert max(shares.values()) < 0.046


@pytest.mark.parametrize("moment", [20, 100, 500])
def test_if_every_valid_job_counts_less_than_a_tenth_is_wrong(moment: int):
    share = share_of_wrong_answers(moment, random.Random(4), 400, only_replicated_count=False)
    assert share < 1 / 11 * 1.15
