"""Rules that an app asks for: limits of its own, commitments, files and sizes that suit, retries, checks of trusted hosts."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from tests.helpers.dispatch_world import (
    HOUR,
    NOW,
    app,
    candidate,
    candidates,
    catalogue,
    choose,
    codes,
    description,
    host,
    record,
    records,
    request,
    version,
)

from cobblestone.domain.apps import ANY_PLATFORM, AppDispatch, ComparisonRule, PlanClass
from cobblestone.domain.hosts import HostDescription
from cobblestone.domain.statistics import RunningAverage
from cobblestone.domain.values import AppId, HostId
from cobblestone.domain.work import HomogeneousRedundancy, InputFile, JobLimits, ReplicationRules
from cobblestone.policy.dispatch.catalogue import (
    Catalogue,
    DispatchDecision,
    SpeedPopulation,
    batch_weight,
    turns,
)
from cobblestone.policy.dispatch.deadline_check import BookedJob
from cobblestone.policy.dispatch.limits import DispatchLimits, RetryRules, quota_day
from cobblestone.policy.dispatch.match import hr_class
from cobblestone.policy.dispatch.versions import RETRY_SECONDS, missing_runtime_after_report

TODAY = quota_day(HostId(1), NOW)
LONG = 99 * HOUR


def offer(dispatch: AppDispatch, **changes: object) -> Catalogue:
    return catalogue(version(), apps=[app(1, dispatch=dispatch, **changes)])


def sent(decision: DispatchDecision) -> list[int]:
    return [each.candidate.result_id for each in decision.assignments]


# Limits


def test_an_app_may_limit_its_jobs_in_one_reply():
    decision = choose(request(seconds=LONG), candidates(9), offer(AppDispatch(max_jobs_per_rpc=2)))
    assert len(decision.assignments) == 2
    assert codes(decision) == ["limit_per_request_of_app"]


def test_a_new_host_holds_no_more_than_it_may_waste_and_a_proven_one_more():
    limits = DispatchLimits(daily_quota=500, daily_quota_init=2)
    decision = choose(request(seconds=LONG), candidates(30), limits=limits)
    assert len(decision.assignments) == 8  # 4 CPUs
    assert codes(decision) == ["held_limit_of_new_host"]
    again = request(seconds=LONG, in_progress={AppId(1): 8}, records=records(decision.records[0]))
    assert codes(choose(again, candidates(30), limits=limits)) == ["held_limit_of_new_host"]
    proven = records(replace(decision.records[0], max_jobs_per_day=4))
    assert choose(replace(again, records=proven), candidates(30), limits=limits).assignments


def test_a_new_host_holds_few_jobs_and_more_with_each_success():
    limits = DispatchLimits(daily_quota=500, daily_quota_init=20, first_jobs=1)
    for earned, most in ((0, 4), (20, 4), (40, 16), (80, 64)):  # 4 CPUs
        known = records(record(1, max_jobs_per_day=earned))
        decision = choose(
            request(seconds=1e12, disk_bytes=1e15, records=known),
            candidates(99),
            limits=replace(limits, max_jobs_per_rpc=0),
        )
        assert len(decision.assignments) == most
    known = records(record(1, max_jobs_per_day=40, consecutive_valid=1))
    decision = choose(
        request(seconds=1e12, disk_bytes=1e15, records=known),
        candidates(99),
        limits=replace(limits, max_jobs_per_rpc=0),
    )
    assert len(decision.assignments) == 99
    own = offer(AppDispatch(max_jobs_per_day_init=2))
    assert len(choose(request(seconds=1e12), candidates(99), own, limits=limits).assignments) == 8


def test_an_app_may_begin_with_fewer_or_more_jobs_of_new_hosts():
    decision = choose(request(seconds=LONG), candidates(30), offer(AppDispatch(max_jobs_per_day_init=1)))
    assert len(decision.assignments) == 4
    assert decision.records[0].max_jobs_per_day == 1


def test_a_pause_is_told_with_its_end():
    paused = records(record(1, max_jobs_per_day=500, bad_results=10, n_jobs_today=1, quota_day=TODAY))
    decision = choose(request(records=paused), candidates(3))
    assert codes(decision) == ["pause_after_failures"]
    assert 72 < float(str(decision.refusals[0].values["hours_left"])) <= 96


# Versions


def test_versions_below_the_apps_minimum_are_not_used():
    assert codes(choose(request(), candidates(1), offer(AppDispatch(min_version=101)))) == [
        "app_not_for_this_platform"
    ]
    assert choose(request(), candidates(1), offer(AppDispatch(min_version=100))).assignments


def test_the_first_host_decides_about_the_version_if_the_app_asks_for_it():
    assert (
        choose(request(), candidates(1), offer(AppDispatch(homogeneous_app_version=True)))
        .assignments[0]
        .commit_version
    )


# Apps of every platform


def test_a_host_without_python_gets_no_app_that_needs_it_until_something_changes():
    everywhere = catalogue(version(platform=ANY_PLATFORM))
    found = missing_runtime_after_report(host(), 195, now=NOW)
    assert found is not None
    troubled = host(missing_runtime=found[0], missing_since=found[1])
    decision = choose(request(host=troubled), candidates(1), everywhere)
    assert codes(decision) == ["no_python"]
    assert "Install Python" in decision.refusals[0].text()
    assert choose(request(host=troubled), candidates(1)).assignments  # a native version
    updated = replace(troubled, description=description(os_version="13"))
    assert choose(request(host=updated), candidates(1), everywhere).assignments
    assert choose(request(host=troubled), candidates(1), everywhere, now=NOW + RETRY_SECONDS).assignments


@pytest.mark.parametrize("status", [0, 1, 194, 196, None])
def test_other_exit_statuses_are_no_trouble_of_the_platform(status: int | None):
    assert missing_runtime_after_report(host(), status, now=NOW) is None


# Classes of hosts


@pytest.mark.parametrize(
    ("system", "vendor", "model", "coarse"),
    [
        ("Linux Debian", "GenuineIntel", "Intel(R) Core(TM) i7-8550U", 258),
        ("Linux Ubuntu", "AuthenticAMD", "AMD Ryzen 9 5950X", 258),
        ("Microsoft Windows 11", "GenuineIntel", "Intel(R) Xeon(R) E5-2680", 386),
        ("Darwin", "Apple", "Apple M2 Pro", 534),
        ("Darwin", "GenuineIntel", "Intel(R) Core(TM) i5-4278U", 514),
        ("Android", "ARM", "Qualcomm Technologies SM8150", 790),
        ("FreeBSD", "AuthenticAMD", "AMD EPYC 7302", 642),
        ("Plan 9", "GenuineIntel", "Intel", 0),
        ("Linux Debian", "", "", 0),
    ],
)
def test_coarse_classes_are_the_familys_and_know_todays_machines(
    system: str, vendor: str, model: str, coarse: int
):
    machine = HostDescription(os_name=system, p_vendor=vendor, p_model=model)
    assert hr_class(machine, HomogeneousRedundancy.COARSE) == coarse
    fine = hr_class(machine, HomogeneousRedundancy.FINE)
    assert (fine == 0) == (coarse == 0)
    assert fine // 128 == coarse // 128
    assert hr_class(machine, HomogeneousRedundancy.NONE) == 0


def test_fine_classes_keep_families_of_processors_apart():
    models = [
        "AMD Ryzen 9",
        "AMD EPYC 7302",
        "Intel(R) Core(TM) i7",
        "Intel(R) Core(TM)2 Quad",
        "Intel(R) Atom",
    ]
    found = {
        hr_class(HostDescription(os_name="Linux", p_model=model), HomogeneousRedundancy.FINE)
        for model in models
    }
    assert len(found) == len(models)


# What suits a host


def with_file(number: int, name: str, *, sticky: bool = True, **changes: Any):
    file = InputFile(name=name, open_name="in", nbytes=1, md5="", sticky=sticky)
    return candidate(number, input_files=(file,), **changes)


def test_a_host_gets_first_the_jobs_whose_file_it_has():
    offered = [with_file(1, "a"), with_file(2, "b"), with_file(3, "c"), with_file(4, "b")]
    asked = request(seconds=1, sticky_files=frozenset({"b"}))
    assert sent(choose(asked, offered, offer(AppDispatch(locality=True)))) == [2]
    assert sent(choose(asked, offered)) == [1]
    passing = [with_file(1, "a"), with_file(2, "b", sticky=False)]
    assert sent(choose(asked, passing, offer(AppDispatch(locality=True)))) == [1]


def test_priority_counts_against_a_file_that_is_there():
    offered = [with_file(1, "a", priority=11), with_file(2, "b")]
    asked = request(seconds=1, sticky_files=frozenset({"b"}))
    assert sent(choose(asked, offered, offer(AppDispatch(locality=True)))) == [1]


@pytest.mark.parametrize(("p_fpops", "expected"), [(5e8, 1), (4e9, 2), (4e10, 3)])
def test_each_host_gets_first_the_jobs_of_its_size(p_fpops: float, expected: int):
    offered = [candidate(n, size_class=n - 1) for n in (1, 2, 3)]
    sizes = offer(AppDispatch(size_classes=(1e9, 1e10)))
    own = host(description=description(p_fpops=p_fpops))
    assert sent(choose(request(host=own), offered, sizes)) == [expected]


def test_a_job_of_no_ones_size_is_sent_all_the_same():
    offered = [candidate(1, size_class=0)]
    assert sent(choose(request(), offered, offer(AppDispatch(size_classes=(1e11,))))) == [1]
    assert sent(choose(request(), offered, offer(AppDispatch(size_classes=(1e3,))))) == [1]


def test_a_slow_connection_excludes_jobs_that_need_a_fast_one():
    limits = JobLimits(rsc_bandwidth_bound=1e6)
    slow = request(host=host(description=description(n_bwdown=1e5)))
    decision = choose(slow, [candidate(1, limits=limits)])
    assert codes(decision) == ["bandwidth"]
    assert "1000" in decision.refusals[0].text()
    assert choose(request(), [candidate(1, limits=limits)]).assignments  # not measured yet
    assert choose(slow, [candidate(2)]).assignments


# Deadlines


def test_a_job_that_would_make_others_late_is_refused():
    limits = JobLimits(rsc_fpops_est=4e9 * HOUR, delay_bound=30 * HOUR)
    full = tuple(BookedJob(10 * HOUR, 10 * HOUR) for _ in range(4))
    tight = request(delay=HOUR, workload=full)
    sooner = replace(limits, delay_bound=5 * HOUR)
    decision = choose(tight, [candidate(1, limits=sooner)])
    assert codes(decision) == ["deadline_of_other_tasks"]
    assert choose(tight, [candidate(1, limits=limits)]).assignments
    off = DispatchLimits(workload_sim=False)
    assert choose(tight, [candidate(1, limits=sooner)], limits=off).assignments


def test_each_job_that_is_given_counts_for_the_next():
    limits = JobLimits(rsc_fpops_est=4e9 * HOUR, delay_bound=2.5 * HOUR)
    asked = request(seconds=LONG, delay=1, workload=(BookedJob(50 * HOUR, 1.0),))
    decision = choose(asked, candidates(30, limits=limits))
    assert len(decision.assignments) == 8  # two on each of four CPUs
    assert codes(decision) == ["deadline_of_other_tasks"]


# Apps that always run


ALWAYS = AppDispatch(non_cpu_intensive=True)


def test_a_host_has_one_job_of_an_app_that_always_runs_though_it_asks_for_nothing():
    idle = request(seconds=0)
    decision = choose(idle, candidates(3), offer(ALWAYS))
    assert sent(decision) == [1]
    assert decision.assignments[0].usage.avg_ncpus <= 0.01
    assert not choose(replace(idle, in_progress={AppId(1): 1}), candidates(3), offer(ALWAYS)).assignments


def test_an_app_that_always_runs_takes_nothing_from_what_was_asked_for():
    both = catalogue(version(), version(2, 2), apps=[app(1, dispatch=ALWAYS), app(2)])
    offered = [candidate(1), candidate(2, app_number=2), candidate(3, app_number=2), candidate(4)]
    assert sent(choose(request(seconds=1), offered, both)) == [1, 2]


# Retries


def test_a_retry_waits_for_reliable_hosts_only_for_some_time():
    limits = DispatchLimits(retries=RetryRules(reliable_seconds=HOUR))
    fresh = candidate(1, retry=True, create_time=NOW - 60)
    assert codes(choose(request(), [fresh], limits=limits)) == ["retry_for_reliable_hosts"]
    assert choose(request(), [replace(fresh, create_time=NOW - HOUR)], limits=limits).assignments
    assert choose(request(), [candidate(1, create_time=NOW)], limits=limits).assignments
    good = records(record(1, max_jobs_per_day=500, consecutive_valid=10))
    assert choose(request(records=good), [fresh], limits=limits).assignments
    known = good[version().id]
    hours = replace(known.statistics, turnaround=RunningAverage(20, 5 * HOUR))
    slow = records(replace(known, statistics=hours))
    strict = replace(limits, retries=RetryRules(reliable_seconds=HOUR, max_turnaround=4 * HOUR))
    assert not choose(request(records=slow), [fresh], limits=strict).assignments


def test_a_reliable_host_gets_less_time_for_a_retry():
    limits = DispatchLimits(retries=RetryRules(delay_factor=0.5))
    good = records(record(1, max_jobs_per_day=500, consecutive_valid=10))
    job = JobLimits(rsc_fpops_est=4e9 * HOUR, delay_bound=20 * HOUR)
    (given,) = choose(
        request(records=good), [candidate(1, retry=True, limits=job)], limits=limits
    ).assignments
    assert given.report_deadline == NOW + 10 * HOUR
    (other,) = choose(request(), [candidate(1, retry=True, limits=job)], limits=limits).assignments
    assert other.report_deadline == NOW + 20 * HOUR


# Adaptive replication


ADAPTIVE = offer(AppDispatch(adaptive=True), rules=ReplicationRules(min_quorum=2, target_nresults=2))


def test_jobs_of_hosts_without_a_record_are_always_replicated():
    for seed in range(20):
        (given,) = choose(request(), [candidate(1, replicated=False)], ADAPTIVE, seed=seed).assignments
        assert given.quorum == 2


def test_jobs_of_trusted_hosts_are_replicated_as_often_as_stated():
    trusted = request(records=records(record(1, max_jobs_per_day=500, consecutive_valid=100)))
    drawn = [
        choose(trusted, [candidate(1, replicated=False)], ADAPTIVE, seed=seed).assignments[0].quorum
        for seed in range(1000)
    ]
    assert 70 < sum(quorum == 2 for quorum in drawn) < 135
    assert set(drawn) == {0, 2}


def test_a_job_that_is_replicated_already_is_left_as_it_is():
    assert choose(request(), [candidate(1, replicated=True)], ADAPTIVE).assignments[0].quorum == 0


# Hosts that failed lately


def answering(people: int, dispatch: AppDispatch | None = None, **changes: Any) -> Catalogue:
    """An app of quorum one in a project of so many people whose computers returned valid work."""
    alone = ReplicationRules(min_quorum=1, target_nresults=1)
    found = offer(dispatch or AppDispatch(), **{"rules": alone, **changes})
    return replace(found, population=SpeedPopulation(people=people))


def quorum(catalogue: Catalogue, *, replicated: bool = False, **of_record: Any) -> int:
    asking = request(records=records(record(1, max_jobs_per_day=500, **of_record)))
    return choose(asking, [candidate(1, replicated=replicated)], catalogue).assignments[0].quorum


def test_a_host_that_failed_lately_is_checked_under_a_quorum_of_one_too():
    assert quorum(answering(2), error_rate=0.145) == 2
    assert quorum(answering(2), error_rate=0.1) == 0  # a newcomer
    assert (
        quorum(answering(2), error_rate=0.145, consecutive_valid=10) == 0
    )  # it has shown that it works again
    assert quorum(answering(2), error_rate=0.145, replicated=True) == 0  # as it is


def test_no_one_is_waited_for_who_could_not_check_it():
    assert quorum(answering(1), error_rate=0.9) == 0  # the only person
    assert quorum(answering(9, comparison=ComparisonRule(kind="trivial")), error_rate=0.9) == 0
    assert quorum(answering(9, AppDispatch(non_cpu_intensive=True)), error_rate=0.9) == 0


def test_spot_checks_do_not_spare_a_host_that_failed_lately():
    of_app = {"rules": ReplicationRules(min_quorum=3, target_nresults=3)}
    drawn = [quorum(answering(9, AppDispatch(adaptive=True), **of_app), error_rate=0.5, consecutive_valid=9)]
    assert drawn == [3]


# Speeds that are believed


def test_records_of_computers_that_lie_do_not_move_what_is_believed():
    honest = [4e9 * 1.01**n for n in range(60)]
    believed = SpeedPopulation.of(honest).percentile_95
    assert believed < SpeedPopulation.of([*honest, 1e12, 1e12, 1e12]).percentile_95 < 1.04 * believed
    half = SpeedPopulation.of([*honest, *[1e12] * 50])
    assert half.percentile_95 <= 3 * max(
        honest
    )  # half of all people do not lift it beyond what the median bears


@pytest.mark.parametrize("speeds", [[], [1e12], [1e12] * 19, [0.0] * 50])
def test_a_young_project_believes_what_processors_reach(speeds: list[float]):
    young = SpeedPopulation.of(speeds)
    assert (young.median, young.percentile_95, young.people) == (3.3e9, 1e10, len(speeds))


def test_a_fast_computer_among_slow_ones_is_believed():
    assert SpeedPopulation.of([5e8] * 100).percentile_95 == 3.3e9


@pytest.mark.parametrize("plan_class", ["", "one"])
def test_a_benchmark_is_believed_within_bounds_with_and_without_a_plan_class(plan_class: str):
    known = SpeedPopulation.of([4e9] * 100)
    offered = replace(
        catalogue(version(plan_class=plan_class)),
        population=known,
        plan_classes={"one": PlanClass(name="one")},
    )
    liar = host(description=description(p_fpops=1e12))
    (given,) = choose(request(host=liar), candidates(1), offered).assignments
    assert given.usage.peak_flops == pytest.approx(1.1 * 4e9)


# Fairness


def test_two_batches_are_served_in_proportion_to_their_weights():
    one = [(turn, "one") for turn in turns([1e12] * 300, weight=2.0, served=0.0, last=0.0)]
    other = [(turn, "other") for turn in turns([1e12] * 300, weight=1.0, served=0.0, last=0.0)]
    first = [name for _, name in sorted(one + other)[:150]]
    assert 95 <= first.count("one") <= 105


def test_a_large_job_counts_as_much_as_many_small_ones():
    large = [(turn, "large") for turn in turns([1e13] * 100, weight=1.0, served=0.0, last=0.0)]
    small = [(turn, "small") for turn in turns([1e12] * 1000, weight=1.0, served=0.0, last=0.0)]
    first = [name for _, name in sorted(large + small)[:110]]
    assert 98 <= first.count("small") <= 101


def test_a_newcomer_neither_waits_for_the_backlog_nor_goes_before_all_of_it():
    backlog = turns([1e12] * 1000, weight=1.0, served=0.0, last=0.0)
    newcomer = turns([1e12] * 10, weight=1.0, served=backlog[500], last=0.0)
    order = sorted([(turn, 0) for turn in backlog[500:]] + [(turn, 1) for turn in newcomer])
    assert [who for _, who in order[:21]].count(1) == 10


def test_many_batches_bring_little_more_than_one():
    weights = [batch_weight(1.0, running) for running in range(100)]
    assert sum(weights) < 5.2  # 1 + ln 100 = 5.6


def test_turns_stay_finite_and_ascending_whatever_a_job_claims():
    rng = random.Random(1)
    amounts = [rng.choice([0.0, -5.0, 1e12, 1e300]) for _ in range(100)]
    found = turns(amounts, weight=batch_weight(0.0, 3), served=0.0, last=7.0)
    assert found == sorted(found)
    assert 7.0 <= found[0] <= found[-1] < 1e15
