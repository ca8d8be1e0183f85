"""CS3 and WF3, one rule at a time."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobblestone.domain.values import DAY
from cobblestone.policy.client.choice import PolicyChoice
from cobblestone.policy.client.own.cautious_fetch import OWED, PendingReport, contact_delay, fetch_in_time
from cobblestone.policy.client.own.history import (
    BELIEVED_AFTER_TRIAL,
    FIRST_BELIEVED,
    HONEST_JOBS,
    KNOWN,
    MEMORY,
    AppHistory,
    BandReadings,
    JobOutlook,
    PastJob,
    ProgressClaim,
    ProjectHistory,
    Trials,
    note_progress,
)
from cobblestone.policy.client.own.lateness import (
    FLOOR,
    GivingUp,
    Interruptions,
    ProjectYield,
    can_be_in_time,
)
from cobblestone.policy.client.own.policy import OwnPolicy
from cobblestone.policy.client.published.round_robin import ProjectQueue, simulate_round_robin
from cobblestone.policy.client.published.work_fetch import (
    TROUBLE_PERIOD,
    FetchPlan,
    FetchPreferences,
    FetchProject,
)
from cobblestone.policy.dispatch.deadline_check import BookedJob
from cobblestone.simulator.frontier.fresh import random_scenario
from cobblestone.simulator.host import run
from cobblestone.simulator.host.books import Books, ProjectBook, compute_metrics
from cobblestone.simulator.host.driver import SimulatedClient
from cobblestone.simulator.host.run import simulate
from cobblestone.simulator.paper import cells

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


# -- sizes and progress ---------------------------------------------------------------------------------------------


def history(ratios: list[float], *, readings: list[list[tuple[float, float]]] | None = None) -> AppHistory:
    """What is known after jobs of these sizes (estimate 1000 s); ``readings``: seconds used and fraction reported."""
    found = AppHistory()
    for number, ratio in enumerate(ratios):
        seen: dict[int, BandReadings] = {}
        for used, fraction in readings[number] if readings else ():
            note_progress(seen, used, fraction)
        found = found.after_job(ratio, tuple(seen.values()), ratio * 1000.0)
    return found


def readings_of(ratio: float, said: Callable[[float], float]) -> list[tuple[float, float]]:
    """What an app says at several points of a job of ``ratio`` times 1000 s."""
    return [(x * ratio * 1000.0, said(x)) for x in (0.15, 0.2, 0.35, 0.55, 0.8, 0.95)]


def test_without_a_history_the_estimate_counts_and_nothing_is_known_at_least() -> None:
    need = AppHistory().need(estimate=1000.0, used=400.0, fraction=None)
    assert (need.likely, need.least) == (600.0, 0.0)


def test_a_job_that_has_outlived_the_short_ones_is_one_of_the_long_ones() -> None:
    known = history([0.5] * 8 + [6.0, 8.0])
    need = known.need(estimate=1000.0, used=1000.0, fraction=None)
    assert (need.likely, need.least) == (6000.0, 5000.0)
    fresh = known.need(estimate=1000.0, used=0.0, fraction=None)
    assert fresh.least == 500.0


def test_the_spread_of_an_app_that_finished_few_jobs_is_not_known() -> None:
    assert history([1.0] * 4).need(estimate=1000.0, used=10.0, fraction=None).least == 0.0
    assert history([1.0] * 5).need(estimate=1000.0, used=10.0, fraction=None).least == 990.0


def test_a_job_longer_than_all_before_may_end_soon() -> None:
    need = history([1.0] * 10).need(estimate=1000.0, used=2000.0, fraction=None)
    assert need.least == pytest.approx(200.0)
    assert need.likely == pytest.approx(1000.0)


def test_true_progress_is_believed_after_three_jobs_also_for_a_giant() -> None:
    ratios = [1.0, 2.0, 3.0]
    known = history(ratios, readings=[readings_of(r, lambda x: x) for r in ratios])
    assert known.truthful
    need = known.need(estimate=1000.0, used=300.0, fraction=0.003)
    assert need.least == pytest.approx(99_700.0)
    two = history(ratios[:2], readings=[readings_of(r, lambda x: x) for r in ratios[:2]])
    assert two.need(estimate=1000.0, used=300.0, fraction=0.003).least == 0.0


@pytest.mark.parametrize(
    "said",
    [lambda x: x**1.5, lambda x: 0.6 + 0.4 * x, lambda x: min(0.99, 3 * x), lambda x: x * x],
    ids=["power", "offset", "lying", "square"],
)
def test_what_is_distorted_never_makes_a_job_seem_longer_at_least_than_its_app_s_jobs(
    said: Callable[[float], float],
) -> None:
    ratios = [0.8, 1.0, 1.2, 1.0, 0.9, 1.1]
    known = history(ratios, readings=[readings_of(r, said) for r in ratios])
    assert not known.truthful
    for x in (0.15, 0.5, 0.9):
        need = known.need(estimate=1000.0, used=1000.0 * x, fraction=said(x))
        assert 1000.0 * x + need.least <= 1200.0 + 1e-6


def test_evenly_distorted_progress_shows_a_giant_early() -> None:
    def said(x: float) -> float:
        return x**0.8

    points = [0.005 * k for k in range(1, 200)]
    ratios = [0.8, 1.0, 1.2, 1.0, 0.9, 1.1]
    known = history(
        ratios, readings=[[(x * r * 1000.0 + 120.0, said(x + 0.12 / r)) for x in points] for r in ratios]
    )
    assert not known.truthful
    giant = known.need(estimate=1000.0, used=1000.0, fraction=said(0.1))
    assert giant.least > 3000.0
    assert 1000.0 + giant.least <= 10_000.0


def test_progress_that_does_not_begin_shows_a_giant_only_where_the_app_s_jobs_say_something_sooner_or_later() -> (
    None
):
    ratios = [1.0] * 8
    points = [0.13, 0.2, 0.29, 0.35, 0.6, 0.95]

    def after(said: Callable[[float], float]) -> float:
        known = history(ratios, readings=[[(x * 1000.0, said(x)) for x in points]] * 8)
        return known.need(estimate=1000.0, used=3000.0, fraction=0.0).least

    assert after(lambda x: 0.0 if x < 0.3 else x) > 3000.0
    assert after(lambda x: 0.0) <= 300.0


def test_an_app_that_tells_the_truth_no_more_is_no_longer_believed() -> None:
    ratios = [1.0] * 6
    readings = [readings_of(1.0, lambda x: x)] * 5 + [readings_of(1.0, lambda x: 0.3 * x)]
    assert not history(ratios, readings=readings).truthful


def test_progress_that_stands_still_while_the_job_goes_on_is_not_true() -> None:
    """Each reading was right when it was made; hours later the same one said that the job takes a week."""
    ratios = [1.0] * 6
    stale = [(150.0, 0.15), (900.0, 0.15), (920.0, 0.92)]
    assert not history(ratios, readings=[stale] * 6).truthful
    assert history(ratios, readings=[[(150.0, 0.15), (240.0, 0.24), (920.0, 0.92)]] * 6).truthful


def test_a_job_that_reports_nothing_may_be_as_far_as_one_can_be() -> None:
    """Jobs that never say anything were last looked at long before they ended."""
    silent = history([1.0] * 8, readings=[[(300.0, 0.0)]] * 8)
    assert silent.need(estimate=1000.0, used=990.0, fraction=None).least <= 10.0


def test_progress_that_has_misled_foretells_no_job_that_is_larger_than_all_before() -> None:
    """Half of an app's jobs say too much; those that tell the truth seem behind, but need not be larger for it."""
    hasty = [readings_of(1.0, lambda x: min(0.99, 5 * x))] * 8
    misled = history([1.0, 1.4] * 4 + [1.0], readings=[*hasty, readings_of(1.0, lambda x: x)])
    assert any(misled.misled)
    assert misled.need(estimate=1000.0, used=340.0, fraction=0.34).least <= 1060.0
    assert history([1.0] * 8, readings=hasty).need(estimate=1000.0, used=340.0, fraction=0.34).least > 1060.0


