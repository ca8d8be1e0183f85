"""Projected speed and expected run time."""

from __future__ import annotations

import random
from statistics import fmean, median
from typing import Any

import pytest
from tests.helpers.dispatch_world import description, record

from cobblestone.policy.dispatch.catalogue import (
    MAX_CPU_FLOPS,
    PeakFlopCount,
    SpeedPopulation,
    availability,
    capped_cpu_speed,
    cpu_speed,
    job_seconds,
    projected_flops,
)

POPULATION = SpeedPopulation(median=2e9, percentile_95=5e9)


def flops(**changes: Any) -> float:
    values: dict[str, Any] = {
        "cpu_flops": 4e9,
        "avg_ncpus": 1.0,
        "ngpus": 0.0,
        "estimate": 3e9,
        "peak_flops": 4e9,
    } | changes
    return projected_flops(**values)


def test_without_samples_speed_is_a_low_guess_from_the_benchmark():
    assert flops() == 4e9
    assert flops(avg_ncpus=0.5, ngpus=1.0, estimate=1e12) == 4e9 * 10.5


@pytest.mark.parametrize(("jobs", "expected"), [(0, 8e9), (1, 4e9), (2, 2e9), (3, 1e9), (50, 1e9)])
def test_the_first_jobs_of_a_host_count_in_part_and_the_third_ends_the_guess(jobs: int, expected: float):
    known = record(et_n=jobs, et_avg=1e-9)
    assert flops(cpu_flops=8e9, record=known) == pytest.approx(expected)


def test_a_host_whose_benchmark_never_ran_is_known_within_a_fifth_after_three_jobs():
    """Hosts with the client's default of exactly 1e9, a third to twenty times as fast in truth, jobs that vary by 20 %."""
    rng = random.Random(5)
    errors: dict[int, list[float]] = {0: [], 3: []}
    for _ in range(500):
        truth = 1e9 * rng.lognormvariate(1.0, 1.0)
        mean = fmean(rng.lognormvariate(0.0, 0.2) / truth for _ in range(3))
        for jobs, known in ((0, None), (3, record(et_n=3, et_avg=mean))):
            seconds = job_seconds(1e12, flops(cpu_flops=1e9, estimate=1e9, record=known), 1.0)
            errors[jobs].append(abs(seconds / (1e12 * rng.lognormvariate(0.0, 0.2) / truth) - 1.0))
    assert median(errors[0]) > 0.5
    assert median(errors[3]) < 0.2


def test_a_measured_speed_is_capped_at_250_times_the_estimate():
    assert flops(record=record(et_n=11, et_avg=1e-15)) == 250 * 3e9


def test_the_versions_mean_is_used_when_the_host_is_new():
    assert flops(version_mean=PeakFlopCount(n=100, avg=2.0)) == 4e9
    assert flops(version_mean=PeakFlopCount(n=101, avg=2.0)) == 2e9
    known = record(et_n=11, et_avg=1e-9)
    assert flops(version_mean=PeakFlopCount(n=101, avg=2.0), record=known) == pytest.approx(1e9)


@pytest.mark.parametrize(("et_avg", "expected"), [(0.0, 4e9), (-1.0, 4e9), (5e-324, 250 * 3e9), (1e308, 1e6)])
def test_a_nonsensical_mean_gives_neither_an_endless_speed_nor_none(et_avg: float, expected: float):
    assert flops(record=record(et_n=50, et_avg=et_avg)) == expected


@pytest.mark.parametrize(
    ("told", "used"), [(0.0, 1e9), (-5.0, 1e9), (4e9, 4e9), (1e308, MAX_CPU_FLOPS), (1.0, 1e6)]
)
def test_benchmarks_are_kept_within_bounds(told: float, used: float):
    assert cpu_speed(description(p_fpops=told)) == used


@pytest.mark.parametrize(("told", "used"), [(0.0, 2e9), (4e9, 4e9), (1e12, 5.5e9)])
def test_plan_classes_cap_speed_by_the_population(told: float, used: float):
    assert capped_cpu_speed(description(p_fpops=told), POPULATION) == pytest.approx(used)


@pytest.mark.parametrize(
    ("on", "active", "used"),
    [(0.5, 0.5, 0.25), (0.0, 1.0, 0.1), (-1.0, 1.0, 0.1), (9.0, 9.0, 1.0), (1e308, 1e308, 1.0)],
)
def test_availability_lies_between_a_tenth_and_one(on: float, active: float, used: float):
    assert availability(description(on_frac=on, active_frac=active)) == used


def test_gpus_have_their_own_availability():
    assert availability(description(gpu_active_frac=0.2), gpu=True) == pytest.approx(0.2)


def test_run_time_is_operations_over_speed_over_availability():
    assert job_seconds(1e12, 1e9, 0.5) == 2000
    assert job_seconds(0.0, 1e9, 1.0) == 1000
