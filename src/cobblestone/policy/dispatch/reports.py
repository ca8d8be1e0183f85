"""Handling of a reported result: ignore or accept, its run time, success or error, effect on the quota.

Every report is acknowledged once the decision is stored, also an ignored one: otherwise the client reports it
for ever.

Source: BOINC's ``sched_result.cpp`` (facts) and the observed behaviour of client 7.20.5. Differences: a
missing exit status is an error, where the family reads it as 0; a success needs its uploads on the server,
since after a refused upload the client reports exit status 0 and state 5; CPU time is held against the CPUs
that the version uses, not all of the host's; a result that was given up because its client had lost its state
counts after all when it comes, unless its user got a replacement: two answers of one person would agree with each other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field

from cobblestone.domain.hosts import HostAppVersion
from cobblestone.domain.reasons import Reason, reason
from cobblestone.domain.values import HostId, UserId, value
from cobblestone.domain.work import (
    ExitStatus,
    Outcome,
    OutputSpec,
    Result,
    ResultClientState,
    ServerState,
    ValidateState,
)
from cobblestone.policy.dispatch import limits

MISSING_EXIT_STATUS = -1  #: stored when the client did not say, or said nonsense
MAX_SECONDS = 1e9  #: longest believable time of a result, some 30 years

_LATE_REPORTS = (Outcome.NO_REPLY, Outcome.CLIENT_DETACHED)
_CLIENT_STATES = frozenset(ResultClientState)
_ABORTS = (ExitStatus.ABORTED_BY_PROJECT, ExitStatus.ABORTED_BY_USER)  # no crash: the quota stays


@value(kw_only=True)
class ResultReport:
    """The client's report on one finished result."""

    name: str
    state: int = 0  #: client state; any number
    exit_status: int | None = None  #: None = the client did not say
    cpu_time: float = 0.0  #: seconds
    elapsed_time: float = 0.0  #: seconds
    file_errors: Mapping[str, str] = field(default_factory=dict[str, str])
    """Output file name → the client's error text."""


@value(kw_only=True)
class ReportContext:
    """The server's knowledge of the reported result."""

    result: Result | None  #: the row of that name; None = there is none
    output_specs: tuple[OutputSpec, ...] = ()
    outputs_present: frozenset[int] = frozenset()  #: indices of the outputs that are completely on the server
    record: HostAppVersion | None = None  #: of the reporting host and the result's version
    host_owner: UserId | None = None  #: user of the host that the result was sent to (``result.host_id``)
    ncpus_used: float = 1.0  #: CPUs that the version uses
    #: it was lost with its client's state, and its user got another one of the workunit
    replaced: bool = False


@value(kw_only=True)
class AcceptedReport:
    """New values of the result's row."""

    client_state: ResultClientState
    outcome: Outcome
    validate_state: ValidateState
    exit_status: int
    cpu_time: float
    elapsed_time: float
    received_time: float


@value(kw_only=True)
class ReportDecision:
    """The decision about a report."""

    accepted: AcceptedReport | None  #: None = ignore the report
    record: HostAppVersion | None = None  #: record with the new quota, to be stored; None = unchanged
    resend_lost: bool = False  #: a success came twice: the previous reply was probably lost
    reasons: tuple[Reason, ...] = ()


def judge_report(
    report: ResultReport,
    context: ReportContext,
    *,
    host_id: HostId,
    user_id: UserId,
    daily_quota: int,
    daily_quota_init: int = 0,
    now: float,
) -> ReportDecision:
    """Decide what one report by host ``host_id`` of user ``user_id`` means."""
    result = context.result
    if result is None:
        ignored = reason("report_unknown", "There is no result named {name}.", name=report.name)
        return ReportDecision(accepted=None, reasons=(ignored,))
    ignored = _ignore(result, context, host_id, user_id)
    if ignored is not None:
        repeated = result.outcome == Outcome.SUCCESS and _client_says_success(report)
        return ReportDecision(accepted=None, resend_lost=repeated, reasons=(ignored,))
    cpu_time, elapsed_time, reasons = sane_times(
        report.cpu_time,
        report.elapsed_time,
        in_progress=None if result.sent_time is None else now - result.sent_time,
        ncpus_used=context.ncpus_used,
    )
    exit_status, exit_reasons = _exit_status(report.exit_status)
    failure = _failure(report, context)
    success = failure is None
    record = context.record
    if record is not None:
        if success:
            record = limits.after_success(record, daily_quota, daily_quota_init)
        elif report.exit_status not in _ABORTS:
            record = limits.after_failure(record, daily_quota)
    known_state = report.state in _CLIENT_STATES
    return ReportDecision(
        accepted=AcceptedReport(
            client_state=ResultClientState(report.state) if known_state else ResultClientState.COMPUTE_ERROR,
            outcome=Outcome.SUCCESS if success else Outcome.CLIENT_ERROR,
            validate_state=ValidateState.INIT if success else ValidateState.INVALID,
            exit_status=exit_status,
            cpu_time=cpu_time,
            elapsed_time=elapsed_time,
            received_time=now,
        ),
        record=None if record is context.record or record == context.record else record,
        reasons=(*(() if failure is None else (failure,)), *exit_reasons, *reasons),
    )