def test_claims_are_believed_after_honest_jobs_then_tried_and_believed_more_with_each_trial_passed() -> None:
    trials = Trials()
    for _ in range(HONEST_JOBS):
        assert not trials.believed
        trials = trials.after_job(misled=False)
    for _ in range(FIRST_BELIEVED):
        assert trials.believed
        trials = trials.after_belief()
    assert not trials.believed
    claim = ProgressClaim(by_progress=9000.0, by_sizes=1000.0)
    assert not trials.after_trial(claim, 500.0, ended=False).believed, "it has not shown anything"
    once = trials.after_trial(claim, 2000.0, ended=False)
    twice = replace(once, credit=0).after_trial(claim, 8500.0, ended=True)
    assert (once.credit, twice.credit) == (BELIEVED_AFTER_TRIAL, 2 * BELIEVED_AFTER_TRIAL)
    failed = twice.after_trial(claim, 1500.0, ended=True)
    assert not failed.believed
    assert not failed.after_job(misled=False).believed, "it has to stand a trial first"


def test_an_app_that_has_misled_once_is_tried_before_it_is_believed() -> None:
    trials = Trials().after_job(misled=True)
    for _ in range(2 * HONEST_JOBS):
        trials = trials.after_job(misled=False)
    assert not trials.believed


