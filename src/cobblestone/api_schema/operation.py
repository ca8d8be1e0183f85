"""What operators do by hand: cancel, retry, block, roles, roll-out, the audit log, search, checks and repairs."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from cobblestone.api_schema.values import Body, FilledLine, Id, Limit, Line, Part, Query, Reply


class Done(Reply, frozen=True):
    """It is done."""

    target: str
    text: str = ""


class RetriedWorkunit(Reply, frozen=True):
    """What became of a workunit that is tried again."""

    target: str
    new_batch: int | None  #: None: it goes on itself


class Reason(Body, frozen=True):
    """Why, in words that the volunteer reads."""

    reason: Annotated[Line, msgspec.Meta(min_length=3)]


class RoleBody(Body, frozen=True):
    """What a user may do."""

    role: Annotated[str, msgspec.Meta(max_length=20)]  #: operator, or empty: volunteer


class NewPassword(Reply, frozen=True):
    """A new password; it is shown only now."""

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
    """What withdrawing a version did."""

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
    """Actions, the newest first."""

    entries: list[AuditEntry]


class SearchQuery(Query, frozen=True):
    """What to look for."""

    q: FilledLine


class Found(Reply, frozen=True):
    """Something that fits."""

    kind: str
    id: int
    name: str


class FoundList(Reply, frozen=True):
    """All that fits."""

    found: list[Found]


class Check(Reply, frozen=True):
    """A promise that can be checked."""

    name: str
    promise: str
    advice: str
    repair: str  #: what a repair does; empty: there is none
    only_warns: bool


class CheckList(Reply, frozen=True):
    """All checks, in the order in which they are best carried out."""

    checks: list[Check]


class Finding(Reply, frozen=True):
    """Something that is not as it must be."""

    code: str  #: what is wrong, for programs
    kind: str  #: of the row or thing: result, file, database
    id: str  #: of the row or file; empty: there is only one
    target: str  #: kind and id, for people
    text: str


class Diagnosis(Reply, frozen=True):
    """What a check found."""

    name: str
    findings: list[Finding]
    more: int  #: beyond those listed
    seconds: float


class Repair(Reply, frozen=True):
    """What a repair did."""

    name: str
    repaired: int
