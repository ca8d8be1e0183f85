"""Event logs small enough to be worked out by hand, with every branch of every credit system.

Figures are chosen so that they can be checked without a machine: a job is estimated at 4.32e13 operations, which is 100 credits
at 200 per GFLOPS-day, and a processor of 4.32e10 FLOPS earns one credit in 10 s, so 1000 s are just the estimate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.helpers.job_logs import (
    ERROR,
    INVALID,
    MODES,
    SENT,
    TRICKLE,
    Replay,
    ReplayOptions,
    job_log,
    replay,
)

from cobblestone.policy.credit.claims import DESIGNED
from cobblestone.policy.credit.registry import credit_system

CREDIT = 4.32e11  # operations that are worth one credit
SPEED = 4.32e10
NOW = 1_700_000_000.0
DEPLOYED_CREDITNEW = "creditnew-deployed"
DESIGNED_CREDITNEW = "creditnew-designed"


@dataclass
class Log:
    """An event log in the making; time stands still unless it is told to go on."""

    lines: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    now: float = NOW
    workunits: int = 0

    def add(self, **line: Any) -> None:
        usual = {
            "workunit_id": self.workunits,
            "host_id": 1,
            "outcome": 0,
            "result_id": len(self.lines) + 1,
            "app_version_id": 1,
            "anonymous": 0,
            "is_gpu": 0,
            "canonical": 0,
            "straggler": 0,
            "time": self.now,
            "elapsed_time": 1000.0,
            "cpu_time": 1000.0,
            "sent_time": self.now - 1e6,
            "received_time": self.now,
            "peak_flops": SPEED,
            "ncpus": 1.0,
            "p_fpops": SPEED,
            "p_iops": SPEED,
            "fpops_counted": 0.0,
            "intops_counted": 0.0,
            "trickle_credit": 0.0,
            "claimed_credit": 0.0,
            "rsc_fpops_est": 100 * CREDIT,
            "rsc_fpops_bound": 1e6 * CREDIT,
            "fixed_credit": 0.0,
            "delay_bound": 86400.0,
        }
        assert set(line) <= set(usual), line
        self.lines.append(usual | line)

    def job(self, *results: dict[str, Any]) -> None:
        """A workunit: ``results`` were judged together, each on its own host unless it says otherwise."""
        self.workunits += 1
        for number, result in enumerate(results, start=1):
            self.add(**({"host_id": number} | result))

    def jobs(self, n: int, **result: Any) -> None:
        for _ in range(n):
            self.job(result)

    def scales(self) -> None:
        """Ten minutes pass, so the next line finds new scales of versions."""
        self.now += 601.0

    def run(self, system: str, **options: Any) -> Replay:
        """Replay by the policy."""
        log = job_log({name: [line[name] for line in self.lines] for name in self.lines[0]})
        return replay(log, credit_system(system), ReplayOptions(**options))


def last(values: Sequence[float], n: int) -> list[float]:
    return list(values)[-n:]


def seconds(credit: float) -> dict[str, Any]:
    """A run time that is worth so much by peak speed."""
    return {"elapsed_time": 10.0 * credit}


def modes(found: Replay, n: int) -> list[str]:
    return [MODES[int(mode)].value for mode in last(found.modes, n)]


# ------------------------------------------------------------------------------------------ first system


@pytest.mark.parametrize(
    ("system", "expected"),
    [
        ("benchmark", (60 + 90 + 150 + 300) / 4),
        ("benchmark:mean", 150.0),
        ("benchmark:minimum", 60.0),
        ("benchmark:drop-extremes", (90 + 150) / 2),
        ("benchmark-both", 2 * 150.0),  # Dhrystone three times Whetstone: their mean is twice it
    ],
)
def test_first_system(system: str, expected: float) -> None:
    log = Log()
    log.job(*({"cpu_time": 10 * credit, "p_iops": 3 * SPEED} for credit in (150, 60, 300, 90)))
    assert last(log.run(system).granted, 4) == pytest.approx([expected] * 4)


def test_first_system_of_two_claims_drops_the_higher_and_takes_run_time_without_cpu_time() -> None:
    log = Log()
    log.job({"cpu_time": 0.0, "elapsed_time": 700.0}, {"cpu_time": 500.0})
    found = log.run("benchmark:drop-extremes")
    assert list(found.claimed) == pytest.approx([70.0, 50.0])
    assert list(found.granted) == pytest.approx([50.0, 50.0])


def test_a_straggler_gets_what_the_canonical_result_got_and_a_wrong_one_nothing() -> None:
    log = Log()
    log.job({"cpu_time": 500.0}, {"cpu_time": 700.0, "outcome": INVALID}, {"cpu_time": 900.0})
    log.add(workunit_id=1, host_id=4, straggler=1, cpu_time=5000.0)
    log.add(workunit_id=1, host_id=5, straggler=1, outcome=INVALID)
    found = log.run("benchmark")
    assert list(found.claimed) == pytest.approx([50, 0, 90, 500, 0])
    assert list(found.granted) == pytest.approx([70, 0, 70, 70, 0])


# ----------------------------------------------------------------------------------------- second system


def test_second_system_scales_counts_to_the_first_after_a_hundred_jobs() -> None:
    log = Log()
    # the first system gives 100 for 1000 s; the program counts operations worth 40
    log.jobs(100, fpops_counted=40 * CREDIT, intops_counted=30 * CREDIT)
    log.job({"fpops_counted": 40 * CREDIT}, {"intops_counted": 60 * CREDIT, "host_id": 2})
    log.job({"fpops_counted": 1e9 * CREDIT, "rsc_fpops_bound": 200 * CREDIT})
    log.job({"cpu_time": 300.0})
    found = log.run("counted")
    assert list(found.granted)[:100] == pytest.approx([40.0] * 100)
    # scale 100 x 100 / (100 x 40) = 2.5; then (10000 + 200) / (4000 + 100)
    assert last(found.claimed, 4)[:2] == pytest.approx([100.0, 150.0])
    assert last(found.granted, 4)[:2] == pytest.approx([125.0, 125.0])
    scale = 10200 / 4100
    assert last(found.claimed, 2)[0] == pytest.approx(200 * scale)
    # nothing counted: (4100 + 200) x scale credits in (102 + 1) x 1000 s of CPU, for 300 s
    scale = 10300 / 4300
    assert last(found.granted, 1)[0] == pytest.approx(4300 * scale / 103_000 * 300)
    assert modes(found, 1) == ["approximate"]


def test_second_system_takes_a_published_average_and_else_the_first_system() -> None:
    log = Log()
    log.job({"cpu_time": 300.0})
    assert list(log.run("counted", credit_per_cpu_second=0.07).granted) == pytest.approx([21.0])
    assert list(log.run("counted").granted) == pytest.approx([30.0])


def test_second_system_lets_only_those_that_counted_decide() -> None:
    log = Log()
    log.job({"cpu_time": 300.0}, {"fpops_counted": 44 * CREDIT})
    assert list(log.run("counted").granted) == pytest.approx([44.0, 44.0])


# ---------------------------------------------------------------------------------- third, as deployed


@pytest.mark.parametrize(
    ("claims", "estimate", "expected"),
    [
        ((80, 120), 100, 100.0),
        ((90, 300), 100, 108.26086956521739),  # (90/20 + 300/210) / (1/20 + 1/210)
        ((30, 60, 60), 40, 46.15384615384615),  # (30/14 + 2 x 60/24) / (1/14 + 2/24)
        ((70,), 100, 70.0),
    ],
)
def test_deployed_without_scales_is_a_pegged_average(
    claims: tuple[float, ...], estimate: float, expected: float
) -> None:
    log = Log()
    log.job(*({**seconds(claim), "rsc_fpops_est": estimate * CREDIT} for claim in claims))
    found = log.run(DEPLOYED_CREDITNEW)
    assert list(found.granted) == pytest.approx([expected] * len(claims))
    assert set(modes(found, len(claims))) == {"approximate"}


@pytest.mark.parametrize("speed", [0.0, 1e9])
def test_deployed_takes_a_typical_speed_for_a_failed_benchmark_and_learns_nothing(speed: float) -> None:
    log = Log()
    log.job({"peak_flops": speed, "elapsed_time": 10_000.0})
    found = log.run(DEPLOYED_CREDITNEW)
    assert list(found.granted) == pytest.approx([10_000 * 4.3e9 / CREDIT])
    assert list(found.records.samples) == [0]


def test_deployed_clamps_to_the_bound_and_leaves_out_what_is_beyond_the_limit() -> None:
    log = Log()
    log.job({**seconds(500), "rsc_fpops_bound": 200 * CREDIT})
    assert list(log.run(DEPLOYED_CREDITNEW).granted) == pytest.approx([200.0])
    log = Log()
    log.job(seconds(100), seconds(400))
    found = log.run(DEPLOYED_CREDITNEW, max_granted=150.0)
    assert list(found.granted) == pytest.approx([100.0, 100.0])
    assert modes(found, 2) == ["approximate", "refused"]
    log = Log()
    log.job(seconds(400))  # nothing is left: the estimate
    assert list(log.run(DEPLOYED_CREDITNEW, max_granted=150.0).granted) == pytest.approx([100.0])


def two_versions() -> Log:
    """Versions 1 and 2 of one app with means 1 and 2 over 101 results each: both are scaled to 1.5.

    Hosts 1 and 2 have 10 results or more with the mean of their version.
    """
    log = Log()
    log.jobs(101, host_id=1, app_version_id=1, **seconds(100))
    log.jobs(101, host_id=2, app_version_id=2, **seconds(200))
    log.scales()
    return log


def test_deployed_scales_versions_to_their_mean() -> None:
    log = two_versions()
    log.job({"app_version_id": 1, **seconds(100)}, {"app_version_id": 2, **seconds(200)})
    found = log.run(DEPLOYED_CREDITNEW)
    assert found.version_scales == pytest.approx({1: 1.5, 2: 0.75})
    assert last(found.claimed, 2) == pytest.approx([150.0, 150.0])
    assert last(found.granted, 2) == pytest.approx([150.0, 150.0])
    assert modes(found, 2) == ["normal", "normal"]


def test_deployed_counts_a_single_normal_claim_twice() -> None:
    log = two_versions()
    log.job(seconds(100), {"host_id": 3, **seconds(60)})
    found = log.run(DEPLOYED_CREDITNEW)
    assert last(found.claimed, 2) == pytest.approx([150.0, 90.0])
    assert modes(found, 2) == ["normal", "approximate"]
    # around 150: (90 / 75 + 2 x 150 / 15) / (1 / 75 + 2 / 15)
    assert last(found.granted, 2) == pytest.approx([21.2 / (11 / 75)] * 2)


def test_deployed_lets_two_normal_claims_decide_alone() -> None:
    log = two_versions()
    log.jobs(10, host_id=3, **seconds(100))
    log.job(seconds(100), {"host_id": 3, **seconds(80)}, {"host_id": 4, **seconds(1000)})
    found = log.run(DEPLOYED_CREDITNEW)
    assert last(found.claimed, 3) == pytest.approx([150.0, 120.0, 1500.0])
    # around 150: (150 / 15 + 120 / 45) / (1 / 15 + 1 / 45)
    assert last(found.granted, 3) == pytest.approx([(10 + 120 / 45) / (4 / 45)] * 3)


def test_deployed_needs_ten_samples_for_a_host_scale_and_caps_it_at_ten() -> None:
    log = two_versions()
    log.jobs(9, host_id=3, **seconds(5))
    log.job({"host_id": 3, **seconds(5)})
    log.job({"host_id": 3, **seconds(5)})
    found = log.run(DEPLOYED_CREDITNEW)
    # the first ten without host scale: 5 x 1.5; then the version's mean / 0.05 would be nearly 20
    assert last(found.claimed, 2) == pytest.approx([7.5, 75.0])
    assert modes(found, 2) == ["approximate", "normal"]


def test_deployed_cuts_an_app_with_gpu_versions_only_to_a_tenth() -> None:
    log = Log()
    log.jobs(101, is_gpu=1)
    log.scales()
    log.jobs(1, is_gpu=1)
    found = log.run(DEPLOYED_CREDITNEW)
    assert found.version_scales == pytest.approx({1: 0.1})
    assert last(found.granted, 1) == pytest.approx([10.0])


def test_deployed_leaves_an_app_with_one_cpu_version_alone() -> None:
    log = Log()
    log.jobs(101)
    log.scales()
    log.jobs(1)
    found = log.run(DEPLOYED_CREDITNEW)
    assert (found.version_scales, last(found.granted, 1), modes(found, 1)) == ({}, [100.0], ["approximate"])


def test_deployed_scales_cpu_and_gpu_versions_to_the_more_efficient_kind() -> None:
    log = Log()
    log.jobs(101, host_id=1, app_version_id=1)
    log.jobs(101, host_id=2, app_version_id=2, is_gpu=1, **seconds(400))
    log.jobs(100, host_id=4, app_version_id=3, is_gpu=1, **seconds(50))  # scaled, but in no mean
    log.scales()
    log.job({}, {"app_version_id": 2, "is_gpu": 1, **seconds(400)})
    found = log.run(DEPLOYED_CREDITNEW)
    assert found.version_scales == pytest.approx({1: 1.0, 2: 0.25, 3: 2.0})
    assert last(found.granted, 2) == pytest.approx([100.0, 100.0])


def test_deployed_scales_anonymous_hosts_by_their_own_average() -> None:
    log = two_versions()
    mine = {"host_id": 3, "anonymous": 1, "app_version_id": 1_000_002, **seconds(250)}
    log.jobs(11, **mine)
    found = log.run(DEPLOYED_CREDITNEW)
    # ten times the estimate x 1.5; then 250 x 1.5 / 2.5 is the same, but follows the run time
    assert last(found.granted, 11) == pytest.approx([150.0] * 11)
    log.jobs(1, **{**mine, **seconds(500)})
    assert last(log.run(DEPLOYED_CREDITNEW).claimed, 1) == pytest.approx([300.0])
    assert modes(found, 1) == ["approximate"]


def test_deployed_with_host_scale_check_trusts_ten_valid_results_in_a_row() -> None:
    log = two_versions()
    log.jobs(9, host_id=3, **seconds(50))
    log.job({"host_id": 3, "outcome": INVALID})
    log.jobs(10, host_id=3, **seconds(50))
    log.jobs(1, host_id=3, **seconds(50))
    found = log.run(DEPLOYED_CREDITNEW, host_scale_check=True)
    assert last(found.claimed, 2)[0] == pytest.approx(75.0)  # without host scale
    assert last(found.claimed, 1)[0] == pytest.approx(75.0 * version_mean(19, 0.5) / 0.5)
    unchecked = log.run(DEPLOYED_CREDITNEW)
    assert last(unchecked.claimed, 2)[0] == pytest.approx(75.0 * version_mean(18, 0.5) / 0.5)


def version_mean(n: int, sample: float) -> float:
    """Mean of version 1 after ``n`` further samples, each weighing a thousandth, the second of 101 included."""
    return sample + (1.0 - sample) * 0.999**n


def test_an_average_is_straight_for_19_samples_and_cuts_a_large_one_to_ten_times_the_mean() -> None:
    log = Log()
    log.jobs(1, **seconds(200))
    log.jobs(1, **seconds(400))
    log.jobs(1, **seconds(10_000))
    assert list(log.run(DEPLOYED_CREDITNEW).records.means) == pytest.approx([12.0])  # (2 + 4 + 30) / 3
    log.jobs(16, **seconds(1200))
    log.jobs(1, **seconds(2200))
    assert list(log.run(DEPLOYED_CREDITNEW).records.means) == pytest.approx([12.0 + 0.01 * 10.0])


# ----------------------------------------------------------------------------------- third, as designed


def test_designed_is_the_mean_of_the_claims_of_the_reliable() -> None:
    log = Log()
    log.job(seconds(80), seconds(120), {"anonymous": 1, **seconds(900)})
    log.job({"anonymous": 1}, {"anonymous": 1})
    found = log.run(DESIGNED_CREDITNEW)
    assert list(found.claimed) == pytest.approx([80, 120, 100, 100, 100])
    assert list(found.granted) == pytest.approx([100.0] * 5)
    halves = log.run(DESIGNED_CREDITNEW, unit=DESIGNED)
    assert list(halves.granted) == pytest.approx([50.0] * 5)


def test_designed_puts_a_claim_beyond_the_bound_on_probation_and_learns_nothing_of_it() -> None:
    log = Log()
    log.job({**seconds(80), "rsc_fpops_bound": 200 * CREDIT}, seconds(201))
    log.job({**seconds(201), "rsc_fpops_bound": 200 * CREDIT})
    found = log.run(DESIGNED_CREDITNEW)
    assert list(found.claimed) == pytest.approx([80, 100, 100])
    assert list(found.granted) == pytest.approx([80, 80, 100])
    rows = {row[0]: row for row in found.records.rows()}
    # host, version, samples, mean, valid in a row, error rate, probation, time
    assert rows[2][2:7] == (0, 0.0, 0, 0.1, True)
    assert rows[1][2:7] == (1, pytest.approx(0.8), 0, 0.1, True)  # its second claim was suspicious


@pytest.mark.parametrize(("credit", "suspicious"), [(2000, False), (2001, True)])
def test_designed_calls_more_than_twenty_times_the_mean_a_one_time_cheat(
    credit: float, suspicious: bool
) -> None:
    log = Log()
    log.jobs(100)
    log.job({"host_id": 2, **seconds(credit)})
    found = log.run(DESIGNED_CREDITNEW)
    assert last(found.granted, 1) == pytest.approx([100.0 if suspicious else credit])
    samples, mean, valid, error_rate, probation = next(
        row[2:7] for row in found.records.rows() if row[0] == 2
    )
    assert (samples, valid) == ((0, 0) if suspicious else (1, 1))
    assert mean == pytest.approx(0.0 if suspicious else credit / 100)
    assert error_rate == pytest.approx(0.1 if suspicious else 0.095)
    assert probation is suspicious


def test_designed_scales_hosts_and_versions() -> None:
    log = Log()
    log.jobs(100, app_version_id=1)
    log.jobs(100, app_version_id=2, **seconds(300))
    log.jobs(10, host_id=3, app_version_id=2, **seconds(600))
    log.scales()
    log.job({"app_version_id": 2, **seconds(300)}, {"host_id": 3, "app_version_id": 2, **seconds(600)})
    found = log.run(DESIGNED_CREDITNEW)
    mean = 6.0 - 3.0 * 0.999**10  # of version 2, which took ten samples of 6
    x = (100 * 1.0 + 110 * mean) / 210
    assert found.version_scales == pytest.approx({1: x, 2: x / mean})
    # both hosts claim their version's mean, whatever their own is
    assert last(found.claimed, 2) == pytest.approx([100 * x * mean / mean * (3 / mean) * (mean / 3), 100 * x])


def test_designed_uses_no_host_scale_until_a_delay_bound_has_passed_without_a_lost_job() -> None:
    log = Log()
    log.jobs(100, host_id=9)
    log.add(outcome=SENT)
    log.jobs(10, **seconds(50))  # too early: probation goes on
    log.jobs(1, **seconds(50))
    early = log.run(DESIGNED_CREDITNEW, host_scale_check=True)
    assert (last(early.claimed, 1), modes(early, 1)) == ([50.0], ["approximate"])
    assert last(early.granted, 1) == [100.0]  # nobody is reliable: the estimate
    log.now += 86401.0
    log.jobs(2, **seconds(50))
    late = log.run(DESIGNED_CREDITNEW, host_scale_check=True)
    assert modes(late, 2) == ["approximate", "normal"]
    mean = 0.5 + 0.5 * 0.999**12
    assert last(late.claimed, 1) == pytest.approx([50.0 * mean / 0.5])
    log.add(outcome=ERROR)
    log.jobs(1, **seconds(50))
    lost = log.run(DESIGNED_CREDITNEW, host_scale_check=True)
    assert (last(lost.claimed, 1), modes(lost, 1)) == ([50.0], ["approximate"])
    assert next(row[7] for row in lost.records.rows() if row[0] == 1) == log.now + 86400.0


# ------------------------------------------------------------ by run time, fixed, assigned, by messages


@pytest.mark.parametrize(
    ("claims", "expected"), [((100, 200), 400 / 3), ((100, 100, 1000), 175.0), ((70,), 70.0)]
)
def test_by_run_time_is_a_low_average(claims: tuple[float, ...], expected: float) -> None:
    log = Log()
    log.job(*(seconds(claim) for claim in claims))
    assert list(log.run("runtime").granted) == pytest.approx([expected] * len(claims))


def test_by_run_time_cuts_beyond_twice_the_bound_and_drops_what_is_beyond_the_limit() -> None:
    log = Log()
    for credit in (200, 201):
        log.job({**seconds(credit), "rsc_fpops_bound": 100 * CREDIT})
    log.job({"elapsed_time": 10_000.0, "peak_flops": 1e9})
    log.job(seconds(150), seconds(9_000), {"elapsed_time": 0.0, "cpu_time": 0.0})
    found = log.run("runtime", max_granted=8_000.0)
    assert list(found.granted) == pytest.approx([200, 100, 4.3e13 / CREDIT, 150, 150, 150])
    assert modes(found, 3) == ["normal", "refused", "estimate"]


def test_fixed_credit_is_that_of_the_job_and_counts_in_what_messages_brought() -> None:
    log = Log()
    log.job({"fixed_credit": 12.5}, {"trickle_credit": 5.0})
    assert list(log.run("fixed").granted) == pytest.approx([12.5, 7.5])


@pytest.mark.parametrize("system", ["assigned", "after-assimilation"])
def test_assigned_credit_is_that_of_the_canonical_result(system: str) -> None:
    log = Log()
    log.job({"claimed_credit": 3.0}, {"claimed_credit": 8.0, "canonical": 1}, {"outcome": INVALID})
    log.add(workunit_id=1, host_id=4, straggler=1, claimed_credit=99.0)
    log.job({"claimed_credit": 4.0}, {"claimed_credit": 6.0})
    assert list(log.run(system).granted) == pytest.approx([8, 8, 0, 8, 4, 4])


def test_messages_bring_provisional_credit_that_the_end_of_the_result_settles() -> None:
    log = Log()
    sent = NOW - 1000.0
    for result, run_time in ((1, 400.0), (1, 900.0), (2, 200.0), (3, 5e9)):
        log.add(
            outcome=TRICKLE,
            workunit_id=result,
            result_id=result,
            elapsed_time=run_time,
            p_fpops=2e10,
            sent_time=sent,
        )
    log.add(workunit_id=1, result_id=1, cpu_time=2000.0, received_time=NOW + 1500, sent_time=sent)
    log.add(workunit_id=2, result_id=2, outcome=INVALID)
    log.add(workunit_id=3, result_id=3, outcome=ERROR)
    log.add(outcome=TRICKLE, workunit_id=1, result_id=1, elapsed_time=10.0, sent_time=sent)
    found = log.run("benchmark")
    speed = 3.3e9  # at most the 95th percentile of the hosts
    first, second = 400 * speed / CREDIT, 600 * speed / CREDIT  # 1000 s since it was sent, in all
    full = 100.0  # 1000 s of CPU fit into the time since it was sent
    assert list(found.granted) == pytest.approx(
        [
            first,
            second,
            200 * speed / CREDIT,
            1000 * speed / CREDIT,
            full - first - second,
            -200 * speed / CREDIT,
            0.0,
            0.0,
        ]
    )


@pytest.mark.parametrize("system", ["none", "trickle"])
def test_systems_that_grant_nothing_at_validation(system: str) -> None:
    log = Log()
    log.job({}, {})
    assert list(log.run(system).granted) == [0.0, 0.0]


# ------------------------------------------------------------------------------------------- hosts


def test_the_record_of_a_host_follows_valid_wrong_and_lost_results() -> None:
    log = Log()
    log.jobs(2)
    log.job({"outcome": INVALID})
    log.jobs(1)
    log.add(outcome=ERROR)
    found = log.run("benchmark")
    rate = ((0.1 * 0.95 * 0.95) * 0.95 + 0.05) * 0.95 * 0.95 + 0.05
    (row,) = found.records.rows()
    assert row[2:] == (3, pytest.approx(1.0), 0, pytest.approx(rate), True, NOW + 86400.0)