@given(st.lists(st.floats(0.01, 100.0), max_size=80), st.floats(0.0, 1e5), st.none() | st.floats(0.0, 1.0))
def test_needs_are_never_negative_and_least_is_never_more_than_the_longest_job(
    ratios: list[float], used: float, fraction: float | None
) -> None:
    known = history(ratios)
    need = known.need(estimate=1000.0, used=used, fraction=fraction)
    assert need.likely >= 0.0
    assert need.least >= 0.0
    assert len(known.ratios) <= MEMORY
    assert sorted(known.ratios) == list(known.ordered)
    if need.least and used < max(ratios) * 1000.0:
        assert used + need.least <= max(ratios) * 1000.0 * (1 + 1e-9)


# -- projects -------------------------------------------------------------------------------------------------------


def fits(computing: float, bound: float) -> bool:
    return computing <= bound


def outlook(sizes: list[float], *, bound: float = 100.0, given_up: int = 0) -> JobOutlook:
    known = ProjectHistory().after_delivery(estimate=10.0, latency_bound=bound)
    for number, size in enumerate(sizes):
        known = known.after_job(PastJob(size, 10.0, bound, given_up=number < given_up))
    return known.outlook(fits)


def test_a_project_is_without_hope_only_if_hardly_any_of_several_jobs_can_be_in_time() -> None:
    assert not outlook([200.0] * 4).hopeless
    assert outlook([200.0] * 5).hopeless
    assert not outlook([200.0] * 8 + [50.0]).hopeless
    assert outlook([20.0] * 5, given_up=5).hopeless


def test_jobs_that_cannot_be_in_time_do_not_spoil_the_estimate_of_the_others() -> None:
    found = outlook([20.0, 30.0, 5000.0])
    assert (found.busy, found.correction) == (25.0, 2.5)
    assert outlook([400.0, 600.0]).busy == 500.0


def test_a_first_job_that_had_nothing_to_do_says_nothing_of_the_next() -> None:
    """The next ones were taken for nothing, and so nothing was asked for."""
    found = outlook([0.0])
    assert (found.busy, found.correction, found.ended) == (10.0, 1.0, 1)
    assert ask(replace(found, time_left=1e6)).project == 0
    assert outlook([0.0, 30.0]).busy == 30.0
    assert outlook([0.0] * KNOWN).busy == 0.0


def test_the_memory_of_a_project_is_bounded() -> None:
    known = ProjectHistory()
    for number in range(200):
        known = known.after_job(PastJob(float(number), 1.0, 1.0))
    assert len(known.jobs) == MEMORY
    assert known.jobs[-1].size == 199.0


# -- giving up, and what it costs -----------------------------------------------------------------------------------


def test_only_what_is_late_even_with_luck_cannot_be_in_time() -> None:
    assert can_be_in_time(100.0, 100.0, ALWAYS)
    assert not can_be_in_time(100.0, 99.0, ALWAYS)
    often = learned(1000.0, 250.0)
    assert can_be_in_time(13_000.0, 15_000.0, often)
    assert not can_be_in_time(13_000.0, 13_100.0, often)


def test_two_jobs_a_day_and_processor_may_be_given_up_and_no_more() -> None:
    allowance, given_up = GivingUp(), 0
    for hour in range(10 * 24):
        allowance = allowance.at(hour * 3600.0, ncpus=2)
        while allowance.possible:
            allowance, given_up = allowance.after_one(), given_up + 1
    assert 4 * 10 <= given_up <= 4 * 11


def test_a_clock_that_is_set_back_takes_no_allowance_away() -> None:
    allowance = GivingUp().at(1e9, ncpus=1).at(1e9 - 3650 * DAY, ncpus=1)
    assert allowance.possible
    assert not allowance.after_one().after_one().at(1e9 - 3660 * DAY, ncpus=1).possible


