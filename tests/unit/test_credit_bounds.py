"""Hostile and broken reports: each figure is refused or bounded with a reason; nothing else is lost."""

from __future__ import annotations

import json
import math
from dataclasses import fields, replace

import msgspec
import pytest
from tests.helpers.credit_builders import NOW, WORKUNIT, claiming, codes, facts, grant

from cobblestone.domain.errors import PolicyViolation
from cobblestone.policy.credit.book import GrantFacts
from cobblestone.policy.credit.claims import (
    DEFAULT_ESTIMATE,
    MAX_OPERATIONS,
    MAX_PEAK_FLOPS,
    MAX_SPEED,
    AppStatistics,
    Claim,
    ClaimMode,
    CreditContext,
    Grant,
    Statistics,
    VersionStatistics,
    WorkunitFacts,
    bounded_input,
    bounded_workunit,
)
from cobblestone.policy.credit.early_systems import BenchmarkSystem
from cobblestone.policy.credit.registry import credit_system
from cobblestone.policy.credit.system import grant_workunit
from cobblestone.store.credit.credit_facts import named_facts, write_facts

REPORTED = ("elapsed_time", "cpu_time", "peak_flops", "p_fpops", "p_iops", "fpops_counted", "intops_counted")


def test_a_sane_report_is_left_alone() -> None:
    sane = facts()
    assert bounded_input(sane, now=NOW) == (sane, ())


@pytest.mark.parametrize("name", REPORTED)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1.0])
def test_what_is_no_figure_counts_as_not_reported(name: str, value: float) -> None:
    bounded, reasons = bounded_input(replace(facts(), **{name: value}), now=NOW)
    assert getattr(bounded, name) == 0.0
    assert [why.code for why in reasons] == ["number_refused"]
    assert name in reasons[0].text()
    # nothing else of the report is lost
    assert replace(bounded, **{name: getattr(facts(), name)}) == facts()


@pytest.mark.parametrize("value", [math.inf, -math.inf, 3.25])
def test_the_ledger_keeps_what_was_reported(value: float) -> None:
    granted = GrantFacts(
        result=replace(facts(), cpu_time=value),
        workunit=WORKUNIT,
        app=AppStatistics(min_avg_pfc=value),
        version=VersionStatistics(),
        max_granted=1e6,
    )
    written = msgspec.json.decode(write_facts(granted))
    assert "null" not in json.dumps(written)
    kept = named_facts(written)
    assert (float(kept["result"]["cpu_time"]), float(kept["app"]["min_avg_pfc"])) == (value, value)
    assert isinstance(kept["result"]["cpu_time"], str if math.isinf(value) else float)


@pytest.mark.parametrize(
    ("name", "limit"),
    [("peak_flops", MAX_PEAK_FLOPS), ("p_fpops", MAX_SPEED), ("fpops_counted", MAX_OPERATIONS)],
)
def test_the_impossible_is_bounded(name: str, limit: float) -> None:
    bounded, reasons = bounded_input(replace(facts(), **{name: 1e304}), now=NOW)
    assert getattr(bounded, name) == limit
    assert [why.code for why in reasons] == ["number_bounded"]


def test_run_time_is_at_most_the_time_since_it_was_sent() -> None:
    bounded, reasons = bounded_input(facts(elapsed_time=1e6), now=NOW)
    assert bounded.elapsed_time == 4990.0
    assert [why.code for why in reasons] == ["elapsed_time_bounded"]


def test_cpu_time_is_at_most_what_the_processors_had() -> None:
    bounded, reasons = bounded_input(facts(cpu_time=30_000.0, ncpus=4.0), now=NOW)
    assert bounded.cpu_time == 4 * 4990.0
    assert [why.code for why in reasons] == ["cpu_time_bounded"]


def test_a_huge_run_time_is_bounded_twice() -> None:
    bounded, reasons = bounded_input(facts(elapsed_time=1e304), now=NOW)
    assert bounded.elapsed_time == 4990.0
    assert [why.code for why in reasons] == ["number_bounded", "elapsed_time_bounded"]


def test_a_result_from_the_future_was_received_now() -> None:
    bounded, reasons = bounded_input(facts(received_time=NOW + 1e6), now=NOW)
    assert bounded.received_time == NOW
    assert [why.code for why in reasons] == ["time_bounded"]


def test_a_result_cannot_come_before_it_was_sent() -> None:
    bounded, reasons = bounded_input(facts(sent_time=NOW + 5.0, elapsed_time=0.0, cpu_time=0.0), now=NOW)
    assert (bounded.sent_time, bounded.received_time) == (NOW - 10.0, NOW - 10.0)
    assert [why.code for why in reasons] == ["time_bounded"]


