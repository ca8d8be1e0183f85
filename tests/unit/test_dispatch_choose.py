"""The dispatch rule: who gets which results, and what is said when there are none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from heapq import heapreplace
from typing import Any

import pytest
from tests.helpers.dispatch_world import (
    DESCRIPTION,
    HOUR,
    LINUX,
    NOW,
    NVIDIA,
    WINDOWS,
    CountedVersions,
    app,
    candidate,
    candidates,
    catalogue,
    choose,
    codes,
    counted,
    description,
    host,
    record,
    records,
    request,
    unsigned,
    version,
)

from cobblestone.domain.apps import ANY_PLATFORM, AppDispatch, PlanClass
from cobblestone.domain.hosts import CPU
from cobblestone.domain.values import AppId, AppVersionId, HostId, TeamId, UserId, WorkunitId
from cobblestone.domain.work import HomogeneousRedundancy, JobLimits
from cobblestone.policy.dispatch import deadline_check
from cobblestone.policy.dispatch.catalogue import Candidate, DispatchDecision
from cobblestone.policy.dispatch.choose import LONGEST_WALK
from cobblestone.policy.dispatch.deadline_check import BookedJob
from cobblestone.policy.dispatch.limits import DispatchLimits, InProgressLimits, JobCap, quota_day
from cobblestone.policy.dispatch.request import ProjectPreferences, ResourceRequest

TODAY = quota_day(HostId(1), NOW)
CUDA = PlanClass(name="cuda", gpu_type="NVIDIA")


def sent(decision: DispatchDecision) -> list[int]:
    return [each.candidate.result_id for each in decision.assignments]


# Filling the request


def test_one_second_of_work_is_filled_by_the_first_candidate():
    decision = choose(request(seconds=1), candidates(5))
    assert sent(decision) == [1]
    assert decision.refusals == ()


def test_candidates_are_served_in_the_order_in_which_they_come():
    offered = [candidate(n) for n in (7, 3, 9)]
    assert sent(choose(request(seconds=3 * HOUR), offered)) == [7, 3, 9]


def test_seconds_are_filled_with_the_estimated_time_of_the_jobs():
    assert len(choose(request(seconds=3.5 * HOUR), candidates(20)).assignments) == 4


def test_idle_instances_are_filled_when_no_seconds_are_asked_for():
    assert len(choose(request(seconds=0, instances=3), candidates(20)).assignments) == 3


def test_an_unavailable_host_fills_its_seconds_with_fewer_jobs():
    half = host(description=description(active_frac=0.5))
    decision = choose(request(seconds=4 * HOUR, host=half), candidates(20))
    assert len(decision.assignments) == 2
    assert decision.assignments[0].estimated_seconds == pytest.approx(2 * HOUR)


def test_the_deadline_is_the_delay_bound_from_now():
    offered = [candidate(1, limits=JobLimits(delay_bound=1000.0))]
    assert choose(request(), offered).assignments[0].report_deadline == NOW + 1000.0


def test_candidates_are_read_no_further_than_needed():
    read: list[int] = []
    assert sent(choose(request(seconds=1), endless(read))) == [1]
    assert read == [1]


def endless(read: list[int], **changes: Any) -> Iterator[Candidate]:
    while True:
        read.append(len(read) + 1)
        yield candidate(len(read), **changes)


def test_the_walk_ends_where_no_app_has_anything_for_the_request():
    read: list[int] = []
    asked = request(seconds=0, gpu_seconds=HOUR)
    assert codes(choose(asked, endless(read))) == ["processor_type_not_requested"]
    assert len(read) <= 2
    read.clear()
    limits = DispatchLimits(daily_quota_init=1)
    decision = choose(request(seconds=100 * HOUR), endless(read), limits=limits)
    assert len(sent(decision)) == 4
    assert codes(decision) == ["held_limit_of_new_host"]
    assert len(read) <= 10


def test_who_has_a_job_goes_past_a_bounded_number_of_unsuitable_ones():
    read: list[int] = []
    two = catalogue(version(), version(2, 2), apps=[app(1, dispatch=AppDispatch(max_jobs_per_rpc=1))])
    decision = choose(request(seconds=100 * HOUR), endless(read), two)
    assert sent(decision) == [1]
    assert LONGEST_WALK <= len(read) <= LONGEST_WALK + 10


def test_who_has_none_goes_on_to_the_first_of_another_app():
    offered = [*candidates(3 * LONGEST_WALK), candidate(9999, app_number=2)]
    two = catalogue(version(plan_class="cuda"), version(2, 2), plan_classes=[CUDA])
    assert sent(choose(request(), offered, two)) == [9999]


def test_jobs_with_a_version_of_their_own_are_found_behind_those_of_a_closed_one():
    rules = AppDispatch(homogeneous_app_version=True)
    both = catalogue(version(deprecated=True), apps=[app(1, dispatch=rules)])
    offered = [*candidates(700), candidate(701, app_version_id=AppVersionId(1))]
    assert sent(choose(request(), offered, both)) == [701]


def test_a_request_for_nothing_gets_nothing_and_says_so():
    assert codes(choose(request(seconds=0), candidates(3))) == ["no_work_requested"]


def test_an_empty_queue_says_that_there_are_no_tasks():
    assert codes(choose(request(), [])) == ["no_tasks"]


# One result of a workunit per user and host


def test_two_results_of_a_workunit_are_not_sent_in_one_reply():
    offered = [candidate(1, workunit=1), candidate(2, workunit=1), candidate(3, workunit=2)]
    assert sent(choose(request(seconds=5 * HOUR), offered)) == [1, 3]


def test_both_results_may_be_sent_when_both_rules_are_off():
    offered = [candidate(1, workunit=1), candidate(2, workunit=1)]
    free = DispatchLimits(one_result_per_user_per_wu=False, one_result_per_host_per_wu=False)
    assert sent(choose(request(seconds=5 * HOUR), offered, limits=free)) == [1, 2]


def test_workunits_that_the_user_has_are_left_out():
    held = {WorkunitId(1), WorkunitId(2)}
    assert sent(choose(request(seconds=1), candidates(5), already_at_user=held)) == [3]


def test_the_look_up_is_asked_for_few_workunits_at_a_time_and_for_more_when_these_are_held():
    asked: list[list[int]] = []

    def look_up(ids: Sequence[WorkunitId]) -> frozenset[WorkunitId]:
        asked.append(list(ids))
        return frozenset(each for each in ids if each <= 10)

    assert sent(choose(request(seconds=1), candidates(100), already_at_user=look_up)) == [11]
    assert asked == [[1], [2, 3, 4, 5], list(range(6, 22))]


def test_the_host_rule_alone_lets_another_host_of_the_user_have_the_second_result():
    per_host = DispatchLimits(one_result_per_user_per_wu=False)
    held: dict[str, Any] = {"already_at_user": {WorkunitId(1)}, "already_at_host": {WorkunitId(2)}}
    assert sent(choose(request(seconds=9 * HOUR), candidates(3), limits=per_host, **held)) == [1, 3]


def test_all_tasks_held_already_is_explained():
    decision = choose(request(), candidates(3), already_at_user={WorkunitId(n) for n in (1, 2, 3)})
    assert codes(decision) == ["already_at_user"]
    assert "the 3 that wait" in decision.refusals[0].text()


# Host as a whole


def test_a_blocked_host_gets_nothing_and_is_told_why():
    decision = choose(request(host=host(blocked_reason="it returns noise")), candidates(3))
    assert codes(decision) == ["host_blocked"]
    assert "it returns noise" in decision.refusals[0].text()
    assert decision.request_delay == 86400


def test_the_anonymous_platform_is_refused_politely():
    decision = choose(request(platforms=("anonymous", LINUX)), candidates(3))
    assert codes(decision) == ["anonymous_platform"]
    assert decision.request_delay == 14400


def test_an_unknown_platform_is_told_what_the_project_offers():
    decision = choose(request(platforms=("sparc-sun-solaris",)), candidates(3))
    assert codes(decision) == ["platform_not_supported"]
    assert LINUX in decision.refusals[0].text()
    assert decision.request_delay == 86400


def test_a_project_without_versions_does_not_send_hosts_away_for_a_day():
    decision = choose(request(), [], catalogue(apps=[app(1)]))
    assert codes(decision) == ["no_apps"]
    assert decision.request_delay == 0


def test_a_request_too_soon_is_refused_for_the_interval_only():
    limits = DispatchLimits(min_sendwork_interval=60)
    early = choose(request(previous_request_time=NOW - 10), candidates(3), limits=limits)
    assert codes(early) == ["request_too_recent"]
    assert early.request_delay == 61
    later = choose(request(previous_request_time=NOW - 60), candidates(3), limits=limits)
    assert len(later.assignments) == 1
    assert later.request_delay == 61


def test_a_clock_that_went_back_does_not_lock_a_host_out():
    limits = DispatchLimits(min_sendwork_interval=60)
    assert choose(request(previous_request_time=NOW + 1e6), candidates(3), limits=limits).assignments


# Versions


def test_any_platform_is_served_as_the_primary_platform_of_the_host():
    offer = catalogue(version(platform=ANY_PLATFORM))
    decision = choose(request(platforms=("arm64-apple-darwin", "x86_64-apple-darwin")), candidates(1), offer)
    assert decision.assignments[0].platform == "arm64-apple-darwin"


def test_windows_gets_no_commands_since_it_starts_no_scripts():
    offer = catalogue(version(platform=ANY_PLATFORM))
    decision = choose(request(platforms=(WINDOWS, "windows_intelx86")), candidates(1), offer)
    assert not decision.assignments
    text = decision.refusals[0].text()
    assert "computers of type windows_x86_64; it has some for aarch64-unknown-linux-gnu" in text


def test_an_alternative_platform_is_served_under_its_own_name():
    offer = catalogue(version(platform="i686-pc-linux-gnu"))
    decision = choose(request(platforms=(LINUX, "i686-pc-linux-gnu")), candidates(1), offer)
    assert decision.assignments[0].platform == "i686-pc-linux-gnu"


def test_the_newest_version_of_a_plan_class_is_sent():
    offer = catalogue(version(1, version_num=100), version(2, version_num=120), version(3, version_num=110))
    assert choose(request(), candidates(1), offer).assignments[0].version.id == 2


def test_deprecated_and_unsigned_versions_are_never_sent():
    offer = catalogue(
        version(1, version_num=100),
        version(2, version_num=120, deprecated=True),
        unsigned(version(3, version_num=130)),
    )
    assert choose(request(), candidates(1), offer).assignments[0].version.id == 1


def test_a_version_without_signature_alone_is_explained():
    assert codes(choose(request(), candidates(1), catalogue(unsigned(version())))) == ["version_not_signed"]


def test_a_deprecated_app_sends_nothing():
    offer = catalogue(version(), version(2, 2), apps=[app(1, deprecated=True)])
    assert codes(choose(request(), candidates(3), offer)) == ["no_tasks"]


@pytest.mark.parametrize(
    ("bounds", "code"),
    [({"min_client_version": 80000}, "client_too_old"), ({"max_client_version": 70000}, "client_too_new")],
)
def test_client_versions_outside_the_bounds_are_refused(bounds: dict[str, int], code: str):
    assert codes(choose(request(), candidates(1), catalogue(version(**bounds)))) == [code]


def test_client_versions_are_told_as_people_write_them():
    text = choose(request(), candidates(1), catalogue(version(min_client_version=80206))).refusals[0].text()
    assert "8.2.6" in text
    assert "7.20.5" in text


def test_a_job_committed_to_a_version_gets_that_one_even_when_it_is_superseded():
    offer = catalogue(version(1, version_num=100, deprecated=True), version(2, version_num=120))
    decision = choose(request(), [candidate(1, app_version_id=AppVersionId(1))], offer)
    assert decision.assignments[0].version.id == 1


def test_a_committed_job_is_not_skipped_because_other_jobs_of_its_app_have_no_version():
    offer = catalogue(version(1, version_num=100, deprecated=True))
    offered = [candidate(1), candidate(2, app_version_id=AppVersionId(1))]
    assert sent(choose(request(), offered, offer)) == [2]


def test_a_job_committed_to_a_version_of_another_platform_is_refused():
    offer = catalogue(version(1, platform=WINDOWS), version(2))
    decision = choose(request(), [candidate(1, app_version_id=AppVersionId(1))], offer)
    assert codes(decision) == ["committed_to_other_version"]


def test_a_job_with_more_memory_than_32_bits_can_address_needs_a_64_bit_version():
    offer = catalogue(version(1, platform="i686-pc-linux-gnu"))
    big = candidate(1, limits=JobLimits(rsc_memory_bound=5e9))
    asked = request(platforms=(LINUX, "i686-pc-linux-gnu"))
    assert codes(choose(asked, [big], offer)) == ["needs_64_bit"]
    assert choose(asked, [candidate(2)], offer).assignments


def test_the_faster_version_is_chosen_when_chance_is_off():
    offer = catalogue(
        version(1), version(2, plan_class="mt"), plan_classes=[PlanClass(name="mt", max_threads=4)]
    )
    decision = choose(request(), candidates(1), offer, limits=DispatchLimits(version_random_factor=0))
    assert decision.assignments[0].version.id == 2


def test_a_version_that_only_failed_here_is_hardly_ever_chosen():
    classes = [PlanClass(name="mt", max_threads=4)]
    offer = catalogue(version(1), version(2, plan_class="mt"), plan_classes=classes)
    failed = records(record(2, max_jobs_per_day=1, quota_day=TODAY - 1))
    limits = DispatchLimits(version_random_factor=0)
    chosen = [
        choose(request(records=failed), candidates(1), offer, limits=limits, seed=seed)
        .assignments[0]
        .version.id
        for seed in range(1000)
    ]
    assert 0 < chosen.count(AppVersionId(2)) < 40


def test_an_undefined_plan_class_is_the_operators_matter():
    assert codes(choose(request(), candidates(1), catalogue(version(plan_class="x")))) == [
        "plan_class_unknown"
    ]


def test_a_client_that_knows_no_plan_classes_gets_sequential_versions_only():
    classes = [PlanClass(name="mt", max_threads=4)]
    asked = request(knows_plan_classes=False)
    both = catalogue(version(1), version(2, plan_class="mt"), plan_classes=classes)
    assert choose(asked, candidates(1), both).assignments[0].version.id == 1
    only = catalogue(version(2, plan_class="mt"), plan_classes=classes)
    assert codes(choose(asked, candidates(1), only)) == ["client_without_plan_classes"]


def test_the_speed_sent_to_the_client_is_measured_once_there_are_samples():
    known = records(record(1, et_n=50, et_avg=1 / 2e9))
    assert choose(request(records=known), candidates(1)).assignments[0].usage.flops == pytest.approx(2e9)


# Preferences


def test_beta_apps_and_versions_go_only_to_those_who_allow_them():
    offer = catalogue(version(), apps=[app(1, beta=True)])
    assert codes(choose(request(), candidates(1), offer)) == ["beta_app"]
    assert codes(choose(request(), candidates(1), catalogue(version(beta=True)))) == ["beta_version"]
    willing = request(preferences=ProjectPreferences(allow_beta=True))
    assert choose(willing, candidates(1), offer).assignments
    assert choose(willing, candidates(1), catalogue(version(beta=True))).assignments


def test_a_refused_keyword_excludes_an_app_and_a_wanted_one_comes_first():
    stars, cells = (
        app(1, dispatch=AppDispatch(keywords=(1, 3))),
        app(2, dispatch=AppDispatch(keywords=(9, 13))),
    )
    offer = catalogue(version(1, 1), version(2, 2), apps=[stars, cells])
    offered = [candidate(1, app_number=1), candidate(2, app_number=2)]
    asked = request(preferences=ProjectPreferences(keywords_yes=frozenset({13})))
    assert [each.candidate.app_id for each in choose(asked, offered, offer).assignments] == [2]
    assert [each.candidate.app_id for each in choose(request(), offered, offer).assignments] == [1]
    asked = request(
        seconds=1e6, preferences=ProjectPreferences(keywords_yes=frozenset({9}), keywords_no=frozenset({13}))
    )
    decision = choose(asked, offered, offer)
    assert [each.candidate.app_id for each in decision.assignments] == [1]
    assert "unwanted_keyword" in codes(decision)


def test_without_leave_a_beta_version_does_not_hide_the_released_one():
    offer = catalogue(version(1, version_num=100), version(2, version_num=200, beta=True))
    assert choose(request(), candidates(1), offer).assignments[0].version.id == 1


TWO_APPS = catalogue(version(1, 1), version(2, 2))
MIXED = [candidate(1, app_number=2), candidate(2, app_number=1), candidate(3, app_number=2)]
ONLY_ONE = frozenset({AppId(1)})


def test_only_selected_apps_are_sent():
    asked = request(seconds=9 * HOUR, preferences=ProjectPreferences(selected_apps=ONLY_ONE))
    decision = choose(asked, MIXED, TWO_APPS)
    assert sent(decision) == [2]
    assert codes(decision) == ["app_not_selected"]


def test_other_apps_come_last_when_they_are_allowed():
    preferences = ProjectPreferences(selected_apps=ONLY_ONE, allow_non_preferred=True)
    assert sent(choose(request(seconds=9 * HOUR, preferences=preferences), MIXED, TWO_APPS)) == [2, 1, 3]


def test_an_unselected_app_is_not_named_when_it_could_not_run_here_anyway():
    offer = catalogue(version(1, 1), version(2, 2, platform=WINDOWS))
    asked = request(preferences=ProjectPreferences(selected_apps=ONLY_ONE))
    assert codes(choose(asked, [candidate(1, app_number=2)], offer)) == ["app_not_for_this_platform"]


def test_no_cpu_in_the_preferences_excludes_cpu_versions():
    asked = request(preferences=ProjectPreferences(no_cpu=True))
    assert codes(choose(asked, candidates(1))) == ["preferences_exclude_processor_type"]


def test_the_volunteers_limit_on_jobs_counts_those_in_progress():
    asked = request(seconds=99 * HOUR, in_progress={AppId(7): 2}, preferences=ProjectPreferences(max_jobs=5))
    decision = choose(asked, candidates(20))
    assert len(decision.assignments) == 3
    assert codes(decision) == ["held_limit_of_preferences"]


def test_the_volunteers_limit_on_cpus_counts_in_the_daily_quota():
    asked = request(seconds=1e6, instances=4, preferences=ProjectPreferences(max_cpus=1))
    assert len(choose(asked, candidates(20), limits=DispatchLimits(daily_quota=3)).assignments) == 3


# Limits


def test_jobs_per_request_are_limited_per_processor():
    decision = choose(request(seconds=99 * HOUR), candidates(50), limits=DispatchLimits(max_jobs_per_rpc=3))
    assert len(decision.assignments) == 12
    assert codes(decision) == ["limit_per_request"]


def test_zero_jobs_per_request_means_no_limit():
    asked = request(seconds=99 * HOUR, disk_bytes=1e12)
    decision = choose(asked, candidates(90), limits=DispatchLimits(max_jobs_per_rpc=0))
    assert len(decision.assignments) == 90


@pytest.mark.parametrize(
    ("project", "apps", "expected", "code"),
    [
        (InProgressLimits(total=5), {}, 3, "held_limit_of_project"),
        (InProgressLimits(cpu=JobCap(jobs=2, per_processor=True)), {}, 6, "held_limit_of_processor_type"),
        (InProgressLimits(cpu=JobCap(jobs=4)), {}, 2, "held_limit_of_processor_type"),
        (InProgressLimits(), {AppId(1): InProgressLimits(total=6)}, 5, "held_limit_of_app"),
        (
            InProgressLimits(),
            {AppId(1): InProgressLimits(cpu=JobCap(jobs=1, per_processor=True))},
            3,
            "held_limit_of_app_and_processor_type",
        ),
    ],
)
def test_caps_on_jobs_in_progress_hold_for_project_and_app(
    project: InProgressLimits, apps: dict[AppId, InProgressLimits], expected: int, code: str
):
    limits = DispatchLimits(project_in_progress=project, app_in_progress=apps)
    asked = request(seconds=99 * HOUR, in_progress={AppId(1): 1, AppId(2): 1})
    decision = choose(asked, candidates(20), limits=limits)
    assert len(decision.assignments) == expected
    assert codes(decision) == [code]


def test_a_full_app_leaves_room_for_others():
    limits = DispatchLimits(app_in_progress={AppId(2): InProgressLimits(total=1)})
    assert sent(choose(request(seconds=99 * HOUR), MIXED, TWO_APPS, limits=limits)) == [1, 2]


def test_the_limit_is_named_before_preferences_when_it_is_the_true_reason():
    limits = DispatchLimits(app_in_progress={AppId(1): InProgressLimits(total=1)})
    asked = request(preferences=ProjectPreferences(selected_apps=ONLY_ONE), in_progress={AppId(1): 1})
    assert codes(choose(asked, MIXED, TWO_APPS, limits=limits)) == ["held_limit_of_app", "app_not_selected"]


def test_the_daily_quota_counts_jobs_of_today_per_cpu():
    known = records(record(1, max_jobs_per_day=5, n_jobs_today=17, quota_day=TODAY))
    decision = choose(request(seconds=99 * HOUR, records=known), candidates(20))
    assert len(decision.assignments) == 3
    assert codes(decision) == ["daily_quota"]
    assert decision.records == (record(1, max_jobs_per_day=5, n_jobs_today=20, quota_day=TODAY),)


def test_a_host_whose_tasks_fail_gets_one_a_day_and_is_asked_to_look():
    known = records(record(1, max_jobs_per_day=500, bad_results=8, n_jobs_today=1, quota_day=TODAY))
    decision = choose(request(records=known), candidates(3))
    assert codes(decision) == ["daily_quota_after_failures"]


def test_a_new_day_brings_a_new_quota():
    known = records(record(1, max_jobs_per_day=1, n_jobs_today=1, quota_day=TODAY - 1))
    decision = choose(request(records=known), candidates(3))
    assert decision.records == (record(1, max_jobs_per_day=1, n_jobs_today=1, quota_day=TODAY),)


def test_an_exhausted_newest_version_does_not_fall_back_to_an_older_one():
    offer = catalogue(version(1, version_num=100), version(2, version_num=120))
    known = records(record(2, max_jobs_per_day=1, bad_results=8, n_jobs_today=1, quota_day=TODAY))
    assert not choose(request(records=known), candidates(3), offer).assignments


# Memory, disk, deadline


def test_memory_is_told_with_what_is_needed_and_what_there_is():
    big = [candidate(n, limits=JobLimits(rsc_memory_bound=n * 10e9)) for n in (2, 1, 3)]
    decision = choose(request(), big)
    assert codes(decision) == ["memory"]
    assert "10000 MB" in decision.refusals[0].text()
    assert "8000 MB" in decision.refusals[0].text()


def test_disk_is_used_up_by_the_jobs_of_a_reply():
    decision = choose(request(seconds=99 * HOUR, disk_bytes=2.5e9), candidates(9))
    assert len(decision.assignments) == 2
    assert codes(decision) == ["disk"]


def test_a_full_disk_makes_the_client_wait_an_hour():
    assert choose(request(disk_bytes=0), candidates(9)).request_delay == 3600


SLOW = [
    candidate(n, limits=JobLimits(rsc_fpops_est=4e9 * 100 * HOUR, delay_bound=50 * HOUR)) for n in range(1, 9)
]


def test_a_host_with_nothing_queued_gets_one_job_however_slow_it_is():
    decision = choose(request(seconds=1e6, usable_ncpus=1), SLOW)
    assert len(decision.assignments) == 1
    assert codes(decision) == ["deadline"]


def test_a_busy_host_gets_no_job_that_would_be_late():
    decision = choose(request(delay=1 * HOUR), SLOW)
    assert codes(decision) == ["deadline"]
    assert "101 h" in decision.refusals[0].text()


def test_the_deadline_check_can_be_switched_off():
    assert choose(request(delay=1 * HOUR), SLOW, limits=DispatchLimits(check_deadline=False)).assignments


def test_jobs_already_in_the_reply_delay_the_next_ones():
    limits = JobLimits(rsc_fpops_est=4e9 * HOUR, delay_bound=3 * HOUR)
    decision = choose(request(seconds=1e6, usable_ncpus=1), candidates(20, limits=limits))
    assert len(decision.assignments) == 3


def test_many_jobs_that_would_be_late_are_not_all_tried_in_a_long_queue(monkeypatch: pytest.MonkeyPatch):
    booked = 0

    def book(queue: list[float], end: float) -> float:
        nonlocal booked
        booked += 1
        return heapreplace(queue, end)

    monkeypatch.setattr(deadline_check, "heapreplace", book)
    day = 24 * HOUR
    held = tuple(
        BookedJob(7 * day - 10, 4 * 6.99 * day / 1000) for _ in range(1000)
    )  # full until the deadline
    late = JobLimits(rsc_fpops_est=4e9 * 2 * HOUR, delay_bound=7 * day)
    asked = request(delay=HOUR, workload=held)
    assert codes(choose(asked, candidates(300, limits=late))) == ["deadline_of_other_tasks"]
    assert booked <= 2 * len(held)


def test_absurd_amounts_are_told_without_hundreds_of_digits():
    endless = [candidate(1, limits=JobLimits(rsc_memory_bound=1e308))]
    assert len(choose(request(), endless).refusals[0].text()) < 300


# GPUs

GPU_HOST = host(description=replace(DESCRIPTION, coprocessors=(NVIDIA,)))
GPU_OFFER = catalogue(version(1), version(2, plan_class="cuda"), plan_classes=[CUDA])


def test_cpu_and_gpu_requests_are_filled_separately():
    asked = request(seconds=2 * HOUR, gpu_seconds=1, host=GPU_HOST)
    decision = choose(asked, candidates(20), GPU_OFFER)
    used = [each.usage.resource for each in decision.assignments]
    assert used.count("NVIDIA") == 1
    assert used.count(CPU) == 2
    assert decision.refusals == ()


def test_a_gpu_job_is_not_sent_when_no_gpu_work_is_asked_for():
    decision = choose(request(seconds=9 * HOUR, host=GPU_HOST), candidates(3), GPU_OFFER)
    assert {each.usage.resource for each in decision.assignments} == {CPU}


def test_what_is_missing_for_the_gpu_is_said_when_the_cpu_is_filled():
    decision = choose(request(seconds=1, gpu_seconds=1, host=GPU_HOST), candidates(3))
    assert len(decision.assignments) == 1
    assert codes(decision) == ["no_tasks_of_processor_type"]


def test_a_request_for_the_gpu_only_is_told_that_there_are_cpu_tasks():
    asked = request(resources={"NVIDIA": ResourceRequest(seconds=1)}, host=GPU_HOST)
    assert codes(choose(asked, candidates(3))) == ["processor_type_not_requested"]


def test_excluded_gpu_types_get_no_jobs():
    preferences = ProjectPreferences(no_gpu_types=frozenset({"NVIDIA"}))
    decision = choose(
        request(gpu_seconds=1, host=GPU_HOST, preferences=preferences),
        candidates(3),
        catalogue(version(2, plan_class="cuda"), plan_classes=[CUDA]),
    )
    assert codes(decision) == ["preferences_exclude_processor_type"]


def test_gpu_caps_count_gpu_jobs_only():
    limits = DispatchLimits(project_in_progress=InProgressLimits(gpu=JobCap(jobs=2, per_processor=True)))
    asked = request(
        resources={"NVIDIA": ResourceRequest(seconds=1e6)},
        host=GPU_HOST,
        in_progress={AppId(1): 9},
        in_progress_gpu={AppId(1): 1},
    )
    decision = choose(asked, candidates(9), GPU_OFFER, limits=limits)
    assert len(decision.assignments) == 1
    assert codes(decision)[0] == "held_limit_of_processor_type"


@pytest.mark.parametrize(("claimed", "expected"), [(10**400, 64), (-5, 1), (3, 3)])
def test_an_absurd_number_of_gpus_is_not_believed(claimed: int, expected: int):
    many = host(description=replace(DESCRIPTION, coprocessors=(replace(NVIDIA, count=claimed),)))
    asked = request(host=many, seconds=0, gpu_seconds=1e9, disk_bytes=1e15)
    limits = DispatchLimits(
        daily_quota=1000,
        max_jobs_per_rpc=0,
        project_in_progress=InProgressLimits(gpu=JobCap(jobs=1, per_processor=True)),
    )
    decision = choose(asked, candidates(200), GPU_OFFER, limits=limits)
    assert len(decision.assignments) == (expected if claimed > 0 else 0)


# Targeted jobs and homogeneous redundancy


@pytest.mark.parametrize(
    ("target", "fits"),
    [
        ({"target_host_id": HostId(1)}, True),
        ({"target_host_id": HostId(2)}, False),
        ({"target_user_id": UserId(1)}, True),
        ({"target_user_id": UserId(2)}, False),
        ({"target_team_id": TeamId(5)}, True),
        ({"target_team_id": TeamId(6)}, False),
    ],
)
def test_targeted_jobs_go_to_their_target_only(target: dict[str, Any], fits: bool):
    decision = choose(request(team_id=TeamId(5)), [candidate(1, **target)])
    assert bool(decision.assignments) == fits
    assert fits or codes(decision) == ["no_tasks"]


ALIKE = catalogue(
    version(), apps=[app(1, dispatch=AppDispatch(homogeneous_redundancy=HomogeneousRedundancy.COARSE))]
)


def test_a_job_committed_to_another_class_of_hosts_is_refused():
    assert codes(choose(request(), [candidate(1, hr_class=386)], ALIKE)) == ["homogeneous_redundancy_class"]
    assert choose(request(), [candidate(1, hr_class=258)], ALIKE).assignments


def test_a_job_that_is_free_commits_to_the_class_of_its_first_host():
    (given,) = choose(request(), [candidate(1)], ALIKE).assignments
    assert (given.hr_class, given.commit_version) == (258, False)
    assert choose(request(), [candidate(1)]).assignments[0].hr_class == 0


def test_a_computer_of_an_unknown_kind_gets_no_jobs_that_must_be_computed_alike():
    strange = request(host=host(description=description(os_name="Plan 9")))
    assert codes(choose(strange, [candidate(1)], ALIKE)) == ["homogeneous_redundancy_unknown"]


# Many apps


def test_each_of_many_apps_is_looked_at_once_however_many_jobs_others_have():
    others = [version(number, number, platform=WINDOWS) for number in range(1, 50)]
    offer = counted(catalogue(*others, version(50, 50)))  # only this one is for the host, and it has no jobs
    assert codes(choose(request(), candidates(2000), offer)) == ["app_not_for_this_platform"]
    assert CountedVersions.looks < 50 + 2000 / 200


def test_versions_of_a_host_of_an_unknown_platform_are_not_gone_through():
    offer = counted(catalogue(*(version(number, number) for number in range(1, 50))))
    assert codes(choose(request(platforms=("sparc-sun-solaris",)), candidates(1), offer)) == [
        "platform_not_supported"
    ]
    assert CountedVersions.looks == 0
