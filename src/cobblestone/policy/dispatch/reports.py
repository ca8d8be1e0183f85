"""What a reported result means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cobblestone.domain.hosts import HostAppVersion
from cobblestone.domain.ids import HostId, UserId
from cobblestone.domain.reasons import Reason
from cobblestone.domain.states import ClientState, Outcome, ValidateState
from cobblestone.domain.work import OutputSpec, Result


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedResult:
    """What the client says of one finished result."""

    name: str
    state: int = 0  #: client state; any number
    exit_status: int | None = None  #: None = the client did not say
    cpu_time: float = 0.0  #: seconds
    elapsed_time: float = 0.0  #: seconds
    file_errors: Mapping[str, str] = field(
        default_factory=dict[str, str]
    )  #: output file name → the client's error text


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportContext:
    """What the server knows of the reported result."""

    result: Result | None  #: the row of that name; None = there is none
    output_specs: tuple[OutputSpec, ...] = ()
    outputs_present: frozenset[int] = frozenset()  #: indices of the outputs that are completely on the server
    record: HostAppVersion | None = None  #: of the reporting host and the result's version
    host_owner: UserId | None = None  #: user of the host that the result was sent to (``result.host_id``)
    ncpus_used: float = 1.0  #: CPUs that the version uses


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedReport:
    """New values of the result's row."""

    client_state: ClientState
    outcome: Outcome
    validate_state: ValidateState
    exit_status: int
    cpu_time: float
    elapsed_time: float
    received_time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportDecision:
    """What to do with a report.  Every report is acknowledged once this decision is stored."""

    accepted: AcceptedReport | None  #: None = ignore the report
    record: HostAppVersion | None = None  #: record with the new quota, to be stored; None = unchanged
    resend_lost: bool = False  #: a success came twice: the previous reply was probably lost
    reasons: tuple[Reason, ...] = ()


def judge_report(
    report: ReportedResult,
    context: ReportContext,
    *,
    host_id: HostId,
    user_id: UserId,
    daily_quota: int,
    now: float,
) -> ReportDecision:
    """Decide what one report by host ``host_id`` of user ``user_id`` means."""
    raise NotImplementedError
