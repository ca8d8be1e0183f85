"""The published client policies and today's, one rule at a time."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import pytest

from cobblestone.domain.errors import ConfigError
from cobblestone.policy.client.choice import Faults2007, PolicyChoice
from cobblestone.policy.client.core import values
from cobblestone.policy.client.core.reasons import sentence
from cobblestone.policy.client.core.state import ClientJob
from cobblestone.policy.client.core.values import CPU
from cobblestone.policy.client.estimates import remaining_2007, remaining_elapsed, update_dcf
from cobblestone.policy.client.published import work_fetch
from cobblestone.policy.client.published.debts import (
    adjust_long_term,
    adjust_short_term,
    portions,
    update_cpu_efficiency,
)
from cobblestone.policy.client.published.round_robin import ProjectQueue, simulate_round_robin
from cobblestone.policy.client.published.run_list import enforce_run_list, make_run_list
from cobblestone.policy.client.published.work_fetch import FetchPreferences, FetchProject, Urgency
from cobblestone.policy.client.recent import rec
from cobblestone.policy.client.recent.concurrency import ProjectLimits
from cobblestone.policy.client.recent.picks import QueueProject
from cobblestone.policy.client.recent.round_robin import simulate_devices
from cobblestone.policy.client.recent.run_list import make_device_run_list
from cobblestone.policy.client.recent.work_fetch import DeviceFetchProject, FetchSettings, plan_device_fetch
from cobblestone.policy.dispatch.deadline_check import BookedJob, Workload


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


# -- choice ---------------------------------------------------------------------------------------------------------


def test_a_policy_is_written_as_in_the_paper() -> None:
    assert PolicyChoice.parse("cs1_wf2_ws1_jc2") == PolicyChoice(1, 2, 1, 2)
    assert str(PolicyChoice.parse("CS3_WF3")) == "CS3_WF3_WS2_JC2"
    assert str(PolicyChoice.parse("CS4_WF4")) == "CS4_WF4_WS1_JC2"
    assert str(PolicyChoice(1, 2, 1, 2)) == "CS1_WF2_WS1_JC2"


@pytest.mark.parametrize(
    "text", ["", "CS9_WF1_WS1_JC1", "CS1WF1WS1JC1", "CS4_WF2_WS1_JC2", "CS3_WF2", "CS2_WF3"]
)
def test_what_is_not_a_policy_is_refused_with_an_example_or_a_reason(text: str) -> None:
    with pytest.raises(ConfigError, match=r"CS2_WF2_WS2_JC2|belong together"):
        PolicyChoice.parse(text)


def test_faults_are_off_unless_asked_for() -> None:
    assert Faults2007() != Faults2007.all()
    assert not Faults2007().absolute_admission_deadlines


# -- estimates ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dcf", "actual", "expected"),
    [
        (1.0, 2.0, 2.0),
        (1.0, 1.05, 1.005),
        (1.0, 0.5, 0.95),
        (1.0, 0.05, 0.9905),
        (1.0, 500.0, 100.0),
        (0.0101, 0.0, 0.01),
    ],
)
def test_the_correction_factor_jumps_up_and_creeps_down(dcf: float, actual: float, expected: float) -> None:
    assert update_dcf(dcf, actual=actual, raw_estimate=1.0) == pytest.approx(expected)


def test_remaining_time_of_2007_mixes_progress_with_the_estimate() -> None:
    assert remaining_2007(estimate=100.0, used=0.0, fraction_done=0.0) == 100.0
    assert remaining_2007(estimate=100.0, used=80.0, fraction_done=0.5) == pytest.approx(
        80 * 0.5 + 0.25 * 100
    )
    assert remaining_2007(estimate=100.0, used=80.0, fraction_done=1.0) == 0.0


def test_without_a_fraction_the_estimate_is_stretched_and_never_runs_out() -> None:
    for elapsed in (1.0, 100.0, 1000.0):
        assert remaining_elapsed(estimate=100.0, elapsed=elapsed, fraction_done=None) > 0.0
    assert remaining_elapsed(estimate=2.0, elapsed=5e-324, fraction_done=None) == 2.0, "rounded to nothing"


def test_an_overdue_job_is_judged_by_its_fraction_alone() -> None:
    assert remaining_elapsed(estimate=100.0, elapsed=200.0, fraction_done=0.5) == pytest.approx(200.0)
    assert remaining_elapsed(estimate=100.0, elapsed=50.0, fraction_done=0.5) == pytest.approx(50.0)


# -- round robin ----------------------------------------------------------------------------------------------------


def test_two_projects_share_the_processor_and_speed_up_when_one_is_dry() -> None:
    queues = [ProjectQueue(1.0, [100.0], [1e9]), ProjectQueue(1.0, [300.0], [1e9])]
    found = simulate_round_robin(
        queues, now=0.0, ncpus=1, cpu_fraction=1.0, buffer_seconds=1000.0, total_share=2.0
    )
    # 200 s at half speed each, then 200 s alone
    assert found.shortfall == pytest.approx(600.0)
    assert found.dry_after == pytest.approx([200.0, 400.0])


def test_a_job_is_endangered_if_it_ends_after_nine_tenths_of_its_time() -> None:
    for cutoff, late in ((1000.0 / 0.9 + 1, 0), (1000.0 / 0.9 - 1, 1)):
        found = simulate_round_robin(
            [ProjectQueue(1.0, [1000.0], [cutoff])],
            now=0.0,
            ncpus=1,
            cpu_fraction=1.0,
            buffer_seconds=10.0,
            total_share=1.0,
        )
        assert found.misses == [late]


def test_a_project_without_jobs_misses_its_whole_share() -> None:
    queues = [ProjectQueue(1.0, [], []), ProjectQueue(3.0, [1e6] * 4, [1e9] * 4)]
    found = simulate_round_robin(
        queues, now=0.0, ncpus=4, cpu_fraction=0.5, buffer_seconds=1000.0, total_share=4.0
    )
    assert found.shortfalls[0] == pytest.approx(1000.0 * 0.5 * 4 * 0.25)
    assert found.shortfall == 0.0


# -- debts ----------------------------------------------------------------------------------------------------------


def test_debts_sum_to_zero_and_follow_the_shares() -> None:
    new = adjust_long_term([0.0, 0.0], parts=portions([1.0, 3.0], [True, True]), wall=[100.0, 100.0])
    assert new == pytest.approx([-50.0, 50.0])
    assert sum(new) == pytest.approx(0.0)


def test_short_term_debt_needs_a_runnable_job_and_is_bounded() -> None:
    runnable = [True, False, True]
    parts = portions([1, 1, 1], runnable)
    new = adjust_short_term([1e6, 5.0, -1e6], parts=parts, wall=[0, 0, 0], runnable=runnable)
    assert new == [86400.0, 0.0, -86400.0]


def test_cpu_efficiency_fades_over_a_day_of_wall_time() -> None:
    assert update_cpu_efficiency(1.0, wall=86400.0, cpu=0.0) == pytest.approx(math.exp(-1))
    assert update_cpu_efficiency(0.5, wall=0.001, cpu=0.0) == 0.5


# -- run list -------------------------------------------------------------------------------------------------------


def test_round_robin_takes_turns_by_debt_and_ignores_deadlines() -> None:
    jobs = [Job(project=0, report_deadline=1.0), Job(project=1)]
    chosen = make_run_list(
        jobs, ncpus=1, slice_seconds=3600, shares=[1, 1], short_term_debts=[0.0, 10.0], misses=None
    )
    assert chosen == [jobs[1]]


def test_a_project_with_one_miss_has_its_earliest_deadline_run_first() -> None:
    jobs = [Job(project=0), Job(project=1, report_deadline=50.0), Job(project=1, report_deadline=40.0)]
    chosen = make_run_list(
        jobs, ncpus=2, slice_seconds=3600, shares=[1, 1], short_term_debts=[100.0, 0.0], misses=[0, 1]
    )
    assert chosen == [jobs[2], jobs[0]]


def test_equal_deadlines_keep_the_started_job_unless_the_old_fault_is_asked_for() -> None:
    started = Job(report_deadline=50.0, remaining=400.0, start_order=1, running=True)
    fresh = Job(report_deadline=50.0, remaining=300.0)
    kwargs = {"ncpus": 1, "slice_seconds": 3600, "shares": [1.0], "short_term_debts": [0.0], "misses": [2]}
    assert make_run_list([started, fresh], **kwargs) == [started]
    assert make_run_list([started, fresh], ties_ignore_progress=True, **kwargs) == [fresh]


def test_a_running_job_gives_way_only_after_its_slice_or_to_a_job_in_trouble() -> None:
    running = Job(project=0, running=True, start_order=1, run_start=0.0)
    wanted = Job(project=1)
    early, _ = enforce_run_list([wanted], [running], now=600.0, ncpus=1, slice_seconds=3600, misses=[0, 0])
    assert (early.start, early.preempt, early.look_again) == ([], [], 3600.0)
    late, _ = enforce_run_list([wanted], [running], now=3600.0, ncpus=1, slice_seconds=3600, misses=[0, 0])
    assert (late.start, late.preempt) == ([wanted], [running])
    trouble, _ = enforce_run_list([wanted], [running], now=600.0, ncpus=1, slice_seconds=3600, misses=[0, 1])
    assert trouble.start == [wanted]


def test_a_task_that_has_not_checkpointed_lately_is_left_alone() -> None:
    running = Job(project=0, running=True, start_order=1)
    held, _ = enforce_run_list(
        [Job(project=1)],
        [running],
        now=7200.0,
        ncpus=1,
        slice_seconds=3600,
        misses=[0, 0],
        last_checkpoint=[7100.0],
    )
    assert held.start == []


# -- work fetch -----------------------------------------------------------------------------------------------------

PREFS = FetchPreferences(ncpus=1, buffer_min=1000.0, buffer_additional=0.0)


def _outlook(queues: list[ProjectQueue]):
    return simulate_round_robin(
        queues,
        now=0.0,
        ncpus=1,
        cpu_fraction=1.0,
        buffer_seconds=1000.0,
        total_share=sum(q.share for q in queues),
    )


def test_no_work_is_fetched_while_the_buffer_is_full_and_a_job_in_trouble() -> None:
    queues = [ProjectQueue(1.0, [5000.0], [10.0]), ProjectQueue(1.0, [], [])]
    projects = [FetchProject(1.0, True, 0.0, queued=1), FetchProject(1.0, True, 0.0)]
    plan = work_fetch.fetch_by_shortfall(projects, _outlook(queues), prefs=PREFS, explain=True)
    assert (plan.project, plan.urgency) == (None, Urgency.DONT_NEED)
    assert "deadline trouble" in sentence(plan.reasons[0])


def test_the_project_that_is_owed_most_is_asked_for_its_part() -> None:
    queues = [ProjectQueue(1.0, [], []), ProjectQueue(1.0, [], [])]
    projects = [FetchProject(1.0, True, -10.0), FetchProject(1.0, True, 10.0)]
    plan = work_fetch.fetch_by_shortfall(projects, _outlook(queues), prefs=PREFS)
    assert (plan.project, plan.seconds) == (1, pytest.approx(500.0))
    assert plan.urgency is Urgency.NEED_IMMEDIATELY


def test_a_request_is_never_larger_than_the_buffer() -> None:
    queues = [ProjectQueue(1.0, [], [])]
    plan = work_fetch.fetch_by_shortfall([FetchProject(1.0, True, 0.0)], _outlook(queues), prefs=PREFS)
    assert plan.seconds <= 1.01 * 1000.0


def test_a_queue_below_its_target_is_filled_whatever_the_deadlines() -> None:
    projects = [FetchProject(1.0, True, 0.0, queued_seconds=400.0), FetchProject(1.0, False, 0.0)]
    plan = work_fetch.fetch_by_queue(projects, [0.0, 0.0], prefs=PREFS)
    assert (plan.project, plan.seconds) == (0, pytest.approx(100.0))
    assert plan.others == {1: pytest.approx(500.0)}


def test_a_report_is_due_a_day_before_the_deadline_or_a_day_after_the_end() -> None:
    assert work_fetch.report_due(report_deadline=10 * 86400.0, completed_at=0.0, buffer_min=0.0) == 86400.0
    assert work_fetch.report_due(report_deadline=1.5 * 86400.0, completed_at=0.0, buffer_min=0.0) == 43200.0


def test_backoffs_grow_and_stay_within_their_bounds() -> None:
    rng = random.Random(1)
    assert values.rpc_backoff_2007(1, rng=rng) == 60.0
    for n in range(1, 40):
        assert 60.0 <= values.rpc_backoff_2007(n, rng=rng) <= 4 * 3600.0
        assert 30.0 <= values.rpc_backoff(n, rng=rng) <= 4 * 3600.0
    interval = 0.0
    for _ in range(12):
        interval = values.next_type_backoff(interval)
    assert interval == 86400.0


# -- deadline check -------------------------------------------------------------------------------------------------


def test_a_job_is_admitted_only_if_it_and_all_others_stay_in_time() -> None:
    workload = Workload([BookedJob(100.0, 60.0)], ncpus=1)
    assert workload.admits(BookedJob(200.0, 100.0))
    assert not workload.admits(BookedJob(150.0, 100.0))
    assert not workload.admits(BookedJob(90.0, 50.0))


def test_a_job_that_is_late_anyway_may_not_become_later() -> None:
    workload = Workload([BookedJob(10.0, 60.0)], ncpus=1)
    assert workload.admits(BookedJob(1000.0, 60.0))
    assert not workload.admits(BookedJob(5.0, 1.0))


def test_accepted_jobs_join_the_workload() -> None:
    workload = Workload([], ncpus=1)
    job = BookedJob(100.0, 60.0)
    assert workload.admits(job)
    workload.add(job)
    assert not workload.admits(job)


# -- today's family -------------------------------------------------------------------------------------------------

DEVICES = rec.Devices(
    ncpus=2, cpu_flops=1e9, gpus=(rec.GpuType(name="NVIDIA", count=1, relative_speed=20.0),)
)


def test_rec_tends_to_the_credit_of_a_day() -> None:
    value = 0.0
    for _ in range(2000):
        value = rec.update_rec(value, credit=200.0 / 24, seconds=3600.0, half_life=86400.0)
    assert value == pytest.approx(200.0, rel=1e-6)


def test_a_project_below_its_share_comes_first_and_one_without_a_share_last() -> None:
    first, second, without = (
        rec.priority(r, share, 400.0, 20.0) for r, share in ((10.0, 100.0), (10.0, 300.0), (0.0, 0.0))
    )
    assert second > first > without


def _look(jobs: list[Job], projects: list[QueueProject]):
    return simulate_devices(
        jobs,
        projects,
        DEVICES,
        now=0.0,
        buffer_total=10_000.0,
        cpu_available=1.0,
        gpu_available=1.0,
        half_life=864000.0,
    )


def test_shortfall_is_counted_per_device_type() -> None:
    jobs = [Job(remaining=4000.0), Job(remaining=2000.0, gpu="NVIDIA", gpus=1.0, cpus=0.0)]
    found = _look(jobs, [QueueProject(share=1.0, rec=0.0)])
    assert found.devices[CPU].shortfall == pytest.approx(16_000.0)
    assert found.devices["NVIDIA"].shortfall == pytest.approx(8000.0)
    assert found.devices[CPU].idle_now == 1.0


def test_a_late_job_occupies_a_device_in_the_busy_time() -> None:
    jobs = [Job(remaining=4000.0, cutoff=100.0), Job(remaining=3000.0, cutoff=100.0)]
    assert _look(jobs, [QueueProject(share=1.0, rec=0.0)]).devices[CPU].busy == pytest.approx(3000.0)


def test_the_run_list_never_uses_more_than_there_is() -> None:
    jobs = [Job(gpu="NVIDIA", gpus=0.5, cpus=0.1) for _ in range(4)] + [Job() for _ in range(5)]
    projects = [QueueProject(share=1.0, rec=0.0)]
    chosen = make_device_run_list(
        jobs, projects, DEVICES, _look(jobs, projects), now=0.0, slice_seconds=3600.0
    ).jobs
    assert sum(j.gpus for j in chosen) == 1.0
    assert sum(j.cpus for j in chosen if not j.gpu) <= 2.0
    assert len(chosen) >= 3


def test_a_concurrency_limit_holds() -> None:
    jobs = [Job() for _ in range(3)]
    projects = [QueueProject(share=1.0, rec=0.0, limits=ProjectLimits(max_concurrent=1))]
    assert (
        len(
            make_device_run_list(
                jobs, projects, DEVICES, _look(jobs, projects), now=0.0, slice_seconds=3600.0
            ).jobs
        )
        == 1
    )


def test_fetch_starts_below_the_minimum_and_asks_the_neediest_project_for_all_types() -> None:
    outlook = _look([], [QueueProject(share=1.0, rec=0.0), QueueProject(share=1.0, rec=5.0)])
    projects = [
        DeviceFetchProject(share=1.0, rec=5.0, supplies=frozenset({""})),
        DeviceFetchProject(share=1.0, rec=0.0, supplies=frozenset({"", "NVIDIA"})),
    ]
    plan = plan_device_fetch(
        projects, outlook, devices=DEVICES, settings=FetchSettings(buffer_min=180.0, buffer_total=10_000.0)
    )
    assert plan.project == 1
    assert set(plan.requests) == {"", "NVIDIA"}
    assert plan.requests["NVIDIA"].seconds == pytest.approx(10_000.0)


def test_nothing_is_fetched_while_all_devices_are_busy() -> None:
    jobs = [Job(remaining=9000.0) for _ in range(2)] + [
        Job(remaining=9000.0, gpu="NVIDIA", gpus=1.0, cpus=0.0)
    ]
    projects = [QueueProject(share=1.0, rec=0.0)]
    fetch = [DeviceFetchProject(share=1.0, rec=0.0, supplies=frozenset({"", "NVIDIA"}))]
    plan = plan_device_fetch(
        fetch,
        _look(jobs, projects),
        devices=DEVICES,
        settings=FetchSettings(buffer_min=5000.0, buffer_total=10_000.0),
    )
    assert plan.project is None
