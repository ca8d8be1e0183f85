"""Tokens, accounts, teams and news, for the operator; and the account data that volunteers' own programs can read."""

from __future__ import annotations

from typing import Annotated

import msgspec

from cobblestone.api_schema.apps import AppName
from cobblestone.api_schema.values import Body, FilledLine, Id, Line, PageQuery, Position, Query, Reply, Text
from cobblestone.domain.people import Scope
from cobblestone.domain.work import TaskState

MAX_TASKS = 500


class Rights(Body, frozen=True, kw_only=True):
    """What a token, or an account, may submit."""

    #: None: all
    apps: Annotated[tuple[AppName, ...], msgspec.Meta(min_length=1, max_length=200)] | None = None
    max_jobs: Annotated[int, msgspec.Meta(ge=1, le=10**9)] | None = None
    #: unfinished jobs at a time; None: no limit
    share: Annotated[float, msgspec.Meta(gt=0, le=1e6)] = 1.0  #: of the computers, against other submitters


class NewToken(Rights, frozen=True, kw_only=True):
    """A new token."""

    name: FilledLine
    scopes: Annotated[list[Scope], msgspec.Meta(min_length=1, max_length=10)]
    days: Annotated[float, msgspec.Meta(gt=0, le=36500)] | None = None  #: None: until it is revoked


class SubmitLimits(Reply, frozen=True):
    """What may be submitted."""

    share: float
    apps: tuple[str, ...] | None  #: None: all
    max_jobs: int | None  #: unfinished ones at a time; None: no limit


class GivenRights(SubmitLimits, frozen=True):
    """What an account may submit."""

    jobs_in_progress: int  #: unfinished ones of its own batches


class Token(SubmitLimits, frozen=True):
    """A token, without its text."""

    id: int
    name: str
    scopes: list[str]
    created: float
    expires: float | None
    revoked: float | None
    usable: bool


class CreatedToken(Token, frozen=True):
    """A new token; its text is shown only once."""

    token: str


class TokenList(Reply, frozen=True):
    """All tokens, newest first."""

    tokens: list[Token]


class NewUser(Body, frozen=True):
    """A new account."""

    email: Annotated[str, msgspec.Meta(min_length=3, max_length=254)]
    name: FilledLine
    password: Annotated[str, msgspec.Meta(max_length=200)] = ""
    #: empty: a random one; clients attach with the authenticator


class Account(Reply, frozen=True):
    """What its owner and operators see of an account."""

    id: int
    name: str
    created: float
    team_id: int | None
    total_credit: float


class User(Account, frozen=True):
    """An account."""

    email: str


class CreatedUser(User, frozen=True):
    """A new account, with the key by which clients attach: boinccmd --project_attach URL AUTHENTICATOR."""

    authenticator: str


class UserList(Reply, frozen=True):
    """Accounts, newest first."""

    users: list[User]


class UsersQuery(PageQuery, frozen=True):
    """Which accounts."""

    role: Annotated[str, msgspec.Meta(max_length=20)] | None = None  #: operator; empty: volunteers
    blocked: bool | None = None  #: whose computers get no tasks


class UserDetails(User, frozen=True):
    """An account as operators see it."""

    recent_average_credit: float
    country: str
    url: str
    language: str
    venue: str
    role: str
    blocked: str  #: why its computers get no tasks; empty: they do
    show_hosts: bool
    send_email: bool
    second_factor: bool
    erase_time: float | None  #: Unix seconds: when it is to be erased
    computers: int
    tasks: dict[str, int]  #: by state, of the newest 20,000
    submits: GivenRights | None  #: None: it may not submit jobs


class UserChanges(Body, frozen=True):
    """Changes to an account; omitted members keep their value."""

    name: FilledLine | None = None
    country: Line | None = None
    url: Line | None = None
    language: Annotated[str, msgspec.Meta(max_length=10)] | None = None  #: empty: the browser's
    show_hosts: bool | None = None
    send_email: bool | None = None


class NewTeam(Body, frozen=True):
    """A new team."""

    name: FilledLine
    founder: Id  #: user id


class Team(Reply, frozen=True):
    """A team."""

    id: int
    name: str
    founder: int
    created: float
    total_credit: float


class TeamsQuery(Query, frozen=True):
    """Which teams."""

    name: FilledLine | None = None  #: the one that is called so
    after: Position = 0  #: only larger ids


class TeamList(Reply, frozen=True):
    """Teams in the order of their ids, at most 1000: ask for more ``after`` the last one."""

    teams: list[Team]


class TeamMember(Body, frozen=True):
    """The user who joins."""

    user: Id


class NewNews(Body, frozen=True):
    """A new news item."""

    title: FilledLine
    text: Text


class News(Reply, frozen=True):
    """A news item."""

    id: int
    title: str
    text: str
    time: float  #: Unix seconds


class NewsList(Reply, frozen=True):
    """News, newest first."""

    news: list[News]


class NewsChanges(Body, frozen=True):
    """Changes to a news item; omitted members keep their value."""

    title: FilledLine | None = None
    text: Text | None = None


class OwnAccount(Account, frozen=True):
    """The account of the token's owner."""

    recent_average_credit: float
    tasks: dict[str, int]  #: by state, of the newest 20,000


class Computer(Reply, frozen=True):
    """What everyone who may see a computer sees of it."""

    id: int
    name: str  #: as its client says
    created: float
    last_contact: float
    total_credit: float
    recent_average_credit: float
    blocked: str  #: why it gets no tasks; empty: it does


class OwnComputer(Computer, frozen=True):
    """A computer."""

    venue: str
    processor: str
    cpus: int
    system: str


class OwnComputers(Reply, frozen=True):
    """Computers, latest contact first."""

    computers: list[OwnComputer]


class OwnTask(Reply, frozen=True):
    """A task."""

    id: int
    name: str
    workunit: int
    app: str
    computer: int | None
    state: str | None
    sent: float | None
    deadline: float | None
    reported: float | None
    run_time: float
    cpu_time: float
    exit_status: int
    credit: float
    exit_meaning: str  #: of a task that failed: what the status means, and what to do


class OwnTasks(Reply, frozen=True):
    """Tasks, newest first; ``before`` for the next page, if there is one."""

    tasks: list[OwnTask]
    before: int | None


class TasksQuery(Query, frozen=True):
    """A part of the list."""

    state: TaskState | None = None
    computer: Id | None = None
    app: Id | None = None
    before: Id | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_TASKS)] = 100
