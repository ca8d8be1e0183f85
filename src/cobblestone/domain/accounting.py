"""What projects and account managers say of jobs to each other."""

from __future__ import annotations

from enum import StrEnum

MAX_BATCH = 500
"""Jobs or accounts in one question."""


class JobState(StrEnum):
    """What a project says of a job of an account."""

    UNKNOWN = "unknown"  #: no job of this account, or one that was forgotten
    IN_PROGRESS = "in_progress"
    REPORTED = "reported"  #: back, and not decided
    GRANTED = "granted"
    REFUSED = "refused"  #: failed, invalid, too late, cancelled
