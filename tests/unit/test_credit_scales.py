"""Version scales, probation and partial credit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest

from cobblestone.domain.hosts import HostVersionStatistics
from cobblestone.domain.statistics import RunningAverage
from cobblestone.domain.values import AppVersionId, HostId
from cobblestone.policy.credit.book import TrickleFacts, TrickleRules, grant_trickle
from cobblestone.policy.credit.claims import DESIGNED, HostVersionIncrement
from cobblestone.policy.credit.credit_new import inherited_version
from cobblestone.policy.credit.host_records import (
    after_failure,
    after_invalid,
    after_sending,
    after_valid,
    host_version_after,
)
from cobblestone.policy.credit.scales import VersionRecord, VersionScales, deployed_scales, designed_scales

NOW = 1_700_000_000.0
Scaling = Callable[[Sequence[VersionRecord]], VersionScales]


def version(number: int, n: int, mean: float, *, gpu: bool = False, plan_class: str = "") -> VersionRecord:
    return VersionRecord(
        app_version_id=AppVersionId(number), is_gpu=gpu, plan_class=plan_class, pfc=RunningAverage(n, mean)
    )


# -------------------------------------------------------------------------------------------- both ways


@pytest.mark.parametrize("scale", [deployed_scales, designed_scales])
def test_cpu_and_gpu_versions_are_scaled_to_the_smaller_mean(scale: Scaling) -> None:
    versions = [version(1, 300, 2.0), version(2, 100, 6.0), version(3, 200, 30.0, gpu=True)]
    found = scale(versions)
    if scale is deployed_scales:  # 100 samples are not enough to join the mean, but to be scaled
        assert found.min_avg_pfc == pytest.approx(2.0)
        assert found.scales == pytest.approx({1: 1.0, 2: 1.0 / 3.0, 3: 2.0 / 30.0})
    else:
        assert found.min_avg_pfc == pytest.approx(3.0)
        assert found.scales == pytest.approx({1: 1.5, 2: 0.5, 3: 0.1})


@pytest.mark.parametrize("scale", [deployed_scales, designed_scales])
def test_two_cpu_versions_are_made_equal(scale: Scaling) -> None:
    found = scale([version(1, 101, 2.0), version(2, 303, 4.0), version(3, 50, 9.0)])
    assert found.min_avg_pfc == pytest.approx(3.5)
    assert found.scales == pytest.approx({1: 1.75, 2: 0.875})


@pytest.mark.parametrize("scale", [deployed_scales, designed_scales])
@pytest.mark.parametrize(
    "versions", [[], [version(1, 5000, 2.0)], [version(1, 99, 2.0), version(2, 99, 3.0)]]
)
def test_one_cpu_version_is_never_scaled(scale: Scaling, versions: list[VersionRecord]) -> None:
    found = scale(versions)
    assert (dict(found.scales), found.min_avg_pfc) == ({}, None)


def test_the_code_cuts_gpu_only_apps_to_a_tenth() -> None:
    found = deployed_scales([version(1, 200, 50.0, gpu=True)])
    assert found.min_avg_pfc == pytest.approx(5.0)
    assert found.scales == pytest.approx({1: 0.1})


def test_the_code_takes_a_gpu_version_alone_while_the_cpu_version_has_too_few_samples() -> None:
    found = deployed_scales([version(1, 50, 2.0), version(2, 200, 50.0, gpu=True)])
    assert found.scales == pytest.approx({2: 0.1})
    assert designed_scales([version(1, 50, 2.0), version(2, 200, 50.0, gpu=True)]).scales == {}


def test_the_design_takes_scales_of_gpu_only_apps_from_other_projects() -> None:
    versions = [version(1, 200, 50.0, gpu=True, plan_class="cuda"), version(2, 5, 40.0, gpu=True)]
    found = designed_scales(versions, published={"cuda": 0.03, "ati": 0.02})
    assert found.scales == {1: 0.03}
    assert found.min_avg_pfc == pytest.approx(1.5)


def test_the_design_makes_two_gpu_versions_equal_when_nobody_publishes_a_scale() -> None:
    found = designed_scales([version(1, 100, 10.0, gpu=True), version(2, 100, 30.0, gpu=True)])
    assert found.scales == pytest.approx({1: 2.0, 2: 2.0 / 3.0})
    assert designed_scales([version(1, 200, 50.0, gpu=True)]).scales == {}


def test_a_version_whose_mean_is_zero_is_left_alone() -> None:
    assert deployed_scales([version(1, 200, 0.0), version(2, 200, 2.0)]).scales == {}


def test_a_new_version_takes_over_the_record_of_the_highest_number() -> None:
    records = [(AppVersionId(3), 110), (AppVersionId(9), 107), (AppVersionId(4), 120)]
    assert inherited_version(records) == 4
    assert inherited_version([]) is None


# ------------------------------------------------------------------------------------------- probation


def test_a_host_leaves_probation_by_a_valid_result_a_whole_delay_bound_after_a_job_was_sent() -> None:
    record = after_sending(HostVersionStatistics(), delay_bound=1000.0, now=NOW)
    assert record.host_scale_time == NOW + 1000.0
    early = after_valid(record, now=NOW + 999.0)
    assert early.scale_probation
    late = after_valid(record, now=NOW + 1000.0)
    assert not late.scale_probation
    assert after_sending(late, delay_bound=1000.0, now=NOW + 2000.0) == late


def test_a_lost_job_puts_a_host_on_probation_again() -> None:
    proven = HostVersionStatistics(scale_probation=False, consecutive_valid=50)
    lost = after_failure(proven, delay_bound=1000.0, now=NOW)
    assert lost.scale_probation
    assert (lost.host_scale_time, lost.consecutive_valid) == (NOW + 1000.0, 0)


def test_the_error_rate_is_an_average_in_which_each_result_weighs_a_twentieth() -> None:
    record = HostVersionStatistics(error_rate=0.2)
    assert after_valid(record, now=NOW).error_rate == pytest.approx(0.19)
    assert after_invalid(record).error_rate == pytest.approx(0.24)
    assert after_invalid(HostVersionStatistics(error_rate=math.nan)).error_rate == pytest.approx(0.145)


def test_valid_results_in_a_row_are_counted_for_replicated_jobs_only() -> None:
    record = HostVersionStatistics(consecutive_valid=4)
    assert after_valid(record, now=NOW).consecutive_valid == 5
    assert after_valid(record, replicated=False, now=NOW) == record
    assert after_invalid(record).consecutive_valid == 0


def test_suspicion_brings_error_rate_and_probation_back_to_the_beginning() -> None:
    proven = HostVersionStatistics(scale_probation=False, error_rate=0.001)
    increment = HostVersionIncrement(host_id=HostId(1), app_version_id=AppVersionId(1), on_probation=True)
    suspected = host_version_after(proven, increment)
    assert (suspected.scale_probation, suspected.error_rate) == (True, 0.1)


# -------------------------------------------------------------------------------------- partial credit


def message(**changes: object) -> TrickleFacts:
    usual: dict[str, object] = {
        "run_time": 3600.0,
        "p_fpops": 2e9,
        "in_progress": True,
        "sent_time": NOW - 10_000.0,
    }
    return TrickleFacts(**(usual | changes))  # type: ignore[arg-type]  # fields by name


RULES = TrickleRules(max_run_time=4000.0, median_speed=3e9, percentile_95_speed=9e9)


@pytest.mark.parametrize(
    ("changes", "seconds", "speed"),
    [
        ({}, 3600.0, 2e9),
        ({"run_time": 5000.0}, 4000.0, 2e9),
        ({"p_fpops": 5e10}, 3600.0, 9e9),
        ({"p_fpops": -1.0}, 3600.0, 3e9),
        ({"p_fpops": math.nan}, 3600.0, 3e9),
        ({"credited_run_time": 9000.0}, 1000.0, 2e9),
        ({"credited_run_time": 20_000.0}, 0.0, 2e9),
        ({"sent_time": NOW + 5.0}, 0.0, 2e9),
        ({"in_progress": False}, 0.0, 2e9),
        ({"run_time": math.nan}, 0.0, 2e9),
        ({"run_time": -3.0}, 0.0, 2e9),
        ({"run_time": 1e304}, 4000.0, 2e9),
    ],
)
def test_partial_credit_is_bounded_run_time_by_bounded_speed(
    changes: dict[str, object], seconds: float, speed: float
) -> None:
    granted = grant_trickle(message(**changes), RULES, now=NOW)
    assert granted.run_time == seconds
    assert granted.amount == pytest.approx(seconds * speed * 200 / 86400e9)
    assert granted.work_start == NOW - 86400.0
    assert granted.reasons


def test_partial_credit_comes_in_the_unit_of_the_project() -> None:
    full, half = (
        grant_trickle(message(), RULES, now=NOW),
        grant_trickle(message(), RULES, unit=DESIGNED, now=NOW),
    )
    assert half.amount == pytest.approx(full.amount / 2)
