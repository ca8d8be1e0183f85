"""What holds for every request, however absurd: one result per workunit, limits, quota, reasons, finite times."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.dispatch_world import (
    DESCRIPTION,
    LINUX,
    NOW,
    WINDOWS,
    app,
    candidate,
    catalogue,
    record,
    records,
    unsigned,
    version,
)

from cobblestone.domain.apps import ANY_PLATFORM, AppVersion, PlanClass
from cobblestone.domain.computing import DispatchPreferences
from cobblestone.domain.hosts import (
    CPU,
    Coprocessor,
    Host,
    HostAppVersion,
    HostDescription,
    HostVersionStatistics,
)
from cobblestone.domain.people import KEYWORDS, with_wider
from cobblestone.domain.statistics import RunningAverage
from cobblestone.domain.values import AppId, HostId, UserId, WorkunitId
from cobblestone.domain.work import JobLimits
from cobblestone.policy.dispatch import limits as quota
from cobblestone.policy.dispatch.budget import usable_capacity
from cobblestone.policy.dispatch.catalogue import Candidate, Catalogue, DispatchDecision, availability
from cobblestone.policy.dispatch.choose import choose_work
from cobblestone.policy.dispatch.explain import messages
from cobblestone.policy.dispatch.held_jobs import LostResult, resend_lost
from cobblestone.policy.dispatch.limits import DispatchLimits, InProgressLimits, JobCap
from cobblestone.policy.dispatch.match import keyword_score
from cobblestone.policy.dispatch.reports import sane_times
from cobblestone.policy.dispatch.request import ProjectPreferences, ResourceRequest, WorkRequest
from cobblestone.policy.dispatch.versions import count_matching_hosts

KEYWORD_SETS = st.frozensets(st.sampled_from(sorted(KEYWORDS)), max_size=8)


@given(KEYWORD_SETS, KEYWORD_SETS, KEYWORD_SETS)
def test_a_refused_keyword_excludes_and_each_wanted_one_counts_once(
    yes: frozenset[int], no: frozenset[int], own: frozenset[int]
):
    found = keyword_score(ProjectPreferences(keywords_yes=yes, keywords_no=no), own)
    assert (found is None) == any(number in no for number in own)
    if found is not None:
        assert found == sum(number in yes for number in own)
        assert keyword_score(ProjectPreferences(keywords_yes=yes | own, keywords_no=no), own) == len(own)


@given(KEYWORD_SETS)
def test_an_app_has_the_wider_keywords_of_its_own_so_that_a_wide_no_holds_for_all_below(own: frozenset[int]):
    found = with_wider(own)
    assert own <= set(found)
    assert with_wider(found) == found
    assert {KEYWORDS[number].parent for number in found} <= {0, *found}


#: What the wire layer lets through: any finite number.
ANYTHING = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(
    [0.0, -0.0, -1.0, 1.0, 1e308, -1e308, 5e-324]
)
COUNTS = st.sampled_from([0, -3, 1, 10**400]) | st.integers()
APPS = [AppId(n) for n in (1, 2, 3)]
TODAY = quota.quota_day(HostId(1), NOW)

CLASSES = (
    PlanClass(name="mt", max_threads=8, nthreads_command_line=True),
    PlanClass(name="cuda", gpu_type="NVIDIA", ngpus=0.5),
    PlanClass(name="picky", min_ncpus=2, cpu_features=("avx",), os_regex="Linux", min_memory_mb=1000),
)
MAC = ("arm64-apple-darwin", "x86_64-apple-darwin")
PLATFORMS = [(LINUX,), (LINUX,), (LINUX, WINDOWS), (LINUX, WINDOWS), MAC, (WINDOWS, "windows_intelx86")]


@dataclass(frozen=True, kw_only=True)
class World:
    """A request and all that it meets."""

    name: str  #: how to make it again
    request: WorkRequest
    queue: list[Candidate]
    offer: Catalogue
    limits: DispatchLimits
    held: frozenset[WorkunitId]

    def __repr__(self) -> str:
        return self.name

    def decide(self, *, limits: DispatchLimits | None = None, **held: Any) -> DispatchDecision:
        held = held or {"already_at_user": self.held}
        return choose_work(
            self.request,
            self.queue,
            self.offer,
            limits=limits or self.limits,
            now=NOW,
            rng=random.Random(1),
            **held,
        )


# Worlds as they may well be.  They are made from a seed rather than drawn piece by piece, since independent pieces
# hardly ever make a request that gets something.


def a_queue(rng: random.Random) -> list[Candidate]:
    return [
        candidate(
            number,
            workunit=rng.randint(1, 15),
            app_number=rng.randint(1, 3),
            limits=JobLimits(
                rsc_fpops_est=rng.choice([1e12, 1e13, 1e14, 0.0]),
                rsc_memory_bound=rng.choice([1e8, 1e8, 5e9]),
                rsc_disk_bound=rng.choice([1e8, 1e9]),
                delay_bound=rng.choice([1e4, 1e6]),
            ),
        )
        for number in range(1, rng.choice([1, 10, 40, 40, 40, 40]))
    ]


def an_offer(rng: random.Random) -> Catalogue:
    made: list[AppVersion] = []
    for number in range(rng.randint(6, 15)):
        one = version(
            number,
            number % 3 + 1,
            platform=rng.choice([LINUX, WINDOWS, ANY_PLATFORM, ANY_PLATFORM]),
            plan_class=rng.choice(["", "", "mt", "cuda", "picky", "undefined"]),
            version_num=number,
            beta=rng.random() < 0.2,
        )
        made.append(unsigned(one) if rng.random() < 0.2 else one)
    return catalogue(*made, apps=[app(n, beta=n == 3) for n in (1, 2, 3)], plan_classes=CLASSES)


def some_caps(rng: random.Random) -> InProgressLimits:
    def maybe(make: Callable[[], Any]) -> Any:
        return make() if rng.random() < 0.2 else None

    def cap() -> JobCap:
        return JobCap(jobs=rng.randint(0, 5), per_processor=rng.random() < 0.5)

    return InProgressLimits(total=maybe(lambda: rng.randint(0, 12)), cpu=maybe(cap), gpu=maybe(cap))


def some_limits(rng: random.Random) -> DispatchLimits:
    return DispatchLimits(
        daily_quota=rng.choice([1, 3, 500, 500]),
        max_jobs_per_rpc=rng.choice([0, 1, 50, 50]),
        project_in_progress=some_caps(rng),
        app_in_progress={app_id: some_caps(rng) for app_id in APPS if rng.random() < 0.3},
        version_random_factor=rng.choice([0.0, 1.0]),
        check_deadline=rng.random() < 0.8,
    )


def some_records(rng: random.Random) -> list[HostAppVersion]:
    return [
        record(
            number,
            max_jobs_per_day=rng.choice([0, 1, 2, 500]),
            n_jobs_today=rng.choice([0, 1, 5]),
            quota_day=rng.choice([TODAY, TODAY, 0]),
            et_n=rng.choice([0, 5, 50]),
            et_avg=rng.uniform(1e-11, 1e-9),
        )
        for number in range(rng.randint(0, 15))
    ]


def a_request(rng: random.Random) -> WorkRequest:
    gpus = [Coprocessor(type="NVIDIA", count=rng.randint(1, 2), peak_flops=1e12, ram=8e9)]
    gpus = rng.choice([gpus, [], []])

    def asked() -> ResourceRequest:
        return ResourceRequest(
            seconds=rng.choice([0.0, 1e4, 1e5, 1e6, 1e6]),
            instances=rng.choice([0.0, 1.0, 4.0]),
            estimated_delay=rng.choice([0.0, 0.0, 1e3]),
        )

    held = {app_id: rng.randint(0, 3) for app_id in APPS if rng.random() < 0.5}
    description = replace(
        DESCRIPTION, p_ncpus=rng.randint(1, 8), coprocessors=tuple(gpus), on_frac=rng.uniform(0, 1)
    )
    return WorkRequest(
        host=Host(id=HostId(1), user_id=UserId(1), description=description),
        platforms=rng.choice(PLATFORMS),
        client_version=rng.choice([62000, 72005]),
        resources={CPU: asked()} | ({"NVIDIA": asked()} if gpus else {}),
        usable_ncpus=rng.uniform(0, 8),
        ram_bytes=rng.choice([1e9, 64e9, 64e9]),
        disk_bytes=rng.choice([5e8, 2e9, 64e9, 64e9]),
        in_progress=held,
        in_progress_gpu={app_id: rng.randint(0, count) for app_id, count in held.items()},
        preferences=ProjectPreferences(
            selected_apps=frozenset(app_id for app_id in APPS if rng.random() < 0.1),
            allow_non_preferred=rng.random() < 0.3,
            allow_beta=rng.random() < 0.7,
            no_cpu=rng.random() < 0.1,
            max_jobs=rng.choice([0, 0, 0, 5]),
            max_cpus=rng.choice([0, 0, 2]),
        ),
        records=records(*some_records(rng)),
    )


def a_world(seed: int) -> World:
    rng = random.Random(seed)
    return World(
        name=f"a_world({seed})",
        request=a_request(rng),
        queue=a_queue(rng),
        offer=an_offer(rng),
        limits=some_limits(rng),
        held=frozenset(WorkunitId(rng.randint(1, 15)) for _ in range(rng.randint(0, 6))),
    )


# What a stranger can put into a request.

DESCRIPTION_FIELDS = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("p_ncpus",), COUNTS),
        **dict.fromkeys(
            (
                *("p_fpops", "m_nbytes", "d_total", "d_free", "d_boinc_used_total"),
                *("on_frac", "active_frac", "gpu_active_frac"),
            ),
            ANYTHING,
        ),
        "os_name": st.sampled_from(["", "Windows 11", "Darwin", "( Linux"]),
        "p_features": st.just(""),
        "coprocessors": st.lists(
            st.builds(
                Coprocessor,
                type=st.sampled_from(["NVIDIA", "ATI", ""]),
                count=COUNTS,
                peak_flops=ANYTHING,
                ram=ANYTHING,
                driver_version=st.integers(),
            ),
            max_size=3,
        ).map(tuple),
    },
)
REQUEST_FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "platforms": st.sampled_from([(), ("",), ("x",), ("anonymous",)]),
        "client_version": st.integers(),
        "resources": st.dictionaries(
            st.sampled_from([CPU, "NVIDIA", "ATI", ""]),
            st.builds(ResourceRequest, seconds=ANYTHING, instances=ANYTHING, estimated_delay=ANYTHING),
        ),
        "usable_ncpus": ANYTHING,
        "ram_bytes": ANYTHING,
        "disk_bytes": ANYTHING,
        "previous_request_time": ANYTHING,
        "records": st.builds(
            HostAppVersion,
            host_id=st.just(HostId(1)),
            app_version_id=st.integers(0, 14),
            max_jobs_per_day=st.integers(),
            n_jobs_today=st.integers(0),
            quota_day=st.integers(),
            statistics=st.builds(
                HostVersionStatistics, elapsed=st.builds(RunningAverage, n=st.integers(0), mean=ANYTHING)
            ),
        ).map(records),
    },
)


def with_nonsense(world: World, description: dict[str, Any], request: dict[str, Any]) -> World:
    host = world.request.host
    host = replace(host, description=replace(host.description, **description))
    name = f"with_nonsense({world.name}, {description}, {request})"
    return replace(world, name=name, request=replace(world.request, host=host, **request))


#: Eight worlds at a time, with the same nonsense in each: making nonsense takes longer than deciding.
PLAUSIBLE = st.integers(0, 2**32).map(lambda seed: [a_world(seed + n) for n in range(8)])
WORLDS = PLAUSIBLE | st.builds(
    lambda worlds, description, request: [with_nonsense(world, description, request) for world in worlds],
    PLAUSIBLE,
    DESCRIPTION_FIELDS,
    REQUEST_FIELDS,
)


def for_all_worlds(check: Callable[[World], None]) -> Callable[[], None]:
    """Make a test of a check that must hold in every world."""

    def test(worlds: list[World]):
        for world in worlds:
            check(world)

    test.__name__ = check.__name__
    test.__qualname__ = check.__qualname__
    return given(WORLDS)(test)


# Dispatch


def test_the_worlds_of_these_tests_are_rich():
    decisions = [a_world(seed).decide() for seed in range(400)]
    assert sum(len(each.assignments) > 1 for each in decisions) > 150
    assert len({code.code for each in decisions for code in each.refusals}) > 15


@for_all_worlds
def test_no_workunit_goes_twice_to_one_user(world: World):
    decision = world.decide(already_at_user=world.held.intersection)
    given_out = [each.candidate.workunit_id for each in decision.assignments]
    assert len(set(given_out)) == len(given_out)
    assert not world.held.intersection(given_out)


@for_all_worlds
def test_no_workunit_goes_twice_to_one_host(world: World):
    per_host = replace(world.limits, one_result_per_user_per_wu=False)
    decision = world.decide(limits=per_host, already_at_host=world.held)
    given_out = [each.candidate.workunit_id for each in decision.assignments]
    assert len(set(given_out)) == len(given_out)
    assert not world.held.intersection(given_out)


def processors(world: World) -> tuple[float, Counter[str]]:
    """CPUs and GPUs that count, by the words of the documentation."""
    request = world.request
    most = min(request.preferences.max_cpus or world.limits.max_ncpus, world.limits.max_ncpus)
    ngpus: Counter[str] = Counter()
    for gpu in request.host.description.coprocessors:
        ngpus[gpu.type] = min(ngpus[gpu.type] + max(gpu.count, 0), 64)
    return max(min(request.usable_ncpus, most), 1), ngpus


@for_all_worlds
def test_limits_on_jobs_are_never_exceeded(world: World):
    ncpus, ngpus = processors(world)
    request, limits = world.request, world.limits
    sent = world.decide().assignments
    if limits.max_jobs_per_rpc:
        assert len(sent) <= max(limits.max_jobs_per_rpc * (ncpus + ngpus.total()), 1)
    if sent and request.preferences.max_jobs:
        assert sum(request.in_progress.values()) + len(sent) <= request.preferences.max_jobs

    def check(caps: InProgressLimits, apps: list[AppId]) -> None:
        new = sum(each.candidate.app_id in apps for each in sent)
        new_gpu = sum(each.candidate.app_id in apps and bool(each.usage.gpu_type) for each in sent)
        held = sum(request.in_progress.get(app_id, 0) for app_id in apps)
        held_gpu = sum(request.in_progress_gpu.get(app_id, 0) for app_id in apps)
        if new and caps.total is not None:
            assert held + new <= caps.total
        if new_gpu and caps.gpu is not None:
            assert held_gpu + new_gpu <= caps.gpu.jobs * (ngpus.total() if caps.gpu.per_processor else 1)
        if new > new_gpu and caps.cpu is not None:
            here = held - held_gpu + new - new_gpu
            assert here <= caps.cpu.jobs * (ncpus if caps.cpu.per_processor else 1)

    check(limits.project_in_progress, APPS)
    for app_id, caps in limits.app_in_progress.items():
        check(caps, [app_id])


@for_all_worlds
def test_the_daily_quota_is_never_exceeded_and_every_job_is_counted(world: World):
    ncpus, ngpus = processors(world)
    decision = world.decide()
    sent = Counter(each.version.id for each in decision.assignments)
    resources = {each.version.id: each.usage.resource for each in decision.assignments}
    assert sent.keys() == {each.app_version_id for each in decision.records}
    for changed in decision.records:
        before = world.request.records.get(changed.app_version_id)
        already = before.n_jobs_today if before is not None and before.quota_day == TODAY else 0
        assert changed.n_jobs_today == already + sent[changed.app_version_id]
        per_day = quota.jobs_per_day(changed, world.limits.daily_quota)
        resource = resources[changed.app_version_id]
        count = ncpus if resource == CPU else ngpus[resource]
        single = per_day == 1 and changed.bad_results > 0
        assert changed.n_jobs_today <= (1 if single else per_day * count)


@for_all_worlds
def test_memory_and_disk_are_never_exceeded(world: World):
    jobs = [each.candidate.limits for each in world.decide().assignments]
    assert sum(job.rsc_disk_bound for job in jobs) <= max(world.request.disk_bytes, 0)
    assert all(job.rsc_memory_bound <= world.request.ram_bytes for job in jobs)


@for_all_worlds
def test_only_what_the_request_can_use_is_sent(world: World):
    request = world.request
    for each in world.decide().assignments:
        asked = request.resources[each.usage.resource]
        assert asked.seconds > 0 or asked.instances > 0
        assert each.platform in request.platforms
        assert each.version.platform in (each.platform, ANY_PLATFORM)
        assert each.version.signed
        assert each.version.app_id == each.candidate.app_id
        assert not each.version.beta or request.preferences.allow_beta
        assert not request.preferences.no_cpu or each.usage.gpu_type
        assert each.candidate in world.queue
        selected = request.preferences.selected_apps
        assert not selected or request.preferences.allow_non_preferred or each.candidate.app_id in selected


@for_all_worlds
def test_no_more_is_sent_than_was_asked_for_but_for_the_last_job(world: World):
    decision = world.decide()
    for resource, asked in world.request.resources.items():
        given_out = [each for each in decision.assignments if each.usage.resource == resource]
        before_last = given_out[:-1]
        seconds = sum(
            each.estimated_seconds * (each.usage.ngpus or each.usage.avg_ncpus) for each in before_last
        )
        instances = sum(each.usage.ngpus or each.usage.avg_ncpus for each in before_last)
        # To the last digit: what is left after each job is not what a sum leaves.
        is_less = seconds < max(asked.seconds, 0) or math.isclose(seconds, asked.seconds)
        assert not given_out or is_less or instances < max(asked.instances, 0)


@for_all_worlds
def test_what_is_told_to_the_client_is_finite_and_positive(world: World):
    for each in world.decide().assignments:
        for amount in (each.usage.flops, each.usage.peak_flops, each.usage.avg_ncpus, each.report_deadline):
            assert math.isfinite(amount)
            assert amount > 0
        assert each.estimated_seconds > 0


@for_all_worlds
def test_a_request_that_gets_nothing_is_told_why(world: World):
    decision = world.decide()
    assert decision.assignments or decision.refusals
    for message in messages(decision.refusals):
        assert message.reason.text().endswith(".")
        assert len(message.reason.text().encode()) < 1024
    assert 0 <= decision.request_delay <= 172800


@for_all_worlds
def test_the_same_request_gets_the_same_answer(world: World):
    assert world.decide() == world.decide()


@for_all_worlds
def test_every_lost_result_is_either_sent_again_or_expires(world: World):
    deadlines = itertools.cycle([NOW + 1e6, NOW - 1.0, 0.0, NOW + 100.0, 1e308, -1e308])
    lost = [
        LostResult(candidate=each, report_deadline=deadline)
        for each, deadline in zip(world.queue, deadlines, strict=False)
    ]
    decision = resend_lost(
        world.request, lost, world.offer, limits=world.limits, now=NOW, rng=random.Random(1)
    )
    settled = [each.candidate.result_id for each in decision.resent]
    settled += [each.result_id for each in decision.expired]
    assert sorted(settled) == [each.result_id for each in world.queue]
    assert all(each.report_deadline >= NOW for each in decision.resent)


# Quota

EVENTS = st.lists(
    st.sampled_from([quota.after_success, quota.after_failure, quota.after_valid]) | st.just(None),
    max_size=60,
)


@given(st.integers(-10, 10**6), st.integers(1, 1000), EVENTS)
def test_the_quota_stays_between_one_and_the_reference(start: int, reference: int, events: list[Any]):
    now = NOW
    one = quota.for_today(record(max_jobs_per_day=start), daily_quota=reference, now=now)
    for event in events:
        if event is None:
            now += 40000
            one = quota.for_today(one, daily_quota=reference, now=now)
        else:
            one = event(one, reference)
        assert 1 <= one.max_jobs_per_day <= reference


@given(st.integers(1, 10**9).map(HostId), st.floats(0, 1e11))
def test_each_host_has_days_of_equal_length(host_id: HostId, now: float):
    end = now + quota.seconds_to_next_day(host_id, now)
    assert end - now <= 86400.001
    assert quota.quota_day(host_id, end + 1) == quota.quota_day(host_id, now) + 1


# Times, capacity, plan classes


@given(st.floats(), st.floats(), st.none() | ANYTHING, st.floats(0, 1000) | ANYTHING)
def test_times_are_finite_not_negative_and_possible(
    cpu: float, elapsed: float, in_progress: float | None, ncpus: float
):
    cpu, elapsed, _ = sane_times(cpu, elapsed, in_progress=in_progress, ncpus_used=ncpus)
    assert math.isfinite(cpu)
    assert math.isfinite(elapsed)
    assert cpu >= 0
    assert 0 <= elapsed <= (1e9 if in_progress is None else max(in_progress, 0))
    assert cpu <= elapsed * max(ncpus, 1)


def descriptions() -> st.SearchStrategy[HostDescription]:
    return DESCRIPTION_FIELDS.map(lambda fields: replace(DESCRIPTION, **fields))


@given(descriptions(), st.lists(ANYTHING, min_size=7, max_size=7))
def test_capacity_is_never_negative_and_leaves_at_least_one_cpu(
    description: HostDescription, numbers: list[float]
):
    computing = DispatchPreferences(**dict(zip(DispatchPreferences.__annotations__, numbers, strict=True)))
    limits = DispatchLimits()
    capacity = usable_capacity(description, computing, preferences=ProjectPreferences(), limits=limits)
    assert 1 <= capacity.ncpus <= limits.max_ncpus
    assert capacity.ram_bytes >= 0
    assert capacity.disk_bytes >= 0
    assert 0.1 <= availability(description) <= 1


@given(st.lists(descriptions(), max_size=5), st.sampled_from(CLASSES))
def test_every_known_host_is_counted_once(hosts: list[HostDescription], plan_class: PlanClass):
    count = count_matching_hosts(plan_class, hosts)
    assert count.total == len(hosts)
    assert count.matching + sum(count.refusals.values()) == len(hosts)