def sane_times(
    cpu_time: float, elapsed_time: float, *, in_progress: float | None, ncpus_used: float
) -> tuple[float, float, tuple[Reason, ...]]:
    """CPU and elapsed seconds that can be true, with a reason for each that was changed beyond recognition.

    ``in_progress`` is the seconds between sending and receipt (``None``: unknown). Both answers are finite
    and not negative. The steps are taken in the family's order.
    """
    most = MAX_SECONDS if in_progress is None else min(max(in_progress, 0.0), MAX_SECONDS)
    reasons: list[Reason] = []
    if not math.isfinite(cpu_time):
        cpu_time = 0.0
        reasons.append(reason("cpu_time_not_finite", "The CPU time was not a number; 0 is used."))
    if not math.isfinite(elapsed_time):
        elapsed_time = 0.0
        reasons.append(reason("elapsed_time_not_finite", "The elapsed time was not a number; 0 is used."))
    if elapsed_time < cpu_time and ncpus_used <= 1:
        elapsed_time = cpu_time
    cpu_time = max(cpu_time, 0.0)
    elapsed_time = max(elapsed_time, 0.0)
    if elapsed_time == 0.0:
        elapsed_time = cpu_time
    if elapsed_time > most:
        reasons.append(
            reason(
                "elapsed_time_too_long",
                "The result claims {claimed} s of elapsed time, but it was sent only {possible} s ago.",
                claimed=elapsed_time,
                possible=most,
            )
        )
        elapsed_time = most
    most_cpu = elapsed_time * min(max(ncpus_used, 1.0), 1e6)
    if cpu_time > most_cpu:
        # A single-thread version got here only through the step before, which has said it.
        if ncpus_used > 1:
            reasons.append(
                reason(
                    "cpu_time_too_long",
                    "The result claims {claimed} s of CPU time; its processors allow {possible} s.",
                    claimed=cpu_time,
                    possible=most_cpu,
                )
            )
        cpu_time = most_cpu
    return cpu_time, elapsed_time, tuple(reasons)


def _ignore(result: Result, context: ReportContext, host_id: HostId, user_id: UserId) -> Reason | None:
    """Return why the report changes nothing."""
    if result.server_state == ServerState.OVER and result.outcome not in _LATE_REPORTS:
        return reason("report_repeated", "Result {name} was already reported or given up.", name=result.name)
    if result.server_state in (ServerState.INACTIVE, ServerState.UNSENT):
        return reason("report_of_unsent", "Result {name} was not sent to any host.", name=result.name)
    if result.received_time is not None and result.outcome != Outcome.CLIENT_DETACHED:
        return reason("report_repeated", "Result {name} was already reported.", name=result.name)
    if context.replaced:
        return reason(
            "report_replaced",
            "Result {name} was given up when its computer lost its jobs, and another result was sent "
            "to its user instead.",
            name=result.name,
        )
    if result.host_id != host_id and context.host_owner != user_id:
        return reason(
            "report_of_other_host",
            "Result {name} belongs to host {owner}, not to host {host}.",
            name=result.name,
            owner=result.host_id,
            host=host_id,
        )
    return None


def _client_says_success(report: ResultReport) -> bool:
    return report.exit_status == ExitStatus.SUCCESS and report.state == ResultClientState.FILES_UPLOADED


def _failure(report: ResultReport, context: ReportContext) -> Reason | None:
    """Return why the result is an error; None if it is a success."""
    if report.exit_status is None:
        return reason("exit_status_missing", "The client did not report an exit status.")
    if report.exit_status != ExitStatus.SUCCESS:
        return reason("exit_status", "The program ended with status {status}.", status=report.exit_status)
    if report.state != ResultClientState.FILES_UPLOADED:
        return reason(
            "client_state", "The client ended the task in state {state}, not 5.", state=report.state
        )
    if report.file_errors:
        name, text = next(iter(report.file_errors.items()))
        return reason("output_error", "Output {name}: {text}", name=name, text=text)
    for index, spec in enumerate(context.output_specs):
        if not spec.optional and index not in context.outputs_present:
            return reason("output_missing", "Output {name} did not reach the server.", name=spec.open_name)
    return None


def _exit_status(status: int | None) -> tuple[int, tuple[Reason, ...]]:
    """Return the status as a signed 32-bit number."""
    if status is None:
        return MISSING_EXIT_STATUS, ()
    if 2**31 <= status < 2**32:
        return status - 2**32, ()  # Windows' status as an unsigned number
    if -(2**31) <= status < 2**31:
        return status, ()
    return MISSING_EXIT_STATUS, (reason("exit_status_out_of_range", "The exit status was out of range."),)
