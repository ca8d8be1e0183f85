"""Requests of operators: hosts, cancelling, roles, roll-out, checks, explanations, credit and its audit."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from cobblestone.api_schema.people import Computer
from cobblestone.api_schema.values import Body, FilledLine, Id, Limit, Line, PageQuery, Part, Query, Reply
from cobblestone.domain.exports import LARGEST_SCALE, SMALLEST_SCALE
from cobblestone.domain.hosts import VersionStatus


class HostsQuery(PageQuery, frozen=True):
    """Which computers."""

    user: Id | None = None
    blocked: bool | None = None  #: by an operator


class Host(Computer, frozen=True):
    """A computer."""

    label: str  #: its owner's own name for it
    user: int


class HostList(Reply, frozen=True):
    """Computers, newest first."""

    hosts: list[Host]


class HostDetails(Host, frozen=True):
    """A computer with its client's description of it."""

    venue: str
    hidden: bool
    client_version: int  #: 10000 * major + 100 * minor + release
    platforms: list[str]  #: the primary one first
    processor: str
    cpus: int
    fpops: float  #: floating-point operations per second of one CPU
    memory: float  #: bytes
    disk_free: float  #: bytes
    system: str
    gpus: list[str]
    #: totals of storage (byte-days), received and sent (bytes), see docs/contributions.md
    contributions: dict[str, float]
    lacks: str  #: what apps of every platform need and it has not
    tasks: dict[str, int]  #: by state, of the newest 20,000


class HostChanges(Body, frozen=True):
    """Changes to a computer; omitted members keep their value."""

    label: Annotated[str, msgspec.Meta(max_length=60, pattern=r"\A[^\x00-\x1f\x7f]*\Z")] | None = None
    venue: Literal["", "home", "work", "school"] | None = None
    hidden: bool | None = None


class Done(Reply, frozen=True):
    """Confirmation without further data."""

    target: str
    text: str = ""


class RetriedWorkunit(Reply, frozen=True):
    """The result of retrying a workunit."""

    target: str
    new_batch: int | None  #: None: it goes on itself


class Reason(Body, frozen=True):
    """A reason, in words for the volunteer."""

    reason: Annotated[Line, msgspec.Meta(min_length=3)]


class RoleBody(Body, frozen=True):
    """The role of a user."""

    role: Annotated[str, msgspec.Meta(max_length=20)]  #: operator, or empty: volunteer


class NewPassword(Reply, frozen=True):
    """A new password; it is shown only once."""

    target: str
    password: str


class RolloutBody(Body, frozen=True):
    """How a version reaches hosts."""

    stages: Annotated[list[Part], msgspec.Meta(min_length=1, max_length=20)]  #: growing parts of the hosts
    max_error_rate: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.1  #: above it the roll-out is held
    min_results: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)] = 20  #: of a stage, before the next one
    min_hours: Annotated[float, msgspec.Meta(ge=0, le=10_000)] = 1.0  #: of a stage


class Rollout(Reply, frozen=True):
    """How a version reaches hosts."""

    version: int
    fraction: float  #: part of the hosts that may get it now
    state: str  #: running, held, done
    stages: list[float]
    stage: int  #: position in stages, from 0
    max_error_rate: float
    min_results: int
    min_hours: float


class RollBackBody(Body, frozen=True):
    """How to withdraw a version."""

    abort_jobs: bool = False  #: hosts are told to stop; else they finish what they have


class RolledBack(Reply, frozen=True):
    """The result of withdrawing a version."""

    target: str
    version_in_its_place: int | None
    results_given_up: int


class AuditQuery(Query, frozen=True):
    """A part of the audit log."""

    before: Id | None = None
    limit: Limit = 50
    target: Line = ""  #: such as: host 12
    actor: Line = ""  #: beginning of the name


class AuditEntry(Reply, frozen=True):
    """One action."""

    id: int
    time: float
    actor: str
    origin: str
    action: str
    target: str
    before: Any  # whatever the action was about
    after: Any


class AuditList(Reply, frozen=True):
    """Actions, newest first."""

    entries: list[AuditEntry]


class SearchQuery(Query, frozen=True):
    """Search terms."""

    q: FilledLine


class Found(Reply, frozen=True):
    """A match."""

    kind: str
    id: int
    name: str


class FoundList(Reply, frozen=True):
    """All matches."""

    found: list[Found]


class Check(Reply, frozen=True):
    """An integrity check."""

    name: str
    promise: str
    advice: str
    repair: str  #: what a repair does; empty: there is none
    only_warns: bool
    rows: int = 0  #: that a run that goes on has looked at so far
    of_about: int = 0  #: rows that it will look at; 0: unknown