def test_times_that_are_not_known_bound_nothing() -> None:
    unknown = facts(sent_time=0.0, received_time=0.0, elapsed_time=1e6)
    assert bounded_input(unknown, now=NOW) == (unknown, ())


def test_a_host_has_at_least_one_processor() -> None:
    assert bounded_input(facts(ncpus=0.0), now=NOW)[0].ncpus == 1.0
    assert bounded_input(facts(ncpus=math.nan), now=NOW)[0].ncpus == 1.0


def test_reasons_can_be_written_as_json() -> None:
    hostile = facts(elapsed_time=math.nan, cpu_time=math.inf, p_fpops=1e304, received_time=NOW + 1e9)
    outcome = grant("creditnew-deployed", [hostile])
    for why in outcome.results[0].reasons:
        assert json.loads(json.dumps(why.as_json(), allow_nan=False))["text"]


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf, 1e304])
def test_a_job_without_a_usable_estimate_gets_the_default(value: float) -> None:
    job, reasons = bounded_workunit(replace(WORKUNIT, rsc_fpops_est=value, rsc_fpops_bound=value))
    assert (job.rsc_fpops_est, job.rsc_fpops_bound) == (DEFAULT_ESTIMATE, MAX_OPERATIONS)
    assert len(reasons) == 2


def test_a_fixed_credit_that_is_no_amount_is_none() -> None:
    job, reasons = bounded_workunit(replace(WORKUNIT, fixed_credit=math.nan))
    assert job.fixed_credit == 0.0
    assert [why.code for why in reasons] == ["number_refused"]


def test_every_figure_of_a_report_is_bounded() -> None:
    poison = {field.name: math.nan for field in fields(facts()) if field.type == "float"}
    bounded, _ = bounded_input(replace(facts(), **poison), now=NOW)
    assert all(math.isfinite(getattr(bounded, name)) for name in poison)


# ------------------------------------------------------------------------------------ granting as a whole


class Broken(BenchmarkSystem):
    """A project's own system that computes nonsense."""

    amounts: tuple[float, ...] = (math.nan,)

    def claim(self, facts: object, workunit: object, context: object) -> Claim:
        return Claim(amount=math.nan)

    def grant(self, claims: object, workunit: WorkunitFacts, context: CreditContext) -> Grant:
        return Grant(credits=self.amounts)


def test_a_system_that_computes_nonsense_grants_nothing() -> None:
    outcome = grant_workunit(Broken(), WORKUNIT, [facts()], Statistics(), now=NOW)
    assert (outcome.results[0].claimed, outcome.results[0].granted) == (0.0, 0.0)
    assert outcome.results[0].mode is ClaimMode.REFUSED
    assert codes(outcome) == ["claim_refused", "grant_refused"]


def test_a_system_that_answers_for_another_number_of_results_is_a_mistake() -> None:
    with pytest.raises(PolicyViolation, match="one amount per claim"):
        grant_workunit(Broken(), WORKUNIT, [facts(1), facts(2)], Statistics(), now=NOW)


def test_no_grant_is_beyond_the_limit() -> None:
    outcome = grant("benchmark", [claiming(50.0)], max_granted=20.0)
    assert outcome.results[0].granted == 20.0
    assert codes(outcome)[-1] == "grant_bounded"


def test_partial_credit_is_taken_off_the_final_grant() -> None:
    outcome = grant("benchmark", [claiming(50.0, trickle_credit=30.0)])
    assert outcome.results[0].granted == pytest.approx(20.0)
    assert outcome.canonical_credit == pytest.approx(50.0)
    assert codes(outcome)[-1] == "granted_before"


def test_too_much_partial_credit_leaves_nothing_to_grant() -> None:
    assert grant("benchmark", [claiming(50.0, trickle_credit=70.0)]).results[0].granted == 0.0


def test_the_credit_of_the_canonical_result_is_kept_for_stragglers() -> None:
    outcome = grant("benchmark", [claiming(10.0, 1), claiming(20.0, 2, canonical=True)])
    late = grant_workunit(
        credit_system("benchmark"),
        WORKUNIT,
        [claiming(99.0, 3)],
        Statistics(),
        canonical_credit=outcome.canonical_credit,
        now=NOW,
    )
    (result,) = late.results
    assert (result.claimed, result.granted) == (pytest.approx(99.0), pytest.approx(15.0))
    assert "straggler" in [why.code for why in result.reasons]
    assert late.increments.host_versions[0].turnaround == (1e7 - 10.0,)


def test_a_straggler_is_credited_after_its_partial_credit_too() -> None:
    late = grant_workunit(
        credit_system("benchmark"),
        WORKUNIT,
        [claiming(9.0, trickle_credit=6.0)],
        Statistics(),
        canonical_credit=10.0,
        now=NOW,
    )
    assert late.results[0].granted == pytest.approx(4.0)