def test_a_project_that_wastes_its_time_weighs_less_and_comes_back() -> None:
    good = ProjectYield().after_job(10 * DAY, useful=True, now=10 * DAY)
    assert good.weight() == 1.0
    bad = ProjectYield().after_job(10 * DAY, useful=False, now=10 * DAY)
    assert bad.weight() == FLOOR
    assert bad.weight(waste_aversion=0.0) == 1.0
    later = bad.after_job(1.0, useful=False, now=200 * DAY)
    assert later.weight() > 0.99


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
    scenario = cells.variance(30.0)
    ours = PolicyChoice.parse("CS3_WF3_WS2_JC2")
    found = simulate(scenario, ours, seed=2)
    assert found.metrics.idleness < 0.05
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
    monkeypatch.setattr(run, "SimulatedClient", _Watched)
    monkeypatch.setattr(_Watched, "waits", 0)
    simulate(cells.variance(10.0), PolicyChoice.parse("CS3_WF3_WS2_JC2"), seed=1)
    assert _Watched.waits > 10


def test_computing_that_was_wasted_counts_as_what_its_project_got() -> None:
    scenario = replace(cells.base(), projects=(cells.project("A"), cells.project("B")))
    books = Books(scenario)
    books.projects = [ProjectBook(used=50.0, failed=20.0), ProjectBook(used=60.0, late=5.0, lost=5.0)]
    assert compute_metrics(books).share_violation == 0.0


# -- asking ---------------------------------------------------------------------------------------------------------


def ask(
    prospect: JobOutlook,
    promised: list[BookedJob] | None = None,
    *,
    idle: int = 0,
    until_next_contact: float = 0.0,
    owed: float = 0.0,
    of_others: bool = False,
    share: float = 1.0,
    work_for: float = 0.0,
) -> FetchPlan:
    queues = [ProjectQueue(1.0, [work_for] * 2, [1e9] * 2)]
    outcome = simulate_round_robin(
        queues, now=0.0, ncpus=2, cpu_fraction=1.0, buffer_seconds=PREFS.buffer_total, total_share=1.0
    )
    held = [] if of_others else promised or []
    projects = [FetchProject(share, True, owed, 1.0, len(held))]
    return fetch_in_time(
        projects,
        outcome,
        [prospect],
        promised or [],
        ALWAYS,
        prefs=PREFS,
        held=[sum(job.remaining for job in held)],
        remaining=[job.remaining for job in promised or []],
        idle_cpus=idle,
        until_next_contact=until_next_contact,
    )


def test_an_unknown_project_is_asked_for_one_job() -> None:
    plan = ask(JobOutlook())
    assert (plan.project, plan.seconds) == (0, 1.0)


def test_an_unknown_project_is_asked_for_all_if_nothing_can_be_had_soon() -> None:
    assert ask(JobOutlook(), until_next_contact=DAY).seconds == pytest.approx(2 * PREFS.buffer_total)


def test_no_more_is_asked_for_than_can_be_in_time() -> None:
    plan = ask(JobOutlook(known=True, ended=KNOWN, busy=10_000.0, time_left=25_000.0))
    assert plan.seconds == pytest.approx(25_000.0)  # half of what two processors can do until the deadline
    full = [BookedJob(25_000.0, 10_000.0)] * 4
    assert ask(JobOutlook(known=True, ended=KNOWN, busy=10_000.0, time_left=25_000.0), full).project is None
    by_others = ask(
        JobOutlook(known=True, ended=KNOWN, busy=10_000.0, time_left=25_000.0), full, of_others=True
    )
    assert by_others.project is None


@pytest.mark.parametrize(("ended", "jobs"), [(0, 4), (1, 8), (3, 16)])
def test_few_jobs_are_kept_of_a_project_until_some_have_ended(ended: int, jobs: int) -> None:
    outlook = JobOutlook(known=True, ended=ended, busy=100.0, time_left=1e6)
    assert ask(outlook).seconds == pytest.approx(100.0 * (jobs - 0.5))
    held = [BookedJob(1e6, 100.0)] * jobs
    assert ask(outlook, held).project is None
    assert ask(outlook, until_next_contact=DAY).seconds > 100.0 * jobs  # nothing can be had for long


def test_shares_of_nothing_divide_nothing() -> None:
    assert ask(JobOutlook(known=True, ended=KNOWN, busy=100.0, time_left=1e6), share=0.0, idle=1).project == 0


def test_an_idle_processor_is_given_a_job_that_may_be_late() -> None:
    plan = ask(JobOutlook(known=True, ended=KNOWN, busy=10_000.0, time_left=9000.0), idle=1)
    assert (plan.project, plan.seconds) == (0, 1.0)


def test_varying_sizes_enlarge_the_request() -> None:
    steady = ask(JobOutlook(known=True, ended=KNOWN, busy=5000.0, time_left=1e6))
    varying = ask(JobOutlook(known=True, ended=KNOWN, busy=5000.0, deviation=10_000.0, time_left=1e6))
    assert varying.seconds > 1.1 * steady.seconds


