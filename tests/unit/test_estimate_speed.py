"""Projected speed and expected run time."""

from __future__ import annotations

import random
from statistics import fmean, median
from typing import Any

import pytest
from tests.helpers.dispatch_world import catalogue, description, record, version

from cobblestone.domain.apps import PlanClass
from cobblestone.policy.dispatch.catalogue import (
    MAX_CPU_FLOPS,
    PeakFlopCount,
    ResourceUsage,
    SpeedPopulation,
    availability,
    capped_cpu_speed,
    cpu_speed,
    gpu_fractions,
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
    usage = {name: values.pop(name) for name in ("avg_ncpus", "ngpus", "peak_flops")}
    return projected_flops(ResourceUsage(flops=values.pop("estimate"), **usage), **values)


def test_without_samples_speed_is_a_low_guess_from_the_benchmark():
    assert flops() == 4e9
    assert flops(avg_ncpus=0.5, ngpus=1.0, peak_flops=1e13, estimate=1e12) == 0.05 * 1e13


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


GPU_CLASSES = {name: PlanClass(name=name, gpu_type="NVIDIA") for name in ("gpu-nvidia", "other")}


def test_what_a_plan_class_reaches_of_the_peak_is_learnt_by_app_and_from_other_apps():
    versions = [version(n, app, plan_class="gpu-nvidia") for n, app in ((1, 1), (2, 1), (3, 2))]
    counts = {
        1: PeakFlopCount(n=10, avg=20.0),
        2: PeakFlopCount(n=30, avg=40.0),
        9: PeakFlopCount(n=9, avg=2.0),
    }
    learnt = gpu_fractions([*versions, version(9)], counts, GPU_CLASSES)  # type: ignore[arg-type]  # plain numbers
    assert learnt == {(1, "gpu-nvidia"): pytest.approx(1 / 35), (None, "gpu-nvidia"): pytest.approx(1 / 35)}
    known = catalogue(*versions, gpu_fractions=learnt)
    assert known.gpu_fraction(versions[0]) == known.gpu_fraction(versions[2]) == pytest.approx(1 / 35)
    assert known.gpu_fraction(version(4, plan_class="other")) == 0.05


def test_nobody_makes_others_believe_that_a_gpu_is_faster_than_its_peak():
    counts = {1: PeakFlopCount(n=10, avg=1e-9)}
    learnt = gpu_fractions([version(plan_class="gpu-nvidia")], counts, GPU_CLASSES)  # type: ignore[arg-type]  # plain numbers
    assert set(learnt.values()) == {1.0}


def test_jobs_of_cards_that_reach_a_twentieth_of_their_peak_are_known_within_a_fifth_from_the_third_on():
    """Cards of 0.3 to 70 TFLOPS; what an app reaches differs by card, and its jobs by 5 %."""
    rng = random.Random(28)
    errors: dict[int, list[float]] = {jobs: [] for jobs in range(5)}
    pool: list[float] = []
    for _ in range(300):
        peak = 10 ** rng.uniform(11.5, 13.85)
        speed = 0.05 * peak * rng.lognormvariate(0.0, 0.3)
        took = [rng.lognormvariate(0.0, 0.05) / speed for _ in range(5)]
        fraction = 1 / fmean(pool) if pool else 0.05
        for jobs, truth in enumerate(took):
            known = record(et_n=jobs, et_avg=fmean(took[:jobs])) if jobs else None
            told = flops(ngpus=1.0, peak_flops=peak, estimate=peak, record=known, gpu_fraction=fraction)
            errors[jobs].append(abs(1 / told / truth - 1.0))
        pool += [peak * each for each in took]
    assert median(errors[0]) < 0.3
    assert all(sorted(errors[jobs])[285] < 0.2 for jobs in (2, 3, 4))  # 95 of 100


def test_a_job_that_is_slower_than_a_gpu_s_guessed_speed_is_not_aborted_before_ten_cpus_could_do_it():
    usage = ResourceUsage(gpu_type="NVIDIA", ngpus=1.0, flops=5e11, patient_flops=4e10)
    assert (usage.operations_factor, usage.bound_factor) == (1.0, 12.5)
    assert ResourceUsage(gpu_type="NVIDIA", ngpus=1.0, flops=1e10, patient_flops=4e10).bound_factor == 1.0
    assert ResourceUsage(flops=1e10).bound_factor == 1.0


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