class CheckList(Reply, frozen=True):
    """All checks, in the recommended order."""

    checks: list[Check]


class Finding(Reply, frozen=True):
    """A fault that a check found."""

    code: str  #: what is wrong, for programs
    kind: str  #: of the row or thing: result, file, database
    id: str  #: of the row or file; empty: there is only one
    target: str  #: kind and id, for people
    text: str


class Diagnosis(Reply, frozen=True):
    """The faults that a check found."""

    name: str
    findings: list[Finding]
    more: int  #: beyond those listed
    seconds: float


class Repair(Reply, frozen=True):
    """The result of a repair."""

    name: str
    repaired: int


class Explanation(Reply, frozen=True):
    """Why something happens or does not."""

    code: str  #: stable
    text: str
    values: dict[str, Any]


class Explained(Reply, frozen=True):
    """A thing, and what is to be said of it."""

    id: int
    name: str
    reasons: list[Explanation]


class HostExplanation(Explained, frozen=True):
    """What a host would get if it asked for work now, and why not more."""

    user: int
    last_contact: float
    in_progress: int
    would_get: str  #: name of a result; empty: nothing
    problems: list[Explanation]  #: what its owner should know
    versions: list[VersionStatus]


class WorkunitExplanation(Explained, frozen=True):
    """The state of a workunit and what it waits for."""

    takers: int  #: of the computers that were tried for its unsent results
    tried: int


class ResultExplanation(Explained, frozen=True):
    """What happened to a result."""

    workunit: int
    told: list[str]  #: noted when it was reported and validated
    error_output: list[str]  #: its last lines


MAX_CLASSES = 5_000
Scale = Annotated[float, msgspec.Meta(ge=SMALLEST_SCALE, le=LARGEST_SCALE)]


class LedgerEntry(Reply, frozen=True):
    """A ledger entry with the values it was computed from."""

    id: int
    time: float
    kind: str  #: grant, trickle, correction; of the system ledger also escrow, release, revoke, settlement
    provisional: bool
    result_id: int
    workunit_id: int
    host_id: int
    user_id: int
    team_id: int | None
    app_version_id: int | None  #: above 1 000 000: of a volunteer's own versions
    system: str
    claimed: float
    granted: float
    unit: float  #: credit per GFLOPS-day
    work_start: float
    reasons: list[dict[str, Any]]  #: code, text, values
    facts: dict[str, Any]


class CreditExplanation(Reply, frozen=True):
    """All that is known about the credit of a result."""

    result_id: int
    name: str  #: empty: the result was purged, only its entries are left
    state: str
    granted: float
    claimed: float
    report: list[dict[str, Any]]  #: what was refused or bounded when it was reported
    entries: list[LedgerEntry]
    account: list[dict[str, Any]]  #: credit system ledger: what is known of the computer, in words


class NewCorrection(Body, frozen=True, kw_only=True):
    """A correction of a result's grant; the ledger is never changed, only appended to."""

    result: Line  #: id or name
    amount: Annotated[float, msgspec.Meta(ge=-1e15, le=1e15)]  #: negative: claw-back
    reason: FilledLine


class CreditDifference(Reply, frozen=True):
    """A figure that differs from what the ledger gives."""

    table: str
    id: int
    figure: str
    stored: float | None
    computed: float | None
    note: str


class LedgerAudit(Reply, frozen=True):
    """The result of recomputing the whole ledger."""

    agrees: bool
    entries: int
    grants: int
    corrections: int
    rows: dict[str, int]
    differences: list[CreditDifference]
    more: int  #: differences beyond those listed


class CreditSystem(Reply, frozen=True):
    """A credit system."""

    name: str
    summary: str


class CreditSystemList(Reply, frozen=True):
    """Credit systems by name."""

    systems: list[CreditSystem]


class PublishedScales(Body, frozen=True):
    """Scales by plan class."""

    scales: Annotated[dict[Line, Scale], msgspec.Meta(max_length=MAX_CLASSES)]
    dry_run: bool = False  #: only say what would change


class VersionScaleChange(Reply, frozen=True):
    """A version of an app that has GPU versions only."""

    app: str
    credit_system: str
    version_num: int
    platform: str
    plan_class: str
    old_scale: float | None  #: None: had none
    new_scale: float | None  #: None: nothing is published for its plan class
    changed: bool


class AppliedScales(Reply, frozen=True):
    """What was changed, or would be."""

    versions: list[VersionScaleChange]
    n_other_versions: int  #: of apps with CPU versions
    dry_run: bool
