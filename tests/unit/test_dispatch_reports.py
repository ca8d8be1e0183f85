"""What a reported result means."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.helpers.dispatch_world import NOW, record

from cobblestone.domain.values import AppId, HostId, ResultId, UserId, WorkunitId
from cobblestone.domain.work import Outcome, OutputSpec, Result, ResultClientState, ServerState, ValidateState
from cobblestone.policy.dispatch.reports import (
    ReportContext,
    ReportDecision,
    ResultReport,
    judge_report,
    sane_times,
)

HOST = HostId(1)
USER = UserId(1)
Q = 100
SENT = Result(
    id=ResultId(1),
    name="wu_0",
    workunit_id=WorkunitId(1),
    app_id=AppId(1),
    server_state=ServerState.IN_PROGRESS,
    host_id=HOST,
    user_id=USER,
    sent_time=NOW - 1000,
)
GOOD = ResultReport(name="wu_0", state=5, exit_status=0, cpu_time=90.0, elapsed_time=100.0)
OUTPUTS = (OutputSpec(open_name="output"), OutputSpec(open_name="extra", optional=True))


def judge(report: ResultReport = GOOD, result: Result | None = SENT, **context: Any) -> ReportDecision:
    values = {
        "outputs_present": frozenset({0}),
        "output_specs": OUTPUTS,
        "record": record(max_jobs_per_day=50),
    }
    return judge_report(
        report,
        ReportContext(result=result, **(values | context)),
        host_id=HOST,
        user_id=USER,
        daily_quota=Q,
        now=NOW,
    )


def accepted(decision: ReportDecision):
    assert decision.accepted is not None
    return decision.accepted


def codes(decision: ReportDecision) -> list[str]:
    return [each.code for each in decision.reasons]


# Success and error


def test_a_success_needs_exit_status_state_and_uploads():
    decision = judge()
    report = accepted(decision)
    assert (report.outcome, report.validate_state) == (Outcome.SUCCESS, ValidateState.INIT)
    assert (report.client_state, report.exit_status) == (ResultClientState.FILES_UPLOADED, 0)
    assert (report.cpu_time, report.elapsed_time, report.received_time) == (90.0, 100.0, NOW)
    assert decision.reasons == ()
    assert decision.record == record(max_jobs_per_day=100)


@pytest.mark.parametrize(
    ("report", "context", "code"),
    [
        (replace(GOOD, exit_status=1, state=3), {}, "exit_status"),
        (replace(GOOD, exit_status=None), {}, "exit_status_missing"),
        (replace(GOOD, state=3), {}, "client_state"),
        (replace(GOOD, file_errors={"wu_0_0": "upload refused"}), {}, "output_error"),
        (GOOD, {"outputs_present": frozenset()}, "output_missing"),
    ],
)
def test_anything_less_is_an_error_that_will_not_be_validated(
    report: ResultReport, context: dict[str, Any], code: str
):
    decision = judge(report, **context)
    assert accepted(decision).outcome == Outcome.CLIENT_ERROR
    assert accepted(decision).validate_state == ValidateState.INVALID
    assert codes(decision) == [code]
    assert decision.record == record(max_jobs_per_day=50, bad_results=1)


def test_an_optional_output_may_be_missing_and_a_job_may_have_none():
    assert accepted(judge(outputs_present=frozenset({0}))).outcome == Outcome.SUCCESS
    assert accepted(judge(output_specs=(), outputs_present=frozenset())).outcome == Outcome.SUCCESS


def test_a_missing_exit_status_is_not_stored_as_success():
    assert accepted(judge(replace(GOOD, exit_status=None))).exit_status != 0


def test_a_job_aborted_by_the_project_costs_no_quota():
    decision = judge(replace(GOOD, exit_status=202, state=6))
    assert accepted(decision).outcome == Outcome.CLIENT_ERROR
    assert decision.record is None


def test_without_a_record_there_is_no_quota_to_change():
    assert judge(record=None).record is None


@pytest.mark.parametrize(
    ("told", "stored"), [(3221225477, -1073741819), (2**40, -1), (-(2**40), -1), (-226, -226)]
)
def test_exit_statuses_are_stored_as_signed_32_bit_numbers(told: int, stored: int):
    assert accepted(judge(replace(GOOD, exit_status=told, state=3))).exit_status == stored


def test_an_unknown_client_state_is_an_error():
    report = accepted(judge(replace(GOOD, state=77)))
    assert (report.client_state, report.outcome) == (ResultClientState.COMPUTE_ERROR, Outcome.CLIENT_ERROR)


# Ignored reports


def test_a_result_that_does_not_exist_is_ignored():
    decision = judge(result=None)
    assert decision.accepted is None
    assert codes(decision) == ["report_unknown"]


@pytest.mark.parametrize(
    ("result", "code"),
    [
        (replace(SENT, server_state=ServerState.UNSENT), "report_of_unsent"),
        (replace(SENT, server_state=ServerState.INACTIVE), "report_of_unsent"),
        (replace(SENT, received_time=NOW - 1), "report_repeated"),
        (replace(SENT, host_id=HostId(2)), "report_of_other_host"),
        *(
            (replace(SENT, server_state=ServerState.OVER, outcome=outcome), "report_repeated")
            for outcome in Outcome
            if outcome not in (Outcome.NO_REPLY, Outcome.CLIENT_DETACHED)
        ),
    ],
)
def test_reports_that_change_nothing_are_ignored_and_cost_no_quota(result: Result, code: str):
    decision = judge(result=result)
    assert (decision.accepted, decision.record) == (None, None)
    assert codes(decision) == [code]


@pytest.mark.parametrize("outcome", [Outcome.NO_REPLY, Outcome.CLIENT_DETACHED])
def test_a_late_report_still_counts(outcome: Outcome):
    late = replace(SENT, server_state=ServerState.OVER, outcome=outcome)
    assert accepted(judge(result=late)).outcome == Outcome.SUCCESS


def test_another_host_of_the_same_user_may_report():
    assert judge(result=replace(SENT, host_id=HostId(2)), host_owner=USER).accepted is not None
    assert judge(result=replace(SENT, host_id=HostId(2)), host_owner=UserId(2)).accepted is None


def test_a_success_reported_twice_makes_the_server_look_for_lost_work():
    done = replace(SENT, server_state=ServerState.OVER, outcome=Outcome.SUCCESS, received_time=NOW - 9)
    assert judge(result=done).resend_lost
    assert not judge(replace(GOOD, exit_status=1), result=done).resend_lost
    failed = replace(done, outcome=Outcome.CLIENT_ERROR)
    assert not judge(result=failed).resend_lost


# Times


@pytest.mark.parametrize(
    ("cpu", "elapsed", "ncpus", "expected"),
    [
        (90, 100, 1, (90, 100)),
        (120, 100, 1, (120, 120)),  # elapsed time raised to CPU time of a single-thread version
        (120, 100, 4, (120, 100)),  # but not of a multi-thread one
        (-5, -5, 1, (0, 0)),
        (50, 0, 4, (50, 50)),
        (10, 5000, 1, (10, 1000)),  # not longer than it was out
        (5000, 5000, 1, (1000, 1000)),
        (900, 100, 4, (400, 100)),  # not more than all CPUs could
    ],
)
def test_times_are_brought_into_what_is_possible_step_by_step(
    cpu: float, elapsed: float, ncpus: float, expected: tuple[float, float]
):
    assert sane_times(cpu, elapsed, in_progress=1000, ncpus_used=ncpus)[:2] == expected


def test_times_that_were_cut_are_explained():
    reasons = sane_times(10, 5000, in_progress=1000, ncpus_used=1)[2]
    assert [each.code for each in reasons] == ["elapsed_time_too_long"]
    assert [
        each.code for each in sane_times(float("nan"), float("inf"), in_progress=None, ncpus_used=1)[2]
    ] == ["cpu_time_not_finite", "elapsed_time_not_finite"]


def test_a_clock_that_went_back_gives_no_negative_times():
    assert sane_times(5, 5, in_progress=-100, ncpus_used=1)[:2] == (0, 0)
