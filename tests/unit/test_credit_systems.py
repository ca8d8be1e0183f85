"""What each credit system claims, grants and learns; figures worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from tests.helpers.credit_builders import (
    ESTIMATE,
    NOW,
    PER_CREDIT,
    WORKUNIT,
    claiming,
    codes,
    facts,
    grant,
    host,
    statistics,
)

from cobblestone.domain.errors import ConfigError
from cobblestone.domain.hosts import HostVersionStatistics
from cobblestone.domain.statistics import RunningAverage
from cobblestone.policy.credit.claims import (
    DESIGNED,
    AppIncrement,
    AppStatistics,
    ClaimInput,
    ClaimMode,
    CreditUnit,
    PlatformKind,
    Statistics,
    low_average,
    mean,
    minimum,
    pegged_average,
    without_extremes,
)
from cobblestone.policy.credit.early_systems import counted_operations, credit_per_cpu_second
from cobblestone.policy.credit.host_records import app_after
from cobblestone.policy.credit.registry import credit_system, credit_system_names

# -------------------------------------------------------------------------------------------- combinations


@pytest.mark.parametrize(
    ("claims", "peg", "expected"),
    [
        ((80.0, 120.0), 100.0, 100.0),
        ((90.0, 300.0), 100.0, 108.2609),
        ((30.0, 60.0, 60.0), 40.0, 46.1538),
        ((77.0,), 100.0, 77.0),
        ((), 100.0, 0.0),
        ((0.0, 0.0), 0.0, 0.0),
    ],
)
def test_pegged_average(claims: tuple[float, ...], peg: float, expected: float) -> None:
    assert pegged_average(claims, peg) == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ((100.0, 200.0), 133.3333),
        ((100.0, 100.0, 1000.0), 175.0),
        ((5.0,), 5.0),
        ((), 0.0),
        ((0.0, 0.0), 0.0),
    ],
)
def test_low_average(claims: tuple[float, ...], expected: float) -> None:
    assert low_average(claims) == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ((), 0.0),
        ((0.0005,), 0.0),
        ((7.0,), 7.0),
        ((7.0, 5.0), 5.0),
        ((0.0, 7.0, 5.0), 5.0),
        ((1.0, 5.0, 6.0, 100.0), 5.5),
    ],
)
def test_dropping_the_extremes(claims: tuple[float, ...], expected: float) -> None:
    assert without_extremes(claims) == pytest.approx(expected)


def test_mean_and_minimum() -> None:
    assert (mean((1.0, 2.0, 6.0)), minimum((1.0, 2.0, 6.0))) == (3.0, 1.0)
    assert (mean(()), minimum(())) == (0.0, 0.0)


# -------------------------------------------------------------------------------------------- first system


def test_the_first_system_claims_whetstone_times_cpu_time() -> None:
    outcome = grant("benchmark", [facts(cpu_time=43200.0 / 9, p_fpops=3e9)])
    assert outcome.results[0].claimed == pytest.approx(200.0 * 3.0 / 18.0)
    assert outcome.results[0].granted == outcome.results[0].claimed
    assert codes(outcome) == ["whetstone_x_cpu_time", "combined"]


@pytest.mark.parametrize(
    ("system", "expected"),
    [
        ("benchmark", 45.0),
        ("benchmark:mean", 45.0),
        ("benchmark:minimum", 10.0),
        ("benchmark:drop-extremes", 30.0),
    ],
)
def test_the_first_system_combines_replicas_as_it_is_told(system: str, expected: float) -> None:
    outcome = grant(system, [claiming(10.0, 1), claiming(95.0, 2), claiming(30.0, 3)])
    assert [result.granted for result in outcome.results] == pytest.approx([expected] * 3)
    assert [result.claimed for result in outcome.results] == pytest.approx([10.0, 95.0, 30.0])
    assert outcome.canonical_credit == pytest.approx(expected)


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ([10.0, 100.0], 55.0),
        ([10.0, 101.0], 10.0),
        ([10.0, 110.0, 30.0], 30.0),
        ([1.0, 2.0, 3.0, 1000.0], 2.0),
        ([7.0], 7.0),
    ],
)
def test_a_mean_gives_way_to_the_smaller_or_the_median_where_one_claim_is_beyond_ten_times_another(
    claims: list[float], expected: float
) -> None:
    inputs = [claiming(claim, number) for number, claim in enumerate(claims, start=1)]
    for system in ("benchmark", "benchmark:mean"):
        granted = [each.granted for each in grant(system, inputs).results]
        assert granted == pytest.approx([expected] * len(claims))


@pytest.mark.parametrize("system", ["benchmark", "benchmark-both", "counted", "benchmark:minimum"])
def test_no_claim_of_the_first_system_passes_the_bound_of_the_job(system: str) -> None:
    bound = CreditUnit().of_flops(WORKUNIT.rsc_fpops_bound)
    (result,) = grant(system, [claiming(10 * bound, sent_time=0.0)]).results
    assert (result.claimed, result.granted) == (pytest.approx(bound), pytest.approx(bound))
    assert "beyond_bound" in {why.code for why in result.reasons}


@pytest.mark.parametrize(
    "system",
    ["benchmark", "benchmark-both", "counted", "runtime", "creditnew-deployed", "creditnew-designed"],
)
@pytest.mark.parametrize("time", [math.nan, math.inf, -1.0, 0.0])
def test_a_refused_run_time_claims_the_estimate_and_teaches_nothing(system: str, time: float) -> None:
    outcome = grant(system, [facts(elapsed_time=time, cpu_time=time)])
    assert outcome.results[0].granted == pytest.approx(CreditUnit().of_flops(WORKUNIT.rsc_fpops_est))
    assert outcome.increments.host_versions == outcome.increments.versions == ()


def test_an_estimate_does_not_weigh_against_a_measured_claim() -> None:
    inputs = [claiming(50.0, 1), facts(2, elapsed_time=0.0, cpu_time=0.0)]
    assert [each.granted for each in grant("benchmark", inputs).results] == pytest.approx([50.0, 50.0])


@pytest.mark.parametrize(
    ("system", "samples"),
    [("creditnew-designed", (0.1,)), ("creditnew-deployed", ()), ("benchmark", ()), ("steady", ())],
)
def test_a_speed_of_exactly_a_gigaflops_is_learned_by_the_rule_of_the_system(
    system: str, samples: tuple[float, ...]
) -> None:
    (record,) = grant(system, [facts(peak_flops=1e9)]).increments.host_versions
    assert record.pfc == pytest.approx(samples)
    assert record.elapsed == (1000.0 / WORKUNIT.rsc_fpops_est,)  # says nothing of the speed


def test_the_older_form_takes_the_mean_of_both_benchmarks() -> None:
    outcome = grant("benchmark-both", [facts(cpu_time=864.0, p_fpops=2e9, p_iops=6e9)])
    assert outcome.results[0].granted == pytest.approx(200.0 * 4.0 * 0.01)


def test_run_time_stands_in_for_a_cpu_time_that_was_not_reported() -> None:
    outcome = grant("benchmark", [facts(cpu_time=0.0, elapsed_time=864.0, p_fpops=1e9)])
    assert outcome.results[0].granted == pytest.approx(2.0)
    assert "cpu_time_missing" in codes(outcome)


def test_another_unit_scales_every_amount() -> None:
    usual = grant("benchmark", [facts()])
    outcome = grant("benchmark", [facts()], unit=DESIGNED)
    assert outcome.results[0].granted == pytest.approx(usual.results[0].granted / 2)
    assert outcome.unit == DESIGNED


# ------------------------------------------------------------------------------------------- second system


def test_the_second_system_pays_counted_operations() -> None:
    outcome = grant("counted", [facts(fpops_counted=3 * PER_CREDIT)])
    assert outcome.results[0].granted == pytest.approx(3.0)


def test_the_larger_of_both_counts_is_paid() -> None:
    outcome = grant("counted", [facts(fpops_counted=PER_CREDIT, intops_counted=4 * PER_CREDIT)])
    assert outcome.results[0].granted == pytest.approx(4.0)


def test_counts_beyond_the_bound_of_the_job_are_clamped() -> None:
    outcome = grant("counted", [facts(fpops_counted=1e20)])
    assert outcome.results[0].granted == pytest.approx(1e16 / PER_CREDIT)


def test_the_scale_applies_to_counts() -> None:
    known = Statistics(app=AppStatistics(flops_scale=2.5))
    assert grant("counted", [facts(fpops_counted=PER_CREDIT)], known).results[0].granted == pytest.approx(2.5)


def test_the_scale_makes_the_average_job_worth_what_the_first_system_grants() -> None:
    app, first_total, second_total = AppStatistics(), 0.0, 0.0
    for job in range(400):
        result = facts(cpu_time=500.0 + job, p_fpops=2e9, fpops_counted=(500.0 + job) * 4e8)
        outcome = grant("counted", [result], Statistics(app=app))
        assert outcome.increments.app is not None
        app = app_after(app, outcome.increments.app)
        if job >= 200:
            second_total += outcome.results[0].granted
            first_total += grant("benchmark", [result]).results[0].granted
    assert app.flops_scale == pytest.approx(5.0)
    assert second_total == pytest.approx(first_total)


def test_the_scale_waits_for_a_hundred_jobs() -> None:
    few = AppIncrement(benchmark_credit=500.0, counted_credit=1.0, cpu_seconds=10.0, jobs=99)
    one = AppIncrement(benchmark_credit=5.0, counted_credit=1.0, cpu_seconds=10.0, jobs=1)
    waiting = app_after(AppStatistics(), few)
    assert waiting.flops_scale == 1.0
    assert app_after(waiting, one).flops_scale == pytest.approx(505.0 / 2.0)


def test_what_cannot_count_gets_the_published_average_per_cpu_second() -> None:
    known = Statistics(app=AppStatistics(credit_per_cpu_second=0.02))
    outcome = grant("counted", [facts(cpu_time=100.0)], known)
    assert outcome.results[0].granted == pytest.approx(2.0)
    assert outcome.results[0].mode is ClaimMode.APPROXIMATE


def test_without_counts_and_average_the_first_system_decides() -> None:
    assert grant("counted", [facts()]).results[0].granted == grant("benchmark", [facts()]).results[0].granted


def test_a_replica_that_counted_decides_for_one_that_did_not() -> None:
    outcome = grant("counted", [facts(1), facts(2, fpops_counted=8 * PER_CREDIT)])
    assert [result.granted for result in outcome.results] == pytest.approx([8.0, 8.0])


def test_a_counting_project_publishes_its_average_per_cpu_second() -> None:
    counted = AppIncrement(benchmark_credit=400.0, counted_credit=100.0, cpu_seconds=20_000.0, jobs=100)
    assert credit_per_cpu_second(app_after(AppStatistics(), counted)) == pytest.approx(0.02)
    assert credit_per_cpu_second(AppStatistics()) == 0.0
    few = replace(counted, jobs=99)
    assert credit_per_cpu_second(app_after(AppStatistics(), few)) == 0.0
    assert credit_per_cpu_second(app_after(AppStatistics(), replace(counted, cpu_seconds=0.0))) == 0.0


def test_sums_that_say_nothing_leave_the_scale() -> None:
    known = AppStatistics(flops_scale=3.0)
    for counted in (AppIncrement(benchmark_credit=5.0, jobs=200), AppIncrement(counted_credit=5.0, jobs=200)):
        assert app_after(known, counted).flops_scale == 3.0


def test_only_jobs_that_counted_and_that_the_first_system_pays_enter_the_scale() -> None:
    usual = facts(1, fpops_counted=PER_CREDIT)
    others = [facts(2), facts(3, fpops_counted=1e12, p_fpops=0.0), facts(4, fpops_counted=1e12, outlier=True)]
    alone, together = (grant("counted", inputs).increments.app for inputs in ([usual], [usual, *others]))
    assert alone is not None
    assert alone == together
    assert (alone.jobs, alone.cpu_seconds) == (1, 900.0)
    assert alone.benchmark_credit == pytest.approx(900.0 * 2e9 / PER_CREDIT)
    assert alone.counted_credit == pytest.approx(1.0)
    assert grant("counted", others[:1]).increments.app is None


def test_under_the_smallest_count_a_liar_lowers_nobodys_scale() -> None:
    honest, liar = facts(1, fpops_counted=PER_CREDIT), facts(2, fpops_counted=10 * PER_CREDIT)
    learned = grant("counted:minimum", [honest, liar]).increments.app
    assert learned is not None
    assert learned.counted_credit == pytest.approx(2.0)
    plain = grant("counted", [honest, liar]).increments.app
    assert plain is not None
    assert plain.counted_credit == pytest.approx(11.0)  # what the two are paid


def test_operations_are_reported_as_a_sum_or_as_a_rate() -> None:
    assert counted_operations(cumulative=5e9, per_cpu_second=1.0, cpu_time=10.0) == 5e9
    assert counted_operations(cumulative=0.0, per_cpu_second=1e9, cpu_time=10.0) == 1e10


# ------------------------------------------------------------------------------ third system, as designed


def test_the_design_without_statistics_pays_the_peak_flop_count() -> None:
    outcome = grant("creditnew-designed", [claiming(10.0, 1), claiming(20.0, 2)])
    assert [result.granted for result in outcome.results] == pytest.approx([15.0, 15.0])


def test_the_design_scales_by_version_and_host() -> None:
    known = statistics(500, 2.0, scale=0.5)
    outcome = grant("creditnew-designed", [claiming(10.0, host_version=host(10, 1.0))], known)
    # version scale 0.5, host scale 2.0 / 1.0
    assert outcome.results[0].granted == pytest.approx(10.0)
    assert grant("creditnew-designed", [claiming(10.0)], known).results[0].granted == pytest.approx(5.0)


@pytest.mark.parametrize(
    ("record", "n", "checks", "said"),
    [
        (host(9, 1.0), 100, False, "1.0 (not known yet: fewer than 10 samples of this host)"),
        (host(10, 1.0), 99, False, "1.0 (not known yet: fewer than 100 samples of the version)"),
        (host(10, 1.0, scale_probation=True), 100, True, "1.0 (not known yet: this host is not proven)"),
        (host(10, 0.0), 100, False, "1.0 (not known yet: an average is 0)"),
        (host(10, 2.0, scale_probation=False, consecutive_valid=10), 100, True, "0.5"),
    ],
)
@pytest.mark.parametrize("system", ["creditnew-designed", "creditnew-deployed"])
def test_an_explanation_says_why_a_scale_is_not_known_yet(
    system: str, record: HostVersionStatistics, n: int, checks: bool, said: str
) -> None:
    known = statistics(n, 1.0, host_scale_check=checks)
    text = grant(system, [facts(host_version=record)], known).results[0].reasons[0].text()
    assert "version scale 1.0 (not known yet: versions need 100 samples) x" in text
    assert f"x host scale {said}" in text
    scaled = statistics(n, 1.0, scale=0.7, host_scale_check=checks)
    text = grant(system, [facts(host_version=record)], scaled).results[0].reasons[0].text()
    assert "version scale 0.7 x host" in text


def test_a_host_scale_of_the_design_is_at_most_ten() -> None:
    outcome = grant("creditnew-designed", [claiming(1.0, host_version=host(10, 0.01))], statistics(500, 2.0))
    assert outcome.results[0].granted == pytest.approx(10.0)


@pytest.mark.parametrize(
    ("host_samples", "version_samples", "expected"), [(9, 500, 10.0), (10, 99, 10.0), (10, 100, 20.0)]
)
def test_host_scales_of_the_design_need_samples(
    host_samples: int, version_samples: int, expected: float
) -> None:
    result = claiming(10.0, host_version=host(host_samples, 1.0))
    outcome = grant("creditnew-designed", [result], statistics(version_samples, 2.0))
    assert outcome.results[0].granted == pytest.approx(expected)


def test_a_count_beyond_the_bound_claims_the_default_and_is_looked_at_no_further() -> None:
    cheat = facts(peak_flops=1e16, elapsed_time=1000.0)
    outcome = grant("creditnew-designed", [cheat], statistics(500, 1.0, min_avg_pfc=2.0))
    assert outcome.results[0].granted == pytest.approx(2 * ESTIMATE / PER_CREDIT)
    assert codes(outcome)[:2] == ["beyond_bound", "default_pfc"]
    (increment,) = outcome.increments.host_versions
    assert increment.on_probation
    assert (increment.pfc, outcome.increments.versions) == ((), ())


def test_the_default_is_the_bare_estimate_while_the_app_has_no_average() -> None:
    cheat = facts(peak_flops=1e16, elapsed_time=1000.0)
    outcome = grant("creditnew-designed", [cheat], statistics(min_avg_pfc=0.0))
    assert outcome.results[0].granted == pytest.approx(ESTIMATE / PER_CREDIT)


def test_a_one_time_cheat_gets_the_default_and_puts_the_host_on_probation() -> None:
    known = statistics(100, 1.0)
    honest = facts(1, elapsed_time=1000.0, peak_flops=1e10)  # PFC = estimate
    cheat = facts(2, elapsed_time=1000.0, peak_flops=2.1e11)  # 21 x the version's mean
    outcome = grant("creditnew-designed", [honest, cheat], known)
    assert outcome.results[1].mode is ClaimMode.APPROXIMATE
    assert [result.granted for result in outcome.results] == pytest.approx([ESTIMATE / PER_CREDIT] * 2)
    assert [increment.on_probation for increment in outcome.increments.host_versions] == [False, True]


@pytest.mark.parametrize(
    ("mean", "multiple", "mode"),
    [
        (1.0, 20.0, ClaimMode.NORMAL),
        (2.0, 39.0, ClaimMode.NORMAL),
        (2.0, 41.0, ClaimMode.APPROXIMATE),
        (0.5, 11.0, ClaimMode.APPROXIMATE),
    ],
)
def test_a_cheat_begins_beyond_twenty_times_the_mean(mean: float, multiple: float, mode: ClaimMode) -> None:
    outcome = grant("creditnew-designed", [facts(peak_flops=multiple * 1e10)], statistics(100, mean))
    assert outcome.results[0].mode is mode


def test_an_anonymous_platform_claims_the_app_average_in_the_design() -> None:
    own_build = claiming(50.0, 1, platform=PlatformKind.ANONYMOUS, host_version=host(100, 1.0))
    known = statistics(min_avg_pfc=3.0)
    assert grant("creditnew-designed", [own_build], known).results[0].granted == pytest.approx(
        3 * ESTIMATE / PER_CREDIT
    )
    mixed = grant("creditnew-designed", [own_build, claiming(12.0, 2)], known)
    assert [result.granted for result in mixed.results] == pytest.approx([12.0, 12.0])


def test_probation_counts_only_for_apps_that_ask_for_it() -> None:
    record = host(50, 0.5, scale_probation=True, host_scale_time=NOW + 1.0)
    inputs = [claiming(10.0, 1, host_version=record), claiming(16.0, 2)]
    trusting = grant("creditnew-designed", inputs, statistics(500, 1.0))
    assert trusting.results[0].granted == pytest.approx((20.0 + 16.0) / 2)
    proven = host(50, 1.0, scale_probation=False)
    careful = [inputs[0], claiming(16.0, 2, host_version=proven)]
    outcome = grant("creditnew-designed", careful, statistics(500, 1.0, host_scale_check=True))
    assert outcome.results[0].granted == pytest.approx(16.0)
    assert outcome.results[0].claimed == pytest.approx(10.0)


def test_without_a_reliable_claim_the_design_grants_the_default() -> None:
    record = host(50, 0.5, scale_probation=True)
    known = statistics(500, 1.0, host_scale_check=True, min_avg_pfc=4.0)
    outcome = grant("creditnew-designed", [claiming(10.0, host_version=record)], known)
    assert outcome.results[0].granted == pytest.approx(4 * ESTIMATE / PER_CREDIT)


def test_no_speed_claims_the_default() -> None:
    outcome = grant("creditnew-designed", [facts(peak_flops=0.0)])
    assert outcome.results[0].granted == pytest.approx(ESTIMATE / PER_CREDIT)


# ------------------------------------------------------------------------------ third system, as deployed

SCALED = statistics(500, 2.0, scale=0.5)


def test_the_code_scales_by_version_and_host() -> None:
    outcome = grant("creditnew-deployed", [claiming(10.0, host_version=host(10, 1.0))], SCALED)
    assert outcome.results[0].granted == pytest.approx(10.0)
    assert outcome.results[0].mode is ClaimMode.NORMAL


@pytest.mark.parametrize(
    ("known", "record", "expected"),
    [
        (SCALED, host(9, 1.0), 5.0),
        (statistics(500, 2.0), host(10, 1.0), 20.0),
        (statistics(99, 2.0, scale=0.5), host(10, 1.0), 5.0),
        (statistics(100, 2.0), host(10, 1.0), 20.0),
        (statistics(500, 2.0), host(10, 0.01), 100.0),
    ],
)
def test_a_missing_scale_makes_a_claim_approximate(
    known: Statistics, record: object, expected: float
) -> None:
    outcome = grant("creditnew-deployed", [claiming(10.0, host_version=record)], known)
    assert outcome.results[0].claimed == pytest.approx(expected)
    assert outcome.results[0].mode is ClaimMode.APPROXIMATE


@pytest.mark.parametrize(("valid", "expected"), [(9, 5.0), (10, 10.0)])
def test_an_app_may_ask_for_ten_valid_results_in_a_row(valid: int, expected: float) -> None:
    known = statistics(500, 2.0, scale=0.5, host_scale_check=True)
    result = claiming(10.0, host_version=host(10, 1.0, consecutive_valid=valid))
    assert grant("creditnew-deployed", [result], known).results[0].claimed == pytest.approx(expected)


@pytest.mark.parametrize("speed", [1e9, 0.0])
def test_a_failed_benchmark_counts_as_4_3_gigaflops_and_teaches_run_times_only(speed: float) -> None:
    outcome = grant("creditnew-deployed", [facts(peak_flops=speed, elapsed_time=3600.0)])
    assert outcome.results[0].granted == pytest.approx(35.8333, abs=5e-5)
    assert codes(outcome)[0] == "speed_substituted"
    assert [(each.pfc, len(each.elapsed)) for each in outcome.increments.host_versions] == [((), 1)]
    assert outcome.increments.versions == ()


def test_cpu_time_stands_in_for_elapsed_time_of_old_clients() -> None:
    outcome = grant("creditnew-deployed", [facts(elapsed_time=0.0, cpu_time=864.0, peak_flops=1.1e9)])
    assert outcome.results[0].granted == pytest.approx(2.2)


def test_cpu_time_of_many_processors_is_no_run_time() -> None:
    result = facts(elapsed_time=0.0, cpu_time=4 * 4000.0, peak_flops=1.1e9)
    outcome = grant("creditnew-deployed", [result])
    assert outcome.results[0].granted == pytest.approx(4990.0 * 1.1e9 / PER_CREDIT)


def test_a_lost_record_claims_the_estimate() -> None:
    outcome = grant("creditnew-deployed", [claiming(9.0, host_version=None)], statistics(min_avg_pfc=2.0))
    assert outcome.results[0].granted == pytest.approx(2 * ESTIMATE / PER_CREDIT)
    assert outcome.results[0].mode is ClaimMode.ESTIMATE


def test_an_anonymous_platform_is_scaled_by_its_own_average_after_ten_samples() -> None:
    known = statistics(min_avg_pfc=3.0)
    new = claiming(9.0, platform=PlatformKind.ANONYMOUS, host_version=host(9, 1.5))
    old = claiming(9.0, platform=PlatformKind.ANONYMOUS, host_version=host(10, 1.5))
    assert grant("creditnew-deployed", [new], known).results[0].granted == pytest.approx(
        3 * ESTIMATE / PER_CREDIT
    )
    outcome = grant("creditnew-deployed", [old], known)
    assert outcome.results[0].granted == pytest.approx(18.0)
    assert outcome.results[0].mode is ClaimMode.APPROXIMATE
    assert outcome.increments.versions == ()


def peg_at(credit: float) -> Statistics:
    """Statistics whose estimate for the usual job is worth ``credit``; scales that change nothing."""
    return statistics(500, 1.0, scale=1.0, min_avg_pfc=credit * PER_CREDIT / ESTIMATE)


def normal(credit: float, number: int) -> ClaimInput:
    return claiming(credit, number, host_version=host(10, 1.0))


@pytest.mark.parametrize(
    ("normal_claims", "approximate", "peg", "expected"),
    [
        ((90.0, 300.0), (), 100.0, 108.2609),
        ((90.0, 300.0), (1.0,), 100.0, 108.2609),  # two normal: nothing else counts
        ((60.0,), (30.0,), 40.0, 46.1538),  # one normal: twice among the others
        ((), (30.0, 60.0, 60.0), 40.0, 46.1538),
        ((77.0,), (), 100.0, 77.0),
        ((), (77.0,), 100.0, 77.0),
    ],
)
def test_the_code_combines_claims_around_the_estimate(
    normal_claims: tuple[float, ...], approximate: tuple[float, ...], peg: float, expected: float
) -> None:
    inputs = [normal(credit, number) for number, credit in enumerate(normal_claims, start=1)]
    inputs += [claiming(credit, number) for number, credit in enumerate(approximate, start=11)]
    outcome = grant("creditnew-deployed", inputs, peg_at(peg))
    for result in outcome.results:
        assert result.granted == pytest.approx(expected, abs=5e-5)


def test_a_count_beyond_the_bound_is_clamped_to_it() -> None:
    outcome = grant("creditnew-deployed", [facts(peak_flops=1e16, elapsed_time=1000.0)])
    assert outcome.results[0].granted == pytest.approx(1e16 / PER_CREDIT)
    assert "beyond_bound" in codes(outcome)


def test_a_claim_beyond_the_limit_of_a_grant_does_not_count() -> None:
    inputs = [normal(30.0, 1), normal(10_000.0, 2)]
    outcome = grant("creditnew-deployed", inputs, peg_at(20.0), max_granted=1000.0)
    assert outcome.results[1].mode is ClaimMode.REFUSED
    assert [result.granted for result in outcome.results] == pytest.approx([30.0, 30.0])
    alone = grant("creditnew-deployed", inputs[1:], peg_at(20.0), max_granted=1000.0)
    assert alone.results[0].granted == pytest.approx(20.0)


def test_a_claim_of_exactly_the_limit_counts() -> None:
    limit = grant("creditnew-deployed", [claiming(10.0)]).results[0].claimed
    assert grant("creditnew-deployed", [claiming(10.0)], max_granted=limit).results[0].granted == limit


@pytest.mark.parametrize(("sent", "received"), [(0.0, NOW), (NOW - 50.0, 0.0), (0.0, 0.0)])
def test_without_both_times_no_turnaround_is_learned_and_cpu_time_is_not_bounded(
    sent: float, received: float
) -> None:
    result = facts(sent_time=sent, received_time=received, elapsed_time=0.0, cpu_time=8640.0, peak_flops=2e9)
    outcome = grant("creditnew-deployed", [result])
    assert outcome.results[0].granted == pytest.approx(40.0)
    (record,) = outcome.increments.host_versions
    assert (record.turnaround, len(record.elapsed)) == ((), 1)


def test_a_microsecond_is_a_run_time() -> None:
    outcome = grant("creditnew-deployed", [facts(elapsed_time=1e-6, cpu_time=0.0, peak_flops=1e15)])
    assert outcome.results[0].claimed == pytest.approx(1e9 / PER_CREDIT)


def test_samples_outside_of_four_orders_of_magnitude_teach_no_scale() -> None:
    tiny = facts(1, elapsed_time=1.0, peak_flops=0.9e9)  # ratio 0.9e-4
    small = facts(2, elapsed_time=1.0, peak_flops=1.1e9)
    outcome = grant("creditnew-deployed", [tiny, small])
    assert [increment.pfc for increment in outcome.increments.host_versions] == [(), (pytest.approx(1.1e-4),)]
    assert [increment.pfc for increment in outcome.increments.versions] == [(pytest.approx(1.1e-4),)]
    assert all(increment.elapsed == (1e-13,) for increment in outcome.increments.host_versions)


def test_what_is_learned_from_a_result() -> None:
    outcome = grant("creditnew-deployed", [facts(elapsed_time=1000.0, peak_flops=1e10)])
    (record,) = outcome.increments.host_versions
    assert (record.pfc, record.elapsed, record.turnaround) == ((1.0,), (1e-10,), (4990.0,))


def test_an_outlier_of_the_validator_is_credited_but_teaches_nothing() -> None:
    outcome = grant("creditnew-deployed", [claiming(9.0, outlier=True)])
    assert outcome.results[0].granted == pytest.approx(9.0)
    assert outcome.increments.host_versions == ()
    assert outcome.increments.versions == ()


@pytest.mark.parametrize("system", ["benchmark", "counted", "fixed", "runtime", "assigned", "none"])
def test_every_system_learns_run_times(system: str) -> None:
    (record,) = grant(system, [facts()]).increments.host_versions
    assert record.elapsed == (1e-10,)


# ----------------------------------------------------------------------- fixed, run time, assigned, none


def test_a_fixed_amount_is_granted_to_all() -> None:
    workunit = replace(WORKUNIT, fixed_credit=12.5)
    outcome = grant("fixed", [facts(1), facts(2)], workunit=workunit)
    assert [result.granted for result in outcome.results] == [12.5, 12.5]


def test_a_job_without_a_fixed_amount_gets_nothing_and_says_so() -> None:
    outcome = grant("fixed", [facts()])
    assert outcome.results[0].granted == 0.0
    assert "no_fixed_credit" in codes(outcome)


def test_run_time_credit_is_a_low_average() -> None:
    inputs = [claiming(100.0, 1), claiming(100.0, 2), claiming(1000.0, 3)]
    roomy = replace(WORKUNIT, rsc_fpops_bound=1e19)
    outcome = grant("runtime", inputs, workunit=roomy)
    assert outcome.results[0].granted == pytest.approx(175.0)


@pytest.mark.parametrize(("multiple", "counted"), [(1.9, 1.9), (2.1, 1.0)])
def test_run_time_credit_beyond_twice_the_bound_counts_as_the_bound(multiple: float, counted: float) -> None:
    workunit = replace(WORKUNIT, rsc_fpops_bound=1e13)
    result = facts(elapsed_time=1000.0, peak_flops=multiple * 1e10)
    outcome = grant("runtime", [result], workunit=workunit)
    assert outcome.results[0].granted == pytest.approx(counted * 1e13 / PER_CREDIT)


def test_run_time_credit_substitutes_the_speed_of_a_failed_benchmark() -> None:
    outcome = grant("runtime", [facts(peak_flops=1e9, elapsed_time=3600.0)])
    assert outcome.results[0].granted == pytest.approx(35.8333, abs=5e-5)


def test_run_time_claims_of_nothing_or_too_much_have_no_say_beside_others() -> None:
    inputs = [claiming(5.0, 1), claiming(50.0, 2), facts(3, elapsed_time=0.0, cpu_time=0.0)]
    outcome = grant("runtime", inputs, max_granted=20.0)
    assert [result.granted for result in outcome.results] == pytest.approx([5.0, 5.0, 5.0])


def test_the_amount_assigned_to_the_canonical_result_is_granted_to_all() -> None:
    inputs = [facts(1, claimed_credit=3.0), facts(2, claimed_credit=8.0, canonical=True)]
    outcome = grant("assigned", inputs)
    assert [result.granted for result in outcome.results] == [8.0, 8.0]
    assert not outcome.pending


def test_credit_after_assimilation_is_pending_at_validation() -> None:
    assert grant("after-assimilation", [facts(canonical=True)]).pending


@pytest.mark.parametrize("system", ["none", "trickle"])
def test_no_credit_at_validation(system: str) -> None:
    outcome = grant(system, [facts(trickle_credit=3.0)])
    assert outcome.results[0].granted == 0.0


# ------------------------------------------------------------------------------------------------ registry


def test_every_name_leads_to_a_system_of_that_name() -> None:
    names = credit_system_names()
    assert {"benchmark", "counted", "creditnew-designed", "creditnew-deployed", "fixed"} <= set(names)
    assert [credit_system(name).name for name in names] == list(names)


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"'gold'.*known are .*benchmark"):
        credit_system("gold")


def test_every_system_survives_a_workunit_without_results() -> None:
    for name in credit_system_names():
        outcome = grant(name, [])
        assert (outcome.results, outcome.canonical_credit) == ((), 0.0)


def test_statistics_of_a_first_result_are_empty() -> None:
    assert facts().host_version is not None
    assert host().pfc == RunningAverage()
    assert math.isclose(PER_CREDIT * 200.0, 86400e9)
