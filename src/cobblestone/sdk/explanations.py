"""What the API explains, as values."""

from __future__ import annotations

from typing import Any

import msgspec


class Explanation(msgspec.Struct, frozen=True):
    """Why something happens or does not."""

    code: str
    text: str
    values: dict[str, Any] = msgspec.field(default_factory=dict[str, Any])


class VersionStanding(msgspec.Struct, frozen=True):
    """How a computer stands with one app version."""

    app: str
    version_num: int
    plan_class: str
    jobs_per_day: int  #: per processor
    full_quota: int
    sent_today: int
    bad_results: int
    next_quota_seconds: float
    throttled: bool
    reliable: bool
    valid_in_a_row: int
    check_probability: float


class HostExplanation(msgspec.Struct, frozen=True):
    """What a computer would get if it asked now, and why not more."""

    id: int
    name: str
    user: int
    last_contact: float  #: Unix seconds
    in_progress: int
    would_get: str  #: name of a result; empty: nothing
    reasons: list[Explanation]
    problems: list[Explanation]
    versions: list[VersionStanding]


class WorkunitExplanation(msgspec.Struct, frozen=True):
    """What becomes of a workunit."""

    id: int
    name: str
    takers: int
    tried: int
    reasons: list[Explanation]


class ResultExplanation(msgspec.Struct, frozen=True):
    """What became of a result."""

    id: int
    name: str
    workunit: int
    reasons: list[Explanation]
    told: list[str]
