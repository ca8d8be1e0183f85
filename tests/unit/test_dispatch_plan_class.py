"""Plan classes: which hosts match, what a version uses there, and how many known hosts would match."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.helpers.dispatch_world import NVIDIA, description

from cobblestone.domain.apps import PlanClass
from cobblestone.domain.hosts import HostDescription
from cobblestone.domain.reasons import Reason
from cobblestone.policy.dispatch.catalogue import ResourceUsage, SpeedPopulation
from cobblestone.policy.dispatch.versions import (
    count_matching_hosts,
    find_gpu,
    plan_class_usage,
    sequential_usage,
)

POPULATION = SpeedPopulation(median=3e9, percentile_95=10e9)
GPU_HOST = description(coprocessors=(NVIDIA,))


def usage(
    plan_class: PlanClass, host: HostDescription | None = None, *, ncpus: float = 4, command_line: str = ""
) -> ResourceUsage | Reason:
    return plan_class_usage(
        plan_class,
        description() if host is None else host,
        app="App",
        usable_ncpus=ncpus,
        population=POPULATION,
        command_line=command_line,
    )


def accepted(answer: ResourceUsage | Reason) -> ResourceUsage:
    assert isinstance(answer, ResourceUsage), answer
    return answer


def test_a_sequential_version_uses_one_cpu_at_its_benchmark_speed():
    assert sequential_usage(description(p_fpops=5e9), POPULATION, "--x") == ResourceUsage(
        avg_ncpus=1, command_line="--x", flops=5e9, peak_flops=5e9
    )


def test_a_multi_thread_class_uses_the_usable_cpus_up_to_its_limit():
    assert accepted(usage(PlanClass(name="mt", max_threads=16))).avg_ncpus == 4
    assert accepted(usage(PlanClass(name="mt", max_threads=3))).avg_ncpus == 3


def test_threads_are_whole_and_at_least_one():
    assert accepted(usage(PlanClass(name="mt", max_threads=16), ncpus=2.7)).avg_ncpus == 2
    assert accepted(usage(PlanClass(name="mt", max_threads=0), ncpus=1)).avg_ncpus == 1


def test_the_number_of_threads_is_told_to_the_program_after_its_own_arguments():
    plan_class = PlanClass(name="mt", max_threads=8, nthreads_command_line=True)
    assert accepted(usage(plan_class, command_line="--fast")).command_line == "--fast --nthreads 4"
    assert accepted(usage(plan_class)).command_line == "--nthreads 4"


def test_speed_of_a_cpu_class_is_scaled_and_its_peak_is_not():
    answer = accepted(usage(PlanClass(name="mt", max_threads=4, projected_flops_scale=0.5)))
    assert (answer.flops, answer.peak_flops) == (8e9, 16e9)


def test_a_lying_benchmark_is_capped_by_the_population():
    answer = accepted(usage(PlanClass(name="mt"), description(p_fpops=1e30)))
    assert answer.peak_flops == pytest.approx(1.1 * 10e9)


def test_a_missing_benchmark_counts_as_the_median():
    assert accepted(usage(PlanClass(name="mt"), description(p_fpops=0))).peak_flops == 3e9


def test_a_gpu_class_splits_the_work_between_cpu_and_gpu():
    # s1 = 4e9 (CPU), s2 = 0.5 * 1e13; y = c s2 + (1 - c) s1; flops = s1 s2 / y; CPUs = c s2 / y.
    answer = accepted(usage(PlanClass(name="cuda", gpu_type="NVIDIA", ngpus=0.5, cpu_frac=0.1), GPU_HOST))
    mixed = 0.1 * 5e12 + 0.9 * 4e9
    assert answer.flops == pytest.approx(4e9 * 5e12 / mixed)
    assert answer.avg_ncpus == pytest.approx(0.1 * 5e12 / mixed)
    assert answer.peak_flops == pytest.approx(5e12 + answer.avg_ncpus * 4e9)
    assert (answer.gpu_type, answer.ngpus, answer.resource) == ("NVIDIA", 0.5, "NVIDIA")


def test_cpus_of_a_gpu_class_can_be_stated():
    plan_class = PlanClass(name="cuda", gpu_type="NVIDIA", avg_ncpus=0.2)
    assert accepted(usage(plan_class, GPU_HOST)).avg_ncpus == 0.2


def test_a_gpu_without_peak_speed_still_gets_a_positive_estimate():
    silent = description(coprocessors=(replace(NVIDIA, peak_flops=0.0),))
    assert accepted(usage(PlanClass(name="cuda", gpu_type="NVIDIA"), silent)).flops > 0


@pytest.mark.parametrize(
    ("asked", "reported"), [("ATI", "AMD"), ("AMD", "ATI"), ("CUDA", "NVIDIA"), ("nvidia", "NVIDIA")]
)
def test_old_and_new_names_of_gpu_types_are_the_same(asked: str, reported: str):
    host = description(coprocessors=(replace(NVIDIA, type=reported),))
    found = find_gpu(host, asked)
    assert found is not None
    assert found.type == reported


def test_the_apple_class_uses_the_gpu_under_the_name_that_the_client_uses():
    host = description(coprocessors=(replace(NVIDIA, type="apple_gpu"),))
    assert accepted(usage(PlanClass(name="x", gpu_type="apple"), host)).resource == "apple_gpu"


REFUSALS = [
    (PlanClass(name="x", min_ncpus=8), description(), "cpu_count"),
    (PlanClass(name="x", cpu_features=("avx", "avx512f")), description(), "cpu_feature"),
    (PlanClass(name="x", min_memory_mb=32000), description(), "host_memory"),
    (PlanClass(name="x", os_regex="Windows"), description(), "operating_system"),
    (PlanClass(name="x", os_regex="("), description(), "plan_class_broken"),
    (PlanClass(name="x", cpu_vendor_regex="AMD"), description(), "cpu_vendor"),
    (PlanClass(name="x", virtualbox=True), description(), "virtualbox"),
    (PlanClass(name="x", docker=True), description(), "docker"),
    (
        PlanClass(name="x", docker=True),
        description(docker_version="27", os_name="Darwin", client_version=80205),
        "docker_client",
    ),
    (PlanClass(name="x", gpu_type="NVIDIA"), description(), "gpu_missing"),
    (PlanClass(name="x", gpu_type="ATI"), GPU_HOST, "gpu_missing"),
    (PlanClass(name="x", gpu_type="NVIDIA", ngpus=2), GPU_HOST, "gpu_count"),
    (PlanClass(name="x", gpu_type="NVIDIA", min_gpu_ram_mb=9000), GPU_HOST, "gpu_memory"),
    (PlanClass(name="x", gpu_type="NVIDIA", min_driver_version=56000), GPU_HOST, "gpu_driver"),
]


@pytest.mark.parametrize(("plan_class", "host", "code"), REFUSALS)
def test_a_condition_that_is_not_met_is_named(plan_class: PlanClass, host: HostDescription, code: str):
    answer = usage(plan_class, host)
    assert isinstance(answer, Reason)
    assert answer.code == code
    assert "App" in answer.text()


@pytest.mark.parametrize(
    ("plan_class", "host"),
    [
        (PlanClass(name="x", min_ncpus=4), description()),
        (PlanClass(name="x", cpu_features=("AVX2",)), description()),
        (PlanClass(name="x", min_memory_mb=16000), description()),
        (PlanClass(name="x", os_regex="^Linux.*12$", cpu_vendor_regex="Intel"), description()),
        (PlanClass(name="x", virtualbox=True), description(virtualbox_version="7.0")),
        (PlanClass(name="x", docker=True), description(docker_version="27")),
        (PlanClass(name="x", gpu_type="NVIDIA", min_gpu_ram_mb=8000, min_driver_version=55000), GPU_HOST),
    ],
)
def test_a_condition_that_is_just_met_is_accepted(plan_class: PlanClass, host: HostDescription):
    accepted(usage(plan_class, host))


def test_the_known_hosts_that_would_match_are_counted_with_what_excludes_the_others():
    hosts = [GPU_HOST, description(), description(), description(coprocessors=(replace(NVIDIA, ram=1e9),))]
    count = count_matching_hosts(PlanClass(name="cuda", gpu_type="NVIDIA", min_gpu_ram_mb=4000), hosts)
    assert (count.matching, count.total) == (1, 4)
    assert count.refusals == {"gpu_missing": 2, "gpu_memory": 1}
