"""What programs of an account manager's operator ask it, and are answered."""

from __future__ import annotations

from typing import Annotated

import msgspec

from cobblestone.api_schema.values import Query, Reply

MAX_DAYS = 366


class Daemon(Reply, frozen=True):
    """A daemon of the process that answers."""

    name: str
    state: str
    last_error: str


class Collecting(Reply, frozen=True):
    """How a project is asked what it granted."""

    vouched: bool
    asked_time: float  #: Unix seconds; 0: never
    next_ask: float
    failures: int
    problem: str


class ManagerStatus(Reply, frozen=True):
    """How an account manager is."""

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
    """A project, and why no computer is sent there."""

    id: int
    url: str
    name: str
    share: float
    paused: bool
    problem: str  #: why it cannot be used; empty: it can
    failures: int  #: looks in vain, in turn
    checked_time: float  #: Unix seconds; 0: never
    next_check: float
    without_work: dict[str, float]  #: by device: 1, it lately had no work when it was asked; 0, it had
    credit: float  #: counted in all, estimated
    collecting: Collecting | None  #: None: it is not asked what it granted


class ProjectList(Reply, frozen=True):
    """All projects."""

    projects: list[Project]


class DaysQuery(Query, frozen=True):
    """Which days."""

    days: Annotated[int, msgspec.Meta(ge=1, le=MAX_DAYS)] = 30  #: with today


class ProjectDay(Reply, frozen=True):
    """What was counted for a project on a day."""

    project: int
    day: int  #: days since 1970, UTC
    credit: float  #: estimated
    cpu_seconds: float
    gpu_seconds: float
    jobs: float
    failed_jobs: float


class ProjectDays(Reply, frozen=True):
    """The days on which something was counted, by project and in order."""

    days: list[ProjectDay]
