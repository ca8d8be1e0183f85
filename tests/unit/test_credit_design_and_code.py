"""CreditNew as designed and as deployed on the same events: where they differ, line by line of the page on credit."""

from __future__ import annotations

import pytest
from tests.helpers.credit_builders import ESTIMATE, NOW, PER_CREDIT, claiming, facts, grant, host, statistics

from cobblestone.domain.statistics import RunningAverage
from cobblestone.policy.credit.claims import (
    DEPLOYED,
    DESIGNED,
    ClaimInput,
    ClaimMode,
    PlatformKind,
    Statistics,
)
from cobblestone.policy.credit.host_records import host_version_after
from cobblestone.policy.credit.system import GrantOutcome

DEFAULT = ESTIMATE / PER_CREDIT


def both(inputs: list[ClaimInput], known: Statistics) -> tuple[GrantOutcome, GrantOutcome]:
    """(as designed, as deployed)."""
    return grant("creditnew-designed", inputs, known), grant("creditnew-deployed", inputs, known)


def amounts(outcomes: tuple[GrantOutcome, GrantOutcome]) -> list[float]:
    return [outcome.results[0].granted for outcome in outcomes]


def test_1_the_unit_of_the_design_is_half_as_large() -> None:
    designed = grant("creditnew-designed", [claiming(10.0)], unit=DESIGNED)
    deployed = grant("creditnew-deployed", [claiming(10.0)], unit=DEPLOYED)
    assert deployed.results[0].granted == pytest.approx(2 * designed.results[0].granted)


def test_2_replicas_are_averaged_plainly_or_pegged_to_the_estimate() -> None:
    known = statistics(500, 1.0, scale=1.0, min_avg_pfc=100.0 / DEFAULT)
    inputs = [
        claiming(credit, number, host_version=host(10, 1.0)) for number, credit in ((1, 90.0), (2, 300.0))
    ]
    assert amounts(both(inputs, known)) == pytest.approx([195.0, 108.2609], abs=5e-5)


def test_2_an_anonymous_host_has_a_say_in_the_code_only() -> None:
    known = statistics(500, 1.0, scale=1.0, min_avg_pfc=40.0 / DEFAULT)
    inputs = [
        claiming(60.0, 1, host_version=host(10, 1.0)),
        claiming(30.0, 2, platform=PlatformKind.ANONYMOUS, host_version=host(10, 40.0 / DEFAULT)),
    ]
    assert amounts(both(inputs, known)) == pytest.approx([60.0, 46.1538], abs=5e-5)


def test_3_a_claim_beyond_the_bound_is_replaced_or_cut() -> None:
    cheat = facts(peak_flops=1e16, elapsed_time=1000.0)
    outcomes = both([cheat], statistics(500, 1.0))
    assert amounts(outcomes) == pytest.approx([DEFAULT, 1e16 / PER_CREDIT])
    assert [len(outcome.increments.versions) for outcome in outcomes] == [0, 0]  # a ratio of 1e6 is no sample
    lesser = facts(peak_flops=2e13, elapsed_time=1000.0)  # ratio 2000, still beyond the bound
    outcomes = both([lesser], statistics(500, 1.0))
    assert [len(outcome.increments.versions) for outcome in outcomes] == [0, 1]


@pytest.mark.parametrize(("valid", "deployed"), [(0, 5.0), (10, 10.0)])
def test_4_a_host_proves_itself_by_time_or_by_valid_results(valid: int, deployed: float) -> None:
    known = statistics(500, 2.0, scale=0.5, host_scale_check=True)
    record = host(50, 1.0, scale_probation=False, host_scale_time=NOW - 1.0, consecutive_valid=valid)
    assert amounts(both([claiming(10.0, host_version=record)], known)) == pytest.approx([10.0, deployed])


def test_4_probation_takes_the_say_of_a_host_in_the_design_only() -> None:
    known = statistics(500, 1.0, scale=1.0, host_scale_check=True)
    record = host(50, 1.0, scale_probation=True, consecutive_valid=50)
    assert amounts(both([claiming(10.0, host_version=record)], known)) == pytest.approx([DEFAULT, 10.0])


def test_5_a_one_time_cheat_is_caught_by_the_design_only() -> None:
    cheat = facts(peak_flops=2.1e11, elapsed_time=1000.0)  # 21 x the version's mean
    outcomes = both([cheat], statistics(500, 1.0))
    assert amounts(outcomes) == pytest.approx([DEFAULT, 21 * DEFAULT])
    probation = [outcome.increments.host_versions[0].on_probation for outcome in outcomes]
    assert probation == [True, False]


def test_9_an_anonymous_host_gets_the_average_or_its_own_scale() -> None:
    known = statistics(min_avg_pfc=3.0)
    result = claiming(9.0, platform=PlatformKind.ANONYMOUS, host_version=host(10, 1.5))
    assert amounts(both([result], known)) == pytest.approx([3 * DEFAULT, 18.0])


def test_10_averages_of_a_host_are_straight_for_10_or_19_samples() -> None:
    means: list[float] = []
    for outcome in both([facts()], statistics()):
        record = host()
        for ratio in (*[1.0] * 10, 2.0):
            increment = outcome.increments.host_versions[0]
            (pfc,) = increment.pfc
            assert pfc == pytest.approx(1.0)
            sample = type(increment)(
                host_id=increment.host_id,
                app_version_id=increment.app_version_id,
                pfc=(ratio,),
                rule=increment.rule,
            )
            record = host_version_after(record, sample)
        means.append(record.pfc.mean)
    assert means == pytest.approx([1.01, 12.0 / 11.0])


def test_12_a_failed_benchmark_is_believed_or_replaced() -> None:
    outcomes = both([facts(peak_flops=1e9, elapsed_time=3600.0)], statistics())
    assert amounts(outcomes) == pytest.approx([200.0 / 24.0, 35.8333], abs=5e-5)


def test_both_agree_on_ordinary_events() -> None:
    known = statistics(500, 2.0, scale=0.5)
    inputs = [claiming(10.0, number, host_version=host(30, 1.0)) for number in (1, 2, 3)]
    outcomes = both(inputs, known)
    assert amounts(outcomes) == pytest.approx([10.0, 10.0])
    assert {result.mode for outcome in outcomes for result in outcome.results} == {ClaimMode.NORMAL}
    assert RunningAverage() == host().pfc
