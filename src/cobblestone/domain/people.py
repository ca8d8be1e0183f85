"""Users, teams, the scopes of tokens, and the keywords by which users choose what they support.

Numbers, names and tree of the keywords are those of the family's central list, so that a choice made at an account manager
means the same everywhere.  Source: BOINC's ``html/inc/keywords.inc`` (facts; three institutes stand there under the wrong
country).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum, StrEnum

from cobblestone.domain.errors import JobError
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


@dataclass(frozen=True, slots=True)
class Keyword:
    """A subject or a place."""

    id: int
    name: str  #: translated where it is shown
    parent: int = 0  #: a wider one; 0: none


_LIST = (
    Keyword(1, "Astronomy"),
    Keyword(2, "Search for Extraterrestrial Intelligence", 1),
    Keyword(3, "Detection and study of pulsars", 1),
    Keyword(4, "Detection and study of gravitational waves", 1),
    Keyword(5, "Cosmology", 1),
    Keyword(6, "Physics"),
    Keyword(7, "Particle physics", 6),
    Keyword(8, "Nanoscience", 6),
    Keyword(9, "Biology and Medicine"),
    Keyword(10, "Drug discovery", 9),
    Keyword(11, "Protein research", 9),
    Keyword(12, "Genetics and Phylogeny", 9),
    Keyword(13, "Disease research", 9),
    Keyword(17, "Diabetes research", 13),
    Keyword(14, "Cancer research", 13),
    Keyword(18, "Prostate cancer research", 14),
    Keyword(19, "Breast cancer research", 14),
    Keyword(15, "Mathematics and Computer Science"),
    Keyword(32, "Number Theory", 15),
    Keyword(33, "Cryptography", 15),
    Keyword(16, "Artificial Intelligence and Cognitive Science"),
    Keyword(29, "Earth sciences"),
    Keyword(34, "Environmental research", 29),
    Keyword(35, "Climate research", 29),
    Keyword(20, "Europe"),
    Keyword(27, "CERN", 20),
    Keyword(36, "Czech Republic", 20),
    Keyword(37, "Charles University in Prague", 36),
    Keyword(21, "Germany", 20),
    Keyword(26, "Albert Einstein Institute for Gravitational Physics", 21),
    Keyword(38, "Rechenkraft.net e.V", 21),
    Keyword(39, "Hochschule RheinMain University of Applied Sciences", 21),
    Keyword(40, "Hungary", 20),
    Keyword(41, "Ireland", 20),
    Keyword(42, "University College Dublin", 41),
    Keyword(43, "Poland", 20),
    Keyword(44, "Russia", 20),
    Keyword(45, "Southwest State University, Russia", 44),
    Keyword(46, "Russian Academy of Science", 44),
    Keyword(30, "Spain", 20),
    Keyword(31, "San Jorge University, Zaragoza, Spain", 30),
    Keyword(47, "Barcelona Biomedical Research Park", 30),
    Keyword(48, "United Kingdom", 20),
    Keyword(49, "Oxford University", 48),
    Keyword(22, "Asia"),
    Keyword(50, "China", 22),
    Keyword(23, "Americas"),
    Keyword(24, "United States", 23),
    Keyword(25, "University of California, Berkeley", 24),
    Keyword(28, "University of Washington", 24),
    Keyword(51, "University of Dayton", 24),
    Keyword(52, "Wright State University", 24),
    Keyword(53, "University of Southern California", 24),
    Keyword(54, "California State University Fullerton", 24),
    Keyword(55, "Arizona State University", 24),
)
#: By number; subjects first, each behind its wider one.
KEYWORDS = {each.id: each for each in _LIST}


_PLACES = frozenset({20, 22, 23})


def is_place(number: int) -> bool:
    """Return whether a keyword of the list is where research is done, not what it is about."""
    return not _PLACES.isdisjoint(with_wider((number,)))


def with_wider(numbers: Iterable[int]) -> tuple[int, ...]:
    """Return keywords with all wider ones, in ascending order, so that who refuses medicine gets no cancer research.

    Raises:
        JobError: the list has no such number.
    """
    found: set[int] = set()
    waiting = list(numbers)
    while waiting:
        number = waiting.pop()
        if number not in KEYWORDS:
            raise JobError(f"There is no keyword {number}. List them: cobblestone app keywords")
        found.add(number)
        if parent := KEYWORDS[number].parent:
            waiting.append(parent)
    return tuple(sorted(found))
