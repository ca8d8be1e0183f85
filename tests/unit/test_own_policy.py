"""CS3 and WF3, one rule at a time."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobblestone.policy.client.cautious_fetch import Prospect, fetch_in_time
from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.policy.client.contact_time import PendingReport, contact_delay
from cobblestone.policy.client.cs3_wf3 import OwnPolicy
from cobblestone.policy.client.interruptions import Interruptions
from cobblestone.policy.client.job_history import PROBE_SECONDS, JobHistory, remaining_by_progress
from cobblestone.policy.client.round_robin import ProjectQueue, simulate_round_robin
from cobblestone.policy.client.unmeetable_deadlines import can_be_in_time, hopeless_jobs
from cobblestone.policy.client.work_fetch import TROUBLE_PERIOD, FetchPlan, FetchPreferences, FetchProject
from cobblestone.policy.dispatch.deadline_check import BookedJob, Workload, all_in_time
from cobblestone.simulator import clients, presets
from cobblestone.simulator.driver import SimulatedClient
from cobblestone.simulator.metrics import Books, ProjectBook, compute_metrics
from cobblestone.simulator.run import simulate
from cobblestone.simulator.scenario import DAY

PREFS = FetchPreferences(ncpus=2)
ALWAYS = Interruptions()


def learned(on: float, off: float, *, count: int = 400) -> Interruptions:
    rng = random.Random(1)
    found = Interruptions()
    for _ in range(count):
        found = found.after_gap(on_seconds=rng.expovariate(1 / on), gap_seconds=rng.expovariate(1 / off))
    return found


# -- off-times ------------------------------------------------------------------------------------------------------


def test_mean_and_spread_of_the_wall_time_are_those_of_the_process() -> None:
    found = learned(1000.0, 250.0)
    assert found.wall_seconds(13_000.0) == pytest.approx(13_000.0 * 1.25, rel=0.05)
    spread = found.wall_seconds(13_000.0, deviations=1.0) - found.wall_seconds(13_000.0)
    assert spread == pytest.approx((13 * 2 * 250.0**2) ** 0.5, rel=0.15)


def test_a_host_that_was_never_off_needs_what_the_job_needs() -> None:
    assert ALWAYS.wall_seconds(100.0, deviations=3.0) == 100.0


@given(st.floats(0.0, 1e6), st.floats(-5.0, 5.0))
def test_nothing_is_faster_than_without_any_off_time(computing: float, deviations: float) -> None:
    assert learned(1000.0, 250.0, count=5).wall_seconds(computing, deviations=deviations) >= computing


def test_old_off_times_are_forgotten() -> None:
    found = learned(1000.0, 1000.0)
    for _ in range(400):
        found = found.after_gap(on_seconds=86400.0, gap_seconds=60.0)
    assert found.wall_seconds(86400.0) < 1.01 * 86400.0


# -- sizes ----------------------------------------------------------------------------------------------------------


def test_jobs_that_cannot_be_in_time_count_with_what_it_takes_to_find_out() -> None:
    history = JobHistory(ratios=(1.0, 100.0), estimate=1000.0, latency_bound=5000.0)
    mean, deviation = history.busy_seconds(lambda seconds: seconds < 5000.0)
    assert mean == pytest.approx((1000.0 + PROBE_SECONDS) / 2)
    assert deviation > 0.0


def test_after_nothing_but_giants_the_estimate_keeps_its_chance() -> None:
    history = JobHistory(ratios=(100.0, 100.0), estimate=1000.0, latency_bound=5000.0)
    assert history.can_be_in_time(lambda seconds: seconds < 5000.0)
    assert history.busy_seconds(lambda seconds: seconds < 5000.0)[0] < 1000.0


def test_where_nothing_can_be_in_time_jobs_count_in_full() -> None:
    history = JobHistory(ratios=(2.0, 4.0), estimate=1000.0, latency_bound=500.0)
    assert not history.can_be_in_time(lambda seconds: seconds < 500.0)
    assert history.busy_seconds(lambda seconds: seconds < 500.0)[0] == 3000.0


def test_the_memory_of_a_project_is_bounded() -> None:
    history = JobHistory()
    for i in range(1000):
        history = history.after_job(float(i))
    assert len(history.ratios) == 64
    assert history.ratios[-1] == 999.0


def test_progress_is_believed_once_it_means_something() -> None:
    assert remaining_by_progress(estimate=1000.0, used=100.0, fraction_done=0.0001) == 900.0
    assert remaining_by_progress(estimate=1000.0, used=400.0, fraction_done=0.01) == pytest.approx(39_600.0)
    assert remaining_by_progress(estimate=1000.0, used=1000.0, fraction_done=1.0) == 0.0


# -- giving up ------------------------------------------------------------------------------------------------------


def test_only_what_is_late_even_with_luck_is_hopeless() -> None:
    host = learned(1000.0, 250.0)
    assert can_be_in_time(13_000.0, 16_250.0, host)
    assert not can_be_in_time(13_000.0, 13_100.0, host)


def test_the_job_to_which_the_client_is_less_committed_is_given_up() -> None:
    assert hopeless_jobs(["first", "second"], [800.0, 800.0], [1000.0, 1000.0], ALWAYS, ncpus=1) == ["second"]
    assert hopeless_jobs(["first", "second"], [800.0, 800.0], [1000.0, 1000.0], ALWAYS, ncpus=2) == []


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(1, 30)), max_size=8))
def test_the_quick_look_at_all_jobs_agrees_with_admitting_one_after_another(
    jobs: list[tuple[int, int]],
) -> None:
    booked = [BookedJob(*job) for job in jobs]
    workload = Workload((), ncpus=1)
    admitted = 0
    for job in booked:
        if not workload.admits(job):
            break
        workload.add(job)
        admitted += 1
    assert all_in_time(booked, ncpus=1) == (admitted == len(booked))


def test_a_job_of_unknown_size_has_a_chance_until_its_deadline() -> None:
    assert hopeless_jobs(["a", "b"], [0.0, 0.0], [1.0, -1.0], ALWAYS, ncpus=1) == ["b"]


# -- when to be in contact --------------------------------------------------------------------------------------------


def delay(*jobs: PendingReport, ncpus: int = 1) -> float:
    return contact_delay(jobs, interval=2 * DAY, ncpus=ncpus, stretch=1.0)


def test_a_contact_waits_for_a_job_that_needs_a_little_more() -> None:
    nearly = PendingReport(ready=3600.0, deadline=DAY, worth=5 * DAY, remaining=3600.0)
    assert delay(nearly) == 3600.0
    assert delay(nearly._replace(deadline=1800.0)) == 0.0  # it will be late anyway
    assert delay(nearly._replace(deadline=3 * DAY)) == 0.0  # the next contact will do


def test_a_contact_does_not_wait_longer_than_it_is_worth() -> None:
    young = PendingReport(ready=0.9 * DAY, deadline=DAY, worth=3600.0, remaining=0.9 * DAY)
    assert delay(young, ncpus=1) == 0.9 * DAY  # no processor is idle in the meantime
    assert delay(young, ncpus=2) == 0.0


def test_a_contact_does_not_wait_while_a_finished_job_gets_late() -> None:
    nearly = PendingReport(ready=3600.0, deadline=DAY, worth=1 * DAY, remaining=3600.0)
    finished = PendingReport(ready=0.0, deadline=1800.0, worth=2 * DAY, remaining=0.0)
    assert delay(nearly, finished) == 0.0
    assert delay(nearly, finished._replace(worth=0.5 * DAY)) == 3600.0


def test_a_contact_waits_for_as_many_jobs_as_can_be_saved() -> None:
    first = PendingReport(ready=0.1 * DAY, deadline=DAY, worth=DAY, remaining=0.1 * DAY)
    second = PendingReport(ready=0.2 * DAY, deadline=DAY, worth=DAY, remaining=0.1 * DAY)
    assert delay(first, second) == 0.2 * DAY
    assert delay(first._replace(deadline=0.15 * DAY, worth=2 * DAY), second) == 0.1 * DAY


@given(
    st.lists(
        st.builds(
            PendingReport,
            ready=st.floats(0, 3 * DAY),
            deadline=st.floats(-DAY, 9 * DAY),
            worth=st.floats(0, 9 * DAY),
            remaining=st.floats(0, 9 * DAY),
        ),
        max_size=6,
    ),
    st.integers(1, 4),
)
def test_waiting_never_goes_past_the_deadline_for_which_it_waits(
    jobs: list[PendingReport], ncpus: int
) -> None:
    wait = contact_delay(jobs, interval=2 * DAY, ncpus=ncpus, stretch=1.25)
    assert wait == 0.0 or any(job.ready == wait <= job.deadline < 2 * DAY for job in jobs)


def test_between_two_contacts_jobs_that_will_be_late_fill_idle_processors_and_are_not_given_up() -> None:
    scenario = presets.variance(100.0)
    ours = PolicyChoice.parse("CS3_WF3_WS2_JC2")
    found = simulate(scenario, ours, seed=2)
    assert found.metrics.idleness < 0.03
    assert found.metrics.waste < 0.4  # CS2 wastes nearly everything


class _Watched(SimulatedClient):
    """Asserts at every alarm that nothing which is due before it is passed over."""

    waits = 0

    def step(self) -> None:
        super().step()
        policy = self.core.policy
        assert isinstance(policy, OwnPolicy)
        if policy.memory.waits:
            type(self).waits += 1
            state = self.core.state
            due = [state.next_fetch, state.look_again, policy.memory.probe_at, state.now + TROUBLE_PERIOD]
            due += [state.last_schedule + state.slice] if state.jobs else []
            assert state.now < self.wake <= min(due) + 1.0


def test_a_contact_that_waits_puts_off_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "SimulatedClient", _Watched)
    monkeypatch.setattr(_Watched, "waits", 0)
    simulate(presets.variance(10.0), PolicyChoice.parse("CS3_WF3_WS2_JC2"), seed=1)
    assert _Watched.waits > 10


def test_computing_that_was_wasted_counts_as_what_its_project_got() -> None:
    scenario = replace(presets.base(), projects=(presets.project("A"), presets.project("B")))
    books = Books(scenario)
    books.projects = [ProjectBook(used=50.0, failed=20.0), ProjectBook(used=60.0, late=5.0, lost=5.0)]
    assert compute_metrics(books).share_violation == 0.0


# -- asking ---------------------------------------------------------------------------------------------------------


def ask(
    prospect: Prospect,
    promised: list[BookedJob] | None = None,
    *,
    idle: int = 0,
    until_next_contact: float = 0.0,
) -> FetchPlan:
    queues = [ProjectQueue(1.0, [], [])]
    outcome = simulate_round_robin(
        queues, now=0.0, ncpus=2, cpu_fraction=1.0, buffer_seconds=PREFS.buffer_total, total_share=1.0
    )
    projects = [FetchProject(1.0, True, 0.0, 1.0, len(promised or []))]
    return fetch_in_time(
        projects,
        outcome,
        [prospect],
        promised or [],
        ALWAYS,
        prefs=PREFS,
        idle_cpus=idle,
        until_next_contact=until_next_contact,
    )


def test_an_unknown_project_is_asked_for_one_job() -> None:
    plan = ask(Prospect())
    assert (plan.project, plan.seconds) == (0, 1.0)


def test_an_unknown_project_is_asked_for_all_if_nothing_can_be_had_soon() -> None:
    assert ask(Prospect(), until_next_contact=DAY).seconds == pytest.approx(2 * PREFS.buffer_total)


def test_no_more_is_asked_for_than_can_be_in_time() -> None:
    plan = ask(Prospect(known=True, busy=10_000.0, time_left=25_000.0))
    assert plan.seconds == pytest.approx(35_000.0)  # two jobs on each processor, less half a job
    full = [BookedJob(25_000.0, 10_000.0)] * 4
    assert ask(Prospect(known=True, busy=10_000.0, time_left=25_000.0), full).project is None


def test_an_idle_processor_is_given_a_job_that_may_be_late() -> None:
    plan = ask(Prospect(known=True, busy=10_000.0, time_left=9000.0), idle=1)
    assert (plan.project, plan.seconds) == (0, 1.0)


def test_varying_sizes_enlarge_the_request() -> None:
    steady = ask(Prospect(known=True, busy=5000.0, time_left=1e6))
    varying = ask(Prospect(known=True, busy=5000.0, deviation=10_000.0, time_left=1e6))
    assert varying.seconds > 1.1 * steady.seconds
