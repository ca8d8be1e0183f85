"""Users, teams, and the scopes of tokens."""

from __future__ import annotations

from enum import IntEnum, StrEnum

from cobblestone.domain.statistics import CreditStatement
from cobblestone.domain.values import AppId, TeamId, UserId, value

#: The role of users who may use the operator's pages.
OPERATOR = "operator"


@value(kw_only=True)
class User:
    """A volunteer's account."""

    id: UserId
    name: str
    email_addr: str
    email_verified: bool = False  #: whether someone opened a link that was sent there
    authenticator: str
    weak_authenticator: str = ""
    cross_project_id: str = ""
    create_time: float = 0.0
    team_id: TeamId | None = None
    venue: str = ""
    country: str = ""
    url: str = ""
    global_prefs: str = ""
    project_prefs: str = ""
    show_hosts: bool = True
    send_email: bool = True  #: whether the project may write about computers that fail
    language: str = ""  #: of pages and mails; empty: the browser's
    second_factor: bool = False  #: whether a one-time password is asked for at log-in
    session_epoch: int = 0  #: raised to end all sessions
    erase_time: float | None = None  #: Unix seconds: when the account is to be erased, or was
    erased: bool = False
    role: str = ""  #: empty: volunteer; :data:`OPERATOR`
    blocked_reason: str = ""  #: not empty: its hosts get no work
    credit: CreditStatement = CreditStatement()

    @property
    def is_operator(self) -> bool:
        """Return whether this user may run the project."""
        return self.role == OPERATOR


@value(kw_only=True)
class ProjectPreferences:
    """The volunteer's choices on the project's preferences page, for one venue."""

    selected_apps: frozenset[AppId] = frozenset()  #: empty = all
    allow_non_preferred: bool = False  #: other apps too when the selected ones have no work
    allow_beta: bool = False
    no_cpu: bool = False
    no_gpu_types: frozenset[str] = frozenset()  #: GPU types that must not be used
    max_jobs: int = 0  #: jobs in progress on a host; 0 = no limit
    max_cpus: int = 0  #: 0 = no limit
    resource_share: float = 100.0  #: for the client, against other projects
    keywords_yes: frozenset[int] = frozenset()  #: first the jobs that have these
    keywords_no: frozenset[int] = frozenset()  #: none that has one of these


class TeamType(IntEnum):
    """Types of teams, with the family's numbers."""

    CLUB = 1  #: also what fits none of the others
    COMPANY = 2
    PRIMARY_SCHOOL = 3
    SECONDARY_SCHOOL = 4
    JUNIOR_COLLEGE = 5
    UNIVERSITY = 6
    GOVERNMENT = 7


@value(kw_only=True)
class Team:
    """A group of users whose credit is also counted together."""

    id: TeamId
    name: str
    founder_id: UserId
    create_time: float = 0.0
    type: TeamType = TeamType.CLUB
    name_html: str = ""  #: the name as its founder wrote it for statistics sites: not safe to show as it is
    description: str = ""
    url: str = ""
    country: str = ""
    joinable: bool = True  #: whether anybody may join
    credit: CreditStatement = CreditStatement()


class ConsentKind(StrEnum):
    """Kinds of consent."""

    TERMS = "terms"  #: the project's terms of use
    STATISTICS = "statistics"  #: that statistics sites get the account's name and credit


@value(kw_only=True)
class SubmitRights:
    """What a token, or an account, may submit."""

    apps: tuple[str, ...] | None = None  #: names; None: all
    max_jobs: int | None = None  #: unfinished jobs at a time; None: no limit
    share: float = 1.0  #: of the computers, against other submitters: `cobblestone.policy.dispatch.catalogue`


class Scope(StrEnum):
    """The permission of a token."""

    READ = "read"  #: look at apps, batches and outputs
    SUBMIT = "submit"  #: upload input files, submit, cancel and retire batches
    ACCOUNT = "account"  #: read the data of one account: computers, tasks, credit
    COMPUTE = "compute"  #: get jobs for one browser, and report them
    ACCOUNTING = "accounting"  #: be told what accounts were granted whose weak keys one has
    MANAGE = "manage"  #: apps, versions, signatures, tokens, users, teams, news
