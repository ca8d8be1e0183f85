"""Credit: what every figure rests on, the audit of the ledger, corrections, and published scales."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from cobblestone.api_schema.values import Body, FilledLine, Line, Reply
from cobblestone.domain.scales import LARGEST_SCALE, SMALLEST_SCALE

MAX_CLASSES = 5_000
Scale = Annotated[float, msgspec.Meta(ge=SMALLEST_SCALE, le=LARGEST_SCALE)]


class LedgerEntry(Reply, frozen=True):
    """A ledger entry with what it was computed from."""

    id: int
    time: float
    kind: str  #: grant, trickle (provisional), correction
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
    """All that is known of the credit of a result."""

    result_id: int
    name: str  #: empty: the result was purged, only its entries are left
    state: str
    granted: float
    claimed: float
    report: list[dict[str, Any]]  #: what was refused or bounded when it was reported
    entries: list[LedgerEntry]


class NewCorrection(Body, frozen=True, kw_only=True):
    """A correction of what a result was granted; the ledger is never changed, only continued."""

    result: Line  #: id or name
    amount: Annotated[float, msgspec.Meta(ge=-1e15, le=1e15)]  #: negative: claw-back
    reason: FilledLine


class CreditDifference(Reply, frozen=True):
    """A figure that is not what the ledger makes of it."""

    table: str
    id: int
    figure: str
    stored: float | None
    computed: float | None
    note: str


class LedgerAudit(Reply, frozen=True):
    """What a recomputation of the whole ledger found."""

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
    """Scale by plan class."""

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
    """What was done, or would be."""

    versions: list[VersionScaleChange]
    n_other_versions: int  #: of apps with CPU versions
    dry_run: bool
