"""The steady system: the same credit for a job whoever computes it, and a factor that nobody moves far."""

from __future__ import annotations

import math
from typing import Any

import pytest
from tests.helpers.credit_builders import (
    NOW,
    PER_CREDIT,
    WORKUNIT,
    codes,
    facts,
    grant,
    host,
    statistics,
)

from cobblestone.domain.ids import AppVersionId, HostId
from cobblestone.domain.statistics import RunningAverage
from cobblestone.policy.credit.claims import PlatformKind, WorkunitFacts
from cobblestone.policy.credit.cobblestone import DESIGNED
from cobblestone.policy.credit.registry import credit_system, scale_finder
from cobblestone.policy.credit.scales import VersionRecord, deployed_scales, designed_scales
from cobblestone.policy.credit.steady import (
    CLIP,
    PRIOR_VOTES,
    STEADY_RULE,
    largest_influence,
    largest_step,
    steady_scales,
    votes_at,
)
from cobblestone.policy.credit.system import grant_straggler

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
    outcome = grant_straggler(
        credit_system("steady"), WORKUNIT, facts(), statistics(min_avg_pfc=9.0), canonical_credit=7.0, now=NOW
    )
    assert outcome.results[0].granted == 7.0


@pytest.mark.parametrize(("results", "votes"), [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (1000, 10)])
def test_a_host_votes_after_its_1st_2nd_4th_8th_result(results: int, votes: int) -> None:
    assert sum(votes_at(n) for n in range(results + 1)) == votes


def test_a_vote_is_the_mean_of_the_host_and_moves_the_version_by_a_bounded_step() -> None:
    record = host(3, 1.1)  # the fourth result: its vote is (3 x 1.1 + 1.0) / 4
    outcome = grant("steady", [facts(host_version=record)], statistics(200, 1.0))
    (increment,) = outcome.increments.versions
    assert increment.pfc == pytest.approx((1.0 + math.log(1.075),))
    for reported, step in ((1e12, CLIP), (1e8, -CLIP)):
        outcome = grant("steady", [facts(peak_flops=reported)], statistics(200, 1.0))
        (increment,) = outcome.increments.versions
        assert increment.pfc == pytest.approx((1.0 + step,))
        after = RunningAverage(200, 1.0).with_samples(increment.pfc, increment.rule)
        assert abs(after.mean - 1.0) == pytest.approx(largest_step(200))


def test_a_version_begins_at_the_factor_of_the_app() -> None:
    (increment,) = grant("steady", [facts()], statistics(min_avg_pfc=1.5)).increments.versions
    assert increment.pfc[:-1] == (1.5,) * PRIOR_VOTES
    assert increment.pfc[-1] == pytest.approx(1.5 * (1.0 + math.log(1.0 / 1.5)))


@pytest.mark.parametrize(
    "changes",
    [
        {"host_version": host(2, 1.0)},  # the third result
        {"platform": PlatformKind.ANONYMOUS},
        {"peak_flops": 1e9},  # a failed benchmark
        {"peak_flops": 1e17},  # ten million times the estimate
        {"outlier": True},
        {"host_version": None},
    ],
)
def test_results_that_do_not_vote(changes: dict[str, Any]) -> None:
    assert grant("steady", [facts(**changes)]).increments.versions == ()


def test_two_results_of_one_host_in_one_job_vote_once_each_number() -> None:
    both = [facts(1, host_id=HostId(1), host_version=host(2, 1.0)) for _ in range(2)]
    (increment,) = grant("steady", both, statistics(50, 1.0)).increments.versions
    assert len(increment.pfc) == 1  # the third does not, the fourth does


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
    assert scale_finder("steady") is steady_scales
    assert scale_finder("creditnew-designed") is designed_scales
    assert {scale_finder(name) for name in ("creditnew-deployed", "benchmark", "my-own")} == {deployed_scales}


def test_the_bounds_that_the_documentation_states() -> None:
    assert largest_step(0) == pytest.approx(0.139, abs=0.0005)
    assert largest_step(100) == pytest.approx(0.007, abs=0.0001)
    assert 1.14 < largest_influence(1_000_000) < 1.15


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