def test_a_project_that_is_owed_half_a_day_gets_jobs_that_may_be_late() -> None:
    full = [BookedJob(25_000.0, 10_000.0)] * 4
    expected = JobOutlook(known=True, ended=KNOWN, busy=10_000.0, time_left=25_000.0)
    assert ask(expected, full, owed=2 * OWED - 1.0, of_others=True).project is None
    assert ask(expected, full, owed=2 * OWED + 500.0, of_others=True).seconds == pytest.approx(500.0)
    assert ask(expected, full, owed=2 * OWED + 500.0).project is None  # it has what it can do in time


def test_who_has_had_more_than_the_share_is_asked_only_if_a_processor_would_soon_be_idle() -> None:
    expected = JobOutlook(known=True, ended=KNOWN, busy=100.0, time_left=1e6)
    enough = PREFS.buffer_min + 60.0
    assert ask(expected, owed=-2 * PREFS.slice_seconds, work_for=enough).project is None
    assert ask(expected, owed=-2 * PREFS.slice_seconds, work_for=enough, until_next_contact=DAY).project == 0
    contact = 0.8 * enough  # jobs may be shorter than they seem, so this is not enough until then
    assert (
        ask(expected, owed=-2 * PREFS.slice_seconds, work_for=enough, until_next_contact=contact).project == 0
    )
    assert ask(expected, owed=-2 * PREFS.slice_seconds, work_for=PREFS.buffer_min - 60.0).project == 0
    assert ask(expected, owed=-0.5 * PREFS.slice_seconds, work_for=enough).project == 0


def ask_two(*, owed: float, work_for: float) -> FetchPlan:
    """One is owed work and has two jobs, more of which would be late; the other has had a day too much."""
    queues = [ProjectQueue(1.0, [work_for] * 2, [1e9] * 2), ProjectQueue(1.0, [], [])]
    outcome = simulate_round_robin(
        queues, now=0.0, ncpus=2, cpu_fraction=1.0, buffer_seconds=PREFS.buffer_total, total_share=2.0
    )
    projects = [FetchProject(1.0, True, owed, 1.0, 2), FetchProject(1.0, True, -DAY, 1.0, 0)]
    tight = JobOutlook(known=True, ended=KNOWN, busy=100.0, time_left=2 * work_for)
    return fetch_in_time(
        projects,
        outcome,
        [tight, replace(tight, time_left=1e6)],
        [BookedJob(2 * work_for, work_for)] * 2,
        ALWAYS,
        prefs=PREFS,
        held=[2 * work_for, 0.0],
        remaining=[work_for] * 2,
        idle_cpus=0,
        explain=True,
    )


def test_while_somebody_is_owed_half_a_day_and_has_work_others_wait_longer() -> None:
    some = PREFS.slice_seconds + 60.0
    assert some < PREFS.buffer_min
    assert ask_two(owed=DAY, work_for=some).project is None
    assert ask_two(owed=DAY, work_for=PREFS.slice_seconds - 60.0).project == 1
    assert ask_two(owed=0.9 * OWED, work_for=some).project == 1


def test_those_who_were_passed_over_are_told_the_true_reason() -> None:
    reasons = ask_two(owed=DAY, work_for=PREFS.buffer_min + 60.0).reasons
    codes = {each.values.get("project"): each.code for each in reasons}
    assert codes == {0: "fetch.runnable", 1: "fetch.overworked"}


def test_what_is_asked_for_until_the_next_contact_fills_every_processor() -> None:
    outlook = JobOutlook(known=True, ended=KNOWN, busy=100.0, time_left=50.0)  # none will be in time
    one_long = [BookedJob(1e6, DAY)]
    assert ask(outlook, one_long, until_next_contact=DAY / 4).seconds == pytest.approx(DAY / 4)
    assert ask(outlook, [BookedJob(1e6, DAY / 4)] * 2, until_next_contact=DAY / 4, idle=0).project is None


def test_jobs_that_will_be_late_count_as_work_so_that_no_more_come_without_end() -> None:
    scenario = replace(random_scenario(20261124, 125), duration=3 * DAY)
    found = simulate(scenario, PolicyChoice.parse("CS3_WF3_WS1_JC2"), seed=1)
    assert 0 < sum(project.sent for project in found.books.projects) < 300


def test_a_project_without_hope_is_asked_for_its_share() -> None:
    plan = ask(JobOutlook(known=True, ended=KNOWN, busy=10_000.0, time_left=100.0, hopeless=True))
    assert plan.seconds == pytest.approx(2 * PREFS.buffer_total)
