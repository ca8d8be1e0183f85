"""The volunteer's limits in today's family: concurrent jobs, excluded GPUs, memory, throttle."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobblestone.domain.values import DAY
from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.policy.client.core.state import ClientJob, PlannedFetch
from cobblestone.policy.client.core.values import CPU, GpuExclusion
from cobblestone.policy.client.host.tasks import throttle_second
from cobblestone.policy.client.recent.concurrency import ProjectLimits, Together, expected_working_set
from cobblestone.policy.client.recent.picks import QueueProject
from cobblestone.policy.client.recent.rec import Devices, GpuType
from cobblestone.policy.client.recent.round_robin import RoundRobinOutlook, simulate_devices
from cobblestone.policy.client.recent.run_list import make_device_run_list
from cobblestone.policy.client.recent.work_fetch import DeviceFetchProject, FetchSettings, plan_device_fetch
from cobblestone.simulator.host.run import simulate
from cobblestone.simulator.paper import cells
from cobblestone.simulator.world.scenario import AppModel, Gpus, JobSizes, ProjectModel, Scenario

DEVICES = Devices(ncpus=4, cpu_flops=1e9, gpus=(GpuType(name="NVIDIA", count=2, relative_speed=10.0),))
MODERN = PolicyChoice(4, 4, 1, 2)


@dataclass(eq=False, kw_only=True)
class Job(ClientJob):
    id: str = ""
    project: int = 0
    app_name: str = "app"
    version: str = ""
    cpus: float = 1.0
    gpu: str = ""
    gpus: float = 0.0
    raw: float = 0.0
    received: float = 0.0
    report_deadline: float = 1e6
    remaining: float = 1000.0
    cutoff: float = 1e6
    checkpointed_at: float | None = 0.0


def gpu_job(project: int = 0, gpus: float = 1.0) -> Job:
    return Job(project=project, gpu="NVIDIA", gpus=gpus, cpus=0.0)


def excluding(count: int) -> tuple[GpuExclusion, ...]:
    return tuple(GpuExclusion(gpu="NVIDIA", instance=n) for n in range(count))


def look(jobs: list[Job], projects: list[QueueProject], *, ram: float = math.inf) -> RoundRobinOutlook:
    return simulate_devices(
        jobs,
        projects,
        DEVICES,
        now=0.0,
        buffer_total=10_000.0,
        cpu_available=1.0,
        gpu_available=1.0,
        half_life=864000.0,
        ram_bytes=ram,
    )


def run_list(jobs: list[Job], projects: list[QueueProject], *, ram: float = math.inf) -> list[ClientJob]:
    return make_device_run_list(
        jobs, projects, DEVICES, look(jobs, projects), now=0.0, slice_seconds=3600.0, ram_bytes=ram
    ).jobs


def fetch(projects: list[DeviceFetchProject], outlook: RoundRobinOutlook) -> PlannedFetch:
    return plan_device_fetch(
        projects, outlook, devices=DEVICES, settings=FetchSettings(buffer_min=1000.0, buffer_total=10_000.0)
    )


def limited(**limits: int) -> QueueProject:
    return QueueProject(share=1.0, rec=0.0, limits=ProjectLimits(app_max_concurrent=limits))


# -- concurrency ----------------------------------------------------------------------------------------------------


def test_the_limit_of_an_app_leaves_room_for_the_project_s_other_apps() -> None:
    jobs = [Job(app_name="big") for _ in range(4)] + [Job(app_name="small") for _ in range(4)]
    chosen = run_list(jobs, [limited(big=1)])
    assert sorted(j.app_name for j in chosen) == ["big", "small", "small", "small"]


def test_a_limited_project_misses_only_what_its_limit_lets_it_use() -> None:
    outlook = look(
        [Job(remaining=4000.0)], [QueueProject(share=1.0, rec=0.0, limits=ProjectLimits(max_concurrent=2))]
    )
    # two CPUs may be used: one all the time, the other while the only job runs
    assert outlook.limit_shortfalls[0, CPU] == pytest.approx(10_000.0 + 6000.0)
    assert outlook.devices[CPU].shortfall == pytest.approx(4 * 10_000.0 - 4000.0)


def test_a_limited_project_is_asked_for_that_and_not_for_the_whole_host() -> None:
    limits = ProjectLimits(max_concurrent=2)
    outlook = look([Job(remaining=4000.0)], [QueueProject(share=1.0, rec=0.0, limits=limits)])
    plan = fetch([DeviceFetchProject(share=1.0, rec=0.0, supplies=frozenset({CPU}), limits=limits)], outlook)
    assert plan.requests[CPU].seconds == pytest.approx(16_000.0)
    assert plan.requests[CPU].instances == 0.0


def test_a_project_at_its_limit_is_not_asked_for_ever_although_processors_are_idle() -> None:
    limits = ProjectLimits(max_concurrent=1)
    jobs = [Job(remaining=20_000.0), Job(remaining=20_000.0)]
    outlook = look(jobs, [QueueProject(share=1.0, rec=0.0, limits=limits)])
    supply = DeviceFetchProject(share=1.0, rec=0.0, supplies=frozenset({CPU}), limits=limits)
    assert outlook.devices[CPU].idle_now == 3.0
    assert fetch([supply], outlook).project is None
    other = DeviceFetchProject(share=1.0, rec=5.0, supplies=frozenset({CPU}))
    outlook = look(jobs, [QueueProject(share=1.0, rec=0.0, limits=limits), QueueProject(share=1.0, rec=5.0)])
    assert fetch([supply, other], outlook).project == 1


@given(
    limit=st.integers(0, 5),
    app_limit=st.integers(0, 5),
    excluded=st.integers(0, 2),
    kinds=st.lists(st.sampled_from(["cpu", "half", "gpu"]), max_size=20),
)
def test_no_limit_is_ever_exceeded(limit: int, app_limit: int, excluded: int, kinds: list[str]) -> None:
    jobs = [Job() if k == "cpu" else gpu_job(gpus=0.5 if k == "half" else 1.0) for k in kinds]
    limits = ProjectLimits(
        max_concurrent=limit, app_max_concurrent={"app": app_limit}, exclusions=excluding(excluded)
    )
    chosen = run_list(jobs, [QueueProject(share=1.0, rec=0.0, limits=limits)])
    assert len(chosen) <= (limit or 99)
    assert len(chosen) <= (app_limit or 99)
    assert sum(j.gpus for j in chosen) <= 2 - excluded + 1e-9
    assert sum(j.cpus for j in chosen) <= 4


# -- excluded GPUs --------------------------------------------------------------------------------------------------


def test_an_excluded_gpu_is_left_to_the_other_project() -> None:
    mine = QueueProject(share=1.0, rec=0.0, limits=ProjectLimits(exclusions=excluding(1)))
    jobs = [gpu_job(0), gpu_job(0), gpu_job(1)]
    chosen = run_list(jobs, [mine, QueueProject(share=1.0, rec=100.0)])
    assert sorted(j.project for j in chosen) == [0, 1]


def test_a_project_with_enough_work_for_the_gpus_that_it_may_use_is_not_asked_for_the_idle_one() -> None:
    limits = ProjectLimits(exclusions=excluding(1))
    jobs = [gpu_job(), gpu_job()]
    for job in jobs:
        job.remaining = 5000.0
    outlook = look(jobs, [QueueProject(share=1.0, rec=0.0, limits=limits)])
    assert outlook.devices["NVIDIA"].idle_now == 1.0
    full = DeviceFetchProject(
        share=1.0,
        rec=0.0,
        supplies=frozenset({"NVIDIA"}),
        limits=limits,
        queued_instances={"NVIDIA": 2.0},
        queued_seconds={"NVIDIA": 10_000.0},
    )
    assert fetch([full], outlook).project is None
    empty = replace(full, queued_instances={}, queued_seconds={})
    request = fetch([empty], outlook).requests["NVIDIA"]
    assert request.instances == 1.0
    assert request.seconds == pytest.approx(outlook.devices["NVIDIA"].shortfall / 2)


def test_a_project_that_may_use_no_gpu_at_all_is_never_asked_for_gpu_jobs() -> None:
    limits = ProjectLimits(exclusions=excluding(2))
    outlook = look([], [QueueProject(share=1.0, rec=0.0, limits=limits)])
    supply = DeviceFetchProject(share=1.0, rec=0.0, supplies=frozenset({"NVIDIA"}), limits=limits)
    assert fetch([supply], outlook).project is None


# -- memory ---------------------------------------------------------------------------------------------------------


def test_jobs_run_together_only_as_far_as_memory_goes() -> None:
    jobs = [Job(working_set=3e9), Job(working_set=2e9), Job(working_set=1e9)]
    chosen = run_list(jobs, [QueueProject(share=1.0, rec=0.0)], ram=4.5e9)
    assert sum(j.working_set for j in chosen) <= 4.5e9
    assert len(chosen) == 2


def test_a_job_that_cannot_fit_is_not_hurried_and_holds_nobody_up() -> None:
    jobs = [Job(working_set=9e9, cutoff=10.0), Job(cutoff=10.0)]
    outlook = look(jobs, [QueueProject(share=1.0, rec=0.0)], ram=4e9)
    assert outlook.late == {1}
    assert run_list(jobs, [QueueProject(share=1.0, rec=0.0)], ram=4e9) == [jobs[1]]


def test_expected_memory_comes_from_the_job_then_from_its_version_then_from_the_bound() -> None:
    assert expected_working_set(smoothed=1.0, largest_of_version=2.0, memory_bound=3.0) == 1.0
    assert expected_working_set(largest_of_version=2.0, memory_bound=3.0) == 2.0
    assert expected_working_set(memory_bound=3.0) == 3.0
    assert expected_working_set(smoothed=1.0, memory_bound=3.0, strict=True) == 3.0


def test_the_refusal_says_which_limit_is_reached() -> None:
    limits = ProjectLimits(max_concurrent=2, app_max_concurrent={"app": 1}, exclusions=excluding(2))
    together = Together([limits], DEVICES, ram_bytes=10.0)
    assert together.refusal(gpu_job()) == "gpu"
    assert together.refusal(Job(working_set=11.0)) == "memory"
    together.add(Job())
    assert together.refusal(Job()) == "app"
    together.add(Job(app_name="other"))
    assert together.refusal(Job(app_name="third")) == "project"


# -- throttle -------------------------------------------------------------------------------------------------------


@given(st.floats(0.0, 100.0), st.integers(1, 500))
def test_the_throttle_lets_through_its_part_of_the_time(limit: float, seconds: int) -> None:
    level, ran = 0.0, 0
    for _ in range(seconds):
        runs, level = throttle_second(level, limit_percent=limit)
        ran += runs
    assert abs(ran - seconds * limit / 100.0) < 1.0 + 1e-6
    assert 0.0 <= level < 100.0


def test_a_throttle_of_a_hundred_never_stops_and_of_zero_never_runs() -> None:
    assert throttle_second(0.0, limit_percent=100.0) == (True, 0.0)
    assert throttle_second(0.0, limit_percent=0.0) == (False, 0.0)
    assert throttle_second(0.0, limit_percent=150.0) == (True, 0.0)


# -- the whole client -----------------------------------------------------------------------------------------------


def scenario(*projects: ProjectModel, ram: float = 0.0, gpus: int = 0) -> Scenario:
    base = replace(cells.base(), duration=3 * DAY, projects=projects)
    host = replace(
        base.host, ncpus=4, ram_bytes=ram, gpus=(Gpus(type="NVIDIA", count=gpus, flops=1e11),) if gpus else ()
    )
    return replace(base, host=host)


def test_a_limited_project_neither_floods_the_host_nor_starves_the_others() -> None:
    app = AppModel(sizes=JobSizes(mean=5e12), flops_estimate=5e12)
    one = ProjectModel(name="limited", apps=(app,), max_concurrent=1)
    two = ProjectModel(name="other", apps=(app,))
    result = simulate(scenario(one, two), MODERN)
    first, second = result.books.projects
    assert result.metrics.idleness < 0.02
    assert first.used / (first.used + second.used) == pytest.approx(0.25, abs=0.05)
    assert first.sent - first.met < 10
    alone = simulate(scenario(one), MODERN)
    assert alone.metrics.idleness == pytest.approx(0.75, abs=0.02)
    assert alone.books.projects[0].sent < alone.books.projects[0].met + 10
    assert alone.metrics.rpcs_per_job < 5


def test_memory_keeps_processors_idle_but_nothing_breaks() -> None:
    app = AppModel(sizes=JobSizes(mean=5e12), flops_estimate=5e12, working_set=2e9)
    result = simulate(scenario(ProjectModel(name="P", apps=(app,)), ram=4.5e9), MODERN)
    assert result.metrics.idleness == pytest.approx(0.5, abs=0.02)


def test_an_excluded_gpu_stays_idle_without_a_flood_of_jobs() -> None:
    app = AppModel(gpu="NVIDIA", gpus=1.0, cpus=0.1, sizes=JobSizes(mean=4e14), flops_estimate=4e14)
    project = ProjectModel(name="P", apps=(app,), excluded_gpu="NVIDIA", excluded_gpus=1)
    result = simulate(scenario(project, gpus=2), MODERN)
    book = result.books.projects[0]
    assert result.metrics.idleness == pytest.approx(0.5, abs=0.05)
    assert book.sent < book.met + 20
