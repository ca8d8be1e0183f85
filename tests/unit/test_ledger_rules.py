"""The formulas of the ledger system."""

from __future__ import annotations

import math
import random

import pytest

from cobblestone.policy.credit.ledger_system import rules
from cobblestone.policy.credit.ledger_system.learning import detector_after
from cobblestone.policy.credit.ledger_system.records import StepDetector


@pytest.mark.parametrize("figure", [math.nan, math.inf, -math.inf, 0.0, -0.0, -1.0])
def test_a_figure_that_is_none_does_not_exist(figure: float) -> None:
    assert not rules.usable(figure)


def test_a_size_factor_is_one_on_average_over_what_a_host_reports() -> None:
    rng = random.Random(5)
    size, noise = 0.09, 0.0225
    w = rules.weight(size, rules.precision(noise, 1.0, 0.0, 0.0))
    k = rules.tail_begin(size, noise, 2.5)
    r = rules.tail_share(w, size, noise)
    sd = math.sqrt(size + noise)
    factors = [rules.size_factor(rng.gauss(0.0, sd), w, r, k, size) for _ in range(20_000)]
    assert sum(factors) / len(factors) == pytest.approx(1.0, abs=0.01)


def test_a_running_median_finds_the_median() -> None:
    rng = random.Random(6)
    median = 0.15
    for count in range(5000):
        median = rules.median_after(median, abs(rng.gauss(0.0, 0.5)), count)
    assert median * rules.NORMAL_MEDIAN == pytest.approx(0.5, rel=0.1)


def test_the_step_detector_finds_a_doubled_estimate_and_no_step_where_there_is_none() -> None:
    rng = random.Random(7)
    detector = StepDetector()
    moved = [0.0, 0.0]
    for number in range(40_000):
        step = -math.log(2.0) if number >= 20_000 else 0.0
        u = rng.gauss(step, 0.335) - sum(moved)
        detector, shift = detector_after(detector, u, 0.335**2)
        moved[number >= 20_000] += shift
        if number == 22_000:
            assert moved == pytest.approx([0.0, -math.log(2.0)], abs=0.06)
    assert moved == pytest.approx([0.0, -math.log(2.0)], abs=0.06)


def test_a_tenth_of_liars_moves_no_constant() -> None:
    rng = random.Random(8)
    detector = StepDetector()
    for _ in range(20_000):
        u = rules.LARGEST if rng.random() < 0.1 else rng.gauss(0.0, 0.335)
        detector, shift = detector_after(detector, u, 0.335**2)
        assert shift == 0.0
