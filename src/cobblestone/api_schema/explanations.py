"""Why: what a host would get, what becomes of a workunit, what became of a result."""

from __future__ import annotations

from typing import Any

from cobblestone.api_schema.values import Reply


class Explanation(Reply, frozen=True):
    """Why something happens or does not."""

    code: str  #: stable
    text: str
    values: dict[str, Any]


class VersionStatus(Reply, frozen=True):
    """How a host stands with one app version."""

    app: str
    version_num: int
    plan_class: str
    jobs_per_day: int  #: per processor; 1 after many bad results
    full_quota: int
    sent_today: int
    bad_results: int  #: more than valid ones since
    next_quota_seconds: float
    throttled: bool
    reliable: bool
    valid_in_a_row: int
    check_probability: float  #: of its jobs that are computed by others too; 1 without adaptive replication


class HostExplanation(Reply, frozen=True):
    """What a host would get if it asked now, and why not more."""

    id: int
    name: str
    user: int
    last_contact: float
    in_progress: int
    would_get: str  #: name of a result; empty: nothing
    reasons: list[Explanation]
    problems: list[Explanation]  #: what its owner should know
    versions: list[VersionStatus]


class WorkunitExplanation(Reply, frozen=True):
    """What becomes of a workunit."""

    id: int
    name: str
    takers: int  #: of the computers that were tried for its unsent results
    tried: int
    reasons: list[Explanation]


class ResultExplanation(Reply, frozen=True):
    """What became of a result."""

    id: int
    name: str
    workunit: int
    reasons: list[Explanation]
    told: list[str]  #: noted when it was reported and validated
