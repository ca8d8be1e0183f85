"""Requests of an account manager's operator to its API, and of an account manager to a project."""

from __future__ import annotations

from typing import Annotated

import msgspec

from cobblestone.api_schema.values import Body, Query, Reply
from cobblestone.domain.exports import MAX_BATCH, CountedJobState

MAX_DAYS = 366


class Daemon(Reply, frozen=True):
    """A daemon of the process that answers."""

    name: str
    state: str
    last_error: str


class Collecting(Reply, frozen=True):
    """How a project is asked for granted credit."""

    vouched: bool
    asked_time: float  #: Unix seconds; 0: never
    next_ask: float
    failures: int
    problem: str


class ManagerStatus(Reply, frozen=True):
    """The state of an account manager."""

    name: str
    version: str
    accounts: int  #: people
    hosts: int
    hosts_active: int  #: called within a day
    projects: int
    projects_unusable: int  #: with a problem, not paused
    projects_paused: int
    accounts_waiting: int  #: accounts at projects that are still to be made
    mails_waiting: int
    credit: float  #: counted in all, estimated
    daemons: list[Daemon]
    warnings: dict[str, str]  #: by code


class Project(Reply, frozen=True):
    """A project, and why no computer is sent to it."""

    id: int
    url: str
    name: str
    share: float
    paused: bool
    problem: str  #: why it cannot be used; empty: it can
    failures: int  #: failed looks in a row
    checked_time: float  #: Unix seconds; 0: never
    next_check: float
    without_work: dict[str, float]  #: by device: 1, it lately had no work when it was asked; 0, it had
    credit: float  #: counted in all, estimated
    collecting: Collecting | None  #: None: it is not asked what it granted


class ProjectList(Reply, frozen=True):
    """All projects."""

    projects: list[Project]


class DaysQuery(Query, frozen=True):
    """A range of days."""

    days: Annotated[int, msgspec.Meta(ge=1, le=MAX_DAYS)] = 30  #: with today


class ProjectDay(Reply, frozen=True):
    """What was counted for a project on one day."""

    project: int
    day: int  #: days since 1970, UTC
    credit: float  #: estimated
    cpu_seconds: float
    gpu_seconds: float
    jobs: float
    failed_jobs: float


class ProjectDays(Reply, frozen=True):
    """The days on which something was counted, by project and date."""

    days: list[ProjectDay]


#: An account, under a name that no other account manager is told.
Opaque = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{32}\Z")]
JobName = Annotated[str, msgspec.Meta(min_length=1, max_length=255, pattern=r"\A[\x21-\x7e]+\Z")]
Key = Annotated[str, msgspec.Meta(min_length=1, max_length=100, pattern=r"\A[0-9A-Za-z_]+\Z")]
Day = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]


class EnrolledKeys(Body, frozen=True):
    """Weak keys of accounts that an account manager handles."""

    keys: Annotated[list[Key], msgspec.Meta(min_length=1, max_length=MAX_BATCH)]


class EnrolledAccounts(Reply, frozen=True):
    """The names under which their credit is reported, in the order of the keys; empty: no such account."""

    accounts: list[Annotated[str, msgspec.Meta(pattern=r"\A(?:[0-9a-f]{32})?\Z")]]


class JobQuestion(Body, frozen=True):
    """A job of an account."""

    account: Opaque
    name: JobName


class JobQuestions(Body, frozen=True):
    """Jobs that clients listed."""

    jobs: Annotated[list[JobQuestion], msgspec.Meta(min_length=1, max_length=MAX_BATCH)]


class JobGrant(Reply, frozen=True):
    """What was granted for a job."""

    state: CountedJobState
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
    """Credit in the order of the questions; null: the account is not reported, or the computer is not its own."""

    totals: list[float | None]


class SumsQuery(Query, frozen=True):
    """A day, and where to continue."""

    day: Day  #: since 1970, UTC
    #: where the answer before ended
    after: Annotated[str, msgspec.Meta(pattern=r"\A(?:[0-9a-f]{32})?\Z")] = ""


class AccountSums(Reply, frozen=True, array_like=True):
    """An account's sums for a day."""

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
