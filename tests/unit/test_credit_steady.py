"""The steady system: the same credit for a job whoever computes it, and a factor that nobody moves far."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from tests.helpers.credit_builders import (
    NOW,
    PER_CREDIT,
    VERSION,
    WORKUNIT,
    codes,
    facts,
    grant,
    host,
    statistics,
)
from tests.helpers.stated_bounds import largest_step

from cobblestone.domain.statistics import RunningAverage
from cobblestone.domain.values import DAY, AppId, AppVersionId, HostId, WorkunitId
from cobblestone.policy.credit.book import CreditBook, GrantTerms, ResultsJudged
from cobblestone.policy.credit.claims import (
    DESIGNED,
    AppStatistics,
    PlatformKind,
    VersionStatistics,
    WorkunitFacts,
)
from cobblestone.policy.credit.registry import credit_system, find_scales
from cobblestone.policy.credit.scales import VersionRecord
from cobblestone.policy.credit.steady import (
    CLIP,
    DAILY_LIMIT,
    PRIOR_VOTES,
    STEADY_RULE,
    VOTING_AGE,
    steady_scales,
    votes_at,
)
from cobblestone.policy.credit.system import grant_workunit

WORTH = WORKUNIT.rsc_fpops_est / PER_CREDIT  #: credit of the builders' job at factor 1


def version(number: int, mean: float, n: int = 100, *, is_gpu: bool = False) -> VersionRecord:
    return VersionRecord(app_version_id=AppVersionId(number), is_gpu=is_gpu, pfc=RunningAverage(n, mean))


def test_every_result_gets_estimate_times_factor_whatever_it_reports() -> None:
    inputs = [
        facts(1),
        facts(2, elapsed_time=4000.0, peak_flops=1e15),
        facts(3, platform=PlatformKind.ANONYMOUS, app_version_id=AppVersionId(1_000_002)),
        facts(4, is_gpu=True, app_version_id=AppVersionId(8), peak_flops=5e12),
        facts(5, elapsed_time=0.0, cpu_time=0.0, peak_flops=0.0),
        facts(6, host_version=None),
    ]
    outcome = grant("steady", inputs, statistics(500, 3.0, min_avg_pfc=2.5))
    assert [result.granted for result in outcome.results] == pytest.approx([2.5 * WORTH] * 6)
    assert outcome.results[0].claimed != outcome.results[1].claimed
    assert codes(outcome)[-1] == "estimate_times_factor"


def test_while_nothing_is_known_a_job_is_worth_its_estimate() -> None:
    assert grant("steady", [facts()]).results[0].granted == pytest.approx(WORTH)
    unknown = statistics(min_avg_pfc=0.0)
    assert grant("steady", [facts()], unknown).results[0].granted == pytest.approx(WORTH)
    assert grant("steady", [facts()], unit=DESIGNED).results[0].granted == pytest.approx(WORTH / 2)


def test_a_straggler_gets_what_the_others_got() -> None:
    known = statistics(min_avg_pfc=9.0)
    outcome = grant_workunit(
        credit_system("steady"), WORKUNIT, [facts()], known, canonical_credit=7.0, now=NOW
    )
    assert outcome.results[0].granted == 7.0


@pytest.mark.parametrize(
    ("results", "computers", "votes"), [(0, 1, 0), (7, 1, 0), (8, 1, 1), (1000, 1, 125), (1000, 5, 25)]
)
def test_a_vote_stands_for_valid_work_and_the_computers_of_a_person_share_theirs(
    results: int, computers: int, votes: int
) -> None:
    assert sum(votes_at(n, computers) for n in range(results + 1)) == votes


def test_a_vote_is_the_mean_of_the_host_and_moves_the_version_by_a_bounded_step() -> None:
    record = host(7, 1.1)  # the eighth result: its vote is (7 x 1.1 + 1.0) / 8
    outcome = grant("steady", [facts(host_version=record)], statistics(200, 1.0))
    (increment,) = outcome.increments.versions
    assert increment.pfc == pytest.approx((1.0 + math.log(1.0875),))
    for reported, step in ((1e12, CLIP), (1e8, -CLIP)):
        far = host(7, reported * 1000.0 / WORKUNIT.rsc_fpops_est)
        outcome = grant("steady", [facts(peak_flops=reported, host_version=far)], statistics(200, 1.0))
        (increment,) = outcome.increments.versions
        assert increment.pfc == pytest.approx((1.0 + step,))
        after = RunningAverage(200, 1.0).with_samples(increment.pfc, increment.rule)
        assert abs(after.mean - 1.0) == pytest.approx(largest_step(200))


def test_a_version_begins_at_the_factor_of_the_app() -> None:
    (increment,) = grant(
        "steady", [facts(host_version=host(7, 1.0))], statistics(min_avg_pfc=1.5)
    ).increments.versions
    assert increment.pfc[:-1] == (1.5,) * PRIOR_VOTES
    assert increment.pfc[-1] == pytest.approx(1.5 * (1.0 + math.log(1.0 / 1.5)))


@pytest.mark.parametrize(
    "changes",
    [
        {"host_version": host(6, 1.0)},  # the seventh result
        {"host_age": VOTING_AGE - 1.0},
        {"owner_computers": 2},
        {"platform": PlatformKind.ANONYMOUS},
        {"peak_flops": 1e9},  # a failed benchmark
        {"peak_flops": 1e17},  # ten million times the estimate
        {"outlier": True},
        {"host_version": None},
    ],
)
def test_results_that_do_not_vote(changes: dict[str, Any]) -> None:
    assert grant("steady", [replace(facts(host_version=host(7, 1.0)), **changes)]).increments.versions == ()


def test_two_results_of_one_host_in_one_job_vote_once_each_number() -> None:
    both = [facts(1, host_id=HostId(1), host_version=host(6, 1.0)) for _ in range(2)]
    (increment,) = grant("steady", both, statistics(50, 1.0)).increments.versions
    assert len(increment.pfc) == 1  # the seventh does not, the eighth does


def test_the_factor_is_the_geometric_mean_of_cpu_versions_and_gpu_versions_follow() -> None:
    found = steady_scales([version(1, 2.0), version(2, 8.0), version(3, 40.0, is_gpu=True)])
    assert found.min_avg_pfc == pytest.approx(4.0)
    assert found.scales == pytest.approx({AppVersionId(1): 2.0, AppVersionId(2): 0.5, AppVersionId(3): 0.1})


def test_a_version_weighs_by_its_votes_but_not_for_ever() -> None:
    young = steady_scales([version(1, 2.0, n=STEADY_RULE.threshold), version(2, 8.0, n=25)])
    assert young.min_avg_pfc == pytest.approx(2.0 ** (1 + 2 * 0.2))
    old = steady_scales([version(1, 2.0, n=10**6), version(2, 8.0, n=STEADY_RULE.threshold)])
    assert old.min_avg_pfc == pytest.approx(4.0)


def test_a_new_version_that_begins_does_not_change_the_factor() -> None:
    alone = steady_scales([version(1, 2.5)]).min_avg_pfc
    joined = steady_scales([version(1, 2.5), version(2, 2.5, n=PRIOR_VOTES)])
    assert joined.min_avg_pfc == pytest.approx(alone)
    assert AppVersionId(2) not in joined.scales  # too young to be compared


def test_gpu_versions_alone_leave_the_factor() -> None:
    found = steady_scales([version(3, 40.0, is_gpu=True)])
    assert found.min_avg_pfc is None
    assert not found.scales


def test_each_system_finds_scales_in_its_own_way() -> None:
    versions = [version(1, 2.0, n=200), version(2, 8.0, n=200)]
    means = {
        system: find_scales(system, versions, previous=0.0, elapsed=0.0).min_avg_pfc
        for system in ("steady", "steady-measured", "creditnew-designed", "creditnew-deployed", "fixed")
    }
    assert means["steady"] == means["steady-measured"] == pytest.approx(4.0)
    assert means["creditnew-designed"] == means["creditnew-deployed"] == means["fixed"] == pytest.approx(5.0)


def test_the_factor_moves_by_a_tenth_a_day_once_it_has_its_votes() -> None:
    far = [version(1, 50.0)]
    day = steady_scales(far, previous=1.0, elapsed=DAY).min_avg_pfc
    assert day == pytest.approx(DAILY_LIMIT)
    assert steady_scales(far, previous=1.0, elapsed=1e9).min_avg_pfc == day  # a long rest is no licence
    assert steady_scales(far, previous=1.0, elapsed=0.0).min_avg_pfc == 1.0
    half = steady_scales([version(1, 0.01)], previous=1.0, elapsed=DAY / 2).min_avg_pfc
    assert half == pytest.approx(DAILY_LIMIT**-0.5)
    young = [version(1, 50.0, n=STEADY_RULE.threshold - 1)]
    assert steady_scales(young, previous=1.0, elapsed=0.0).min_avg_pfc == pytest.approx(50.0)


def _factor_after(days: int, *, of_many_accounts: bool) -> float:
    """The factor of an app of 40 computers with ten results a day each, of which one lies as a new computer each time."""
    book = CreditBook()
    book.apps[AppId(1)], book.versions[VERSION] = AppStatistics(), VersionStatistics()
    number = 1000
    for day in range(days):
        for line in range(400):
            liar = line % 40 == 0
            number += liar
            told = facts(
                host_id=HostId(number if liar else line % 40),
                peak_flops=1e10 * (1000.0 if liar else 1.0),
                host_age=0.0 if liar and day == 0 else 2 * DAY,
                owner_computers=1 if of_many_accounts or not liar else number - 1000,
            )
            book.apply(
                ResultsJudged(
                    terms=GrantTerms(system=credit_system("steady")),
                    app_id=AppId(1),
                    workunit_id=WorkunitId(line),
                    workunit=WORKUNIT,
                    valid=[told],
                    now=NOW,
                )
            )
        record = VersionRecord(app_version_id=VERSION, pfc=book.versions[VERSION].pfc)
        found = find_scales("steady", [record], previous=book.apps[AppId(1)].min_avg_pfc, elapsed=DAY)
        book.apps[AppId(1)] = AppStatistics(min_avg_pfc=found.min_avg_pfc or 1.0)
    return book.apps[AppId(1)].min_avg_pfc


@pytest.mark.parametrize("of_many_accounts", [False, True])
def test_a_new_identity_for_each_result_does_not_move_the_factor(of_many_accounts: bool) -> None:
    assert _factor_after(20, of_many_accounts=of_many_accounts) == pytest.approx(1.0, rel=1e-6)


def test_the_bounds_that_the_documentation_states() -> None:
    assert largest_step(0) == pytest.approx(0.139, abs=0.0005)
    assert largest_step(100) == pytest.approx(0.007, abs=0.0001)


def test_the_figures_of_a_result_are_a_claim_that_pays_nothing() -> None:
    known = statistics(500, 4.0, scale=0.5, min_avg_pfc=2.0)
    (result,) = grant("steady", [facts()], known).results
    assert result.claimed == pytest.approx(1e13 * 0.5 / PER_CREDIT)
    tight = WorkunitFacts(rsc_fpops_est=1e13, rsc_fpops_bound=2e12)
    (result,) = grant("steady", [facts()], known, workunit=tight).results
    assert result.claimed == pytest.approx(2e12 / PER_CREDIT)
    assert result.granted == pytest.approx(2 * WORTH)


def measured(*lengths: float, **changes: object) -> float:
    """Credit, at factor 1, of a job that was so many times as long as usual for each of its hosts."""
    inputs = [
        facts(number, elapsed_time=1000.0 * length, host_version=host(10, 1.0), **changes)
        for number, length in enumerate(lengths, start=1)
    ]
    outcome = grant("steady-measured", inputs)
    assert len({result.granted for result in outcome.results}) == 1
    return outcome.results[0].granted / WORTH


def test_measured_takes_the_smallest_of_what_hosts_say_about_a_job() -> None:
    assert measured(1.8, 2.0) == pytest.approx(1.8)
    assert measured(0.5, 0.6, 3.0) == pytest.approx(0.5)
    assert measured(0.01, 0.02) == pytest.approx(0.25)


def test_measured_lets_nobody_raise_the_credit_alone() -> None:
    assert measured(1.0, 4.9) == pytest.approx(1.0)
    assert measured(4.9) == pytest.approx(1.0)  # one measure is none


def test_measured_sees_no_constant_lie() -> None:
    lying = [facts(number, peak_flops=1e11, host_version=host(50, 10.0)) for number in (1, 2)]
    assert grant("steady-measured", lying).results[0].granted == pytest.approx(WORTH)


@pytest.mark.parametrize(
    "changes",
    [{"host_version": host(9, 1.0)}, {"host_version": None}, {"peak_flops": 1e9}, {"outlier": True}],
)
def test_measured_asks_only_hosts_that_have_a_measure(changes: dict[str, object]) -> None:
    inputs = [
        facts(1, elapsed_time=2000.0, host_version=host(10, 1.0)),
        facts(2, **{"elapsed_time": 2000.0, "host_version": host(10, 1.0)} | changes),
    ]
    assert grant("steady-measured", inputs).results[0].granted == pytest.approx(WORTH)
