"""What an account manager asks a project: what accounts were granted, job by job, in all, or in three sums a day."""

from __future__ import annotations

from typing import Annotated

import msgspec

from cobblestone.api_schema.values import Body, Query, Reply
from cobblestone.domain.accounting import MAX_BATCH, JobState

Opaque = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{32}\Z")]
"""An account, under a name that no other account manager is told."""
JobName = Annotated[str, msgspec.Meta(min_length=1, max_length=255, pattern=r"\A[\x21-\x7e]+\Z")]
Key = Annotated[str, msgspec.Meta(min_length=1, max_length=100, pattern=r"\A[0-9A-Za-z_]+\Z")]
Day = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]


class EnrolledKeys(Body, frozen=True):
    """Weak keys of the accounts that an account manager looks after."""

    keys: Annotated[list[Key], msgspec.Meta(min_length=1, max_length=MAX_BATCH)]


class EnrolledAccounts(Reply, frozen=True):
    """The names under which their credit is told, in the order of the keys; empty: there is no such account."""

    accounts: list[Annotated[str, msgspec.Meta(pattern=r"\A(?:[0-9a-f]{32})?\Z")]]


class JobQuestion(Body, frozen=True):
    """A job of an account."""

    account: Opaque
    name: JobName


class JobQuestions(Body, frozen=True):
    """Jobs that clients listed."""

    jobs: Annotated[list[JobQuestion], msgspec.Meta(min_length=1, max_length=MAX_BATCH)]


class JobGrant(Reply, frozen=True):
    """What became of a job."""

    state: JobState
    credit: float  #: granted; while it is not decided: what its estimated operations are worth


class JobGrants(Reply, frozen=True):
    """Answers in the order of the questions."""

    jobs: list[JobGrant]


class TotalQuestion(Body, frozen=True):
    """An account, or a computer of it."""

    account: Opaque
    host: Annotated[int, msgspec.Meta(ge=0, le=2**53)] = 0  #: number at the project; 0: all computers


class TotalQuestions(Body, frozen=True):
    """Accounts and computers."""

    totals: Annotated[list[TotalQuestion], msgspec.Meta(min_length=1, max_length=MAX_BATCH)]


class Totals(Reply, frozen=True):
    """Credit in the order of the questions; null: not an account that is told, or not a computer of it."""

    totals: list[float | None]


class SumsQuery(Query, frozen=True):
    """A day, and where to go on."""

    day: Day  #: since 1970, UTC
    after: Annotated[str, msgspec.Meta(pattern=r"\A(?:[0-9a-f]{32})?\Z")] = (
        ""  #: where the answer before ended
    )


class AccountSums(Reply, frozen=True, array_like=True):
    """An account's day."""

    account: str
    final: float  #: granted for good on that day
    provisional: float  #: today: of work that is not decided; 0 for days that are over
    revoked: float  #: taken back on that day


class DaySums(Reply, frozen=True):
    """The three sums of accounts, in order of their names; accounts without any are left out."""

    day: int
    complete: bool  #: nothing more will happen on that day
    accounts: list[AccountSums]
    next: str  #: where to go on, as `after`; empty: that was all


_ACCOUNT, _JOB = "0123456789abcdef" * 2, "a_workunit_of_some_length_0001234_1"
ROW_BYTES = {
    "jobs": len(msgspec.json.encode(JobQuestion(account=_ACCOUNT, name=_JOB)))
    + len(msgspec.json.encode(JobGrant(state=JobState.GRANTED, credit=1234.56789)))
    + 2,
    "totals": len(msgspec.json.encode(TotalQuestion(account=_ACCOUNT)))
    + len(msgspec.json.encode(1234567.89012))
    + 2,
    "sums": len(
        msgspec.json.encode(
            AccountSums(account=_ACCOUNT, final=1234.56789, provisional=123.456789, revoked=0.0)
        )
    )
    + 1,
}
"""Bytes that a row takes, question and answer, before compression and encryption."""
