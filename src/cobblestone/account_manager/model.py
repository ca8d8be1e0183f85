"""The data model of an account manager: people, projects, computers."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Literal

from cobblestone.policy.account_manager.accounting import Meter, ReportRecord
from cobblestone.policy.account_manager.selection import OfferedVersion

Mode = Literal["science", "classic"]
Preset = Literal["standard", "low_power", "maximum"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountChoices:
    """The choices of an account."""

    mode: Mode = "science"  #: by what shall be supported; or classic: each project by hand
    preset: Preset = "standard"
    venue_presets: dict[str, Preset] = field(default_factory=dict[str, Preset])  #: where they differ
    yes: tuple[int, ...] = ()  #: keywords
    no: tuple[int, ...] = ()
    kept_out: tuple[int, ...] = ()  #: projects
    kept_out_devices: tuple[tuple[int, str], ...] = ()
    shares: dict[int, float] = field(default_factory=dict[int, float])  #: classic: by project
    suspended: tuple[int, ...] = ()  #: projects
    #: whether statistics sites may get name and credit from projects; None: never said
    statistics: bool | None = None
    team_name: str = ""  #: at projects that have a team of this name
    changed: float = 0.0  #: Unix seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerAccount:
    """An account."""

    id: int
    email_addr: str
    name: str
    authenticator: str  #: the secret key
    weak_authenticator: str  #: what computers have: it opens no page
    project_secret: str  #: from which the password at projects is made
    language: str = ""
    session_epoch: int = 0
    is_operator: bool = False
    email_verified_time: float | None = None  #: when a mail was seen to arrive
    choices: AccountChoices = AccountChoices()
    create_time: float = 0.0

    @property
    def cross_project_id(self) -> str:
        """Return the id that joins the accounts at projects for statistics sites; each project combines it with the address."""
        return hashlib.blake2b(
            b"cross-project id", key=self.project_secret.encode(), digest_size=16
        ).hexdigest()

    @property
    def erased(self) -> bool:
        """Return False: a deleted account has no row."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Keyword:
    """A subject or place that jobs are about."""

    id: int
    kind: str  #: ``subject`` or ``place``
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedProject:
    """A project that computers can be sent to."""

    id: int
    url: str
    address_key: str  #: the same for all spellings of the address
    url_signature: str
    name: str = ""
    share: float = 1.0
    stopped: bool = False  #: by the operator
    shared_key: str = ""  #: weak key of one account for all people; empty: each user has an account there
    keywords: dict[int, float] = field(default_factory=dict[int, float])
    versions: frozenset[OfferedVersion] = frozenset()
    dryness: dict[str, float] = field(default_factory=dict[str, float])
    done: float = 0.0  #: see `Balance`
    done_time: float = 0.0
    expected: float = 0.0
    failures: int = 0
    next_check: float = 0.0
    problem: str = ""
    checked_time: float = 0.0
    create_time: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectAccount:
    """An account at a project."""

    project_id: int
    weak_key: str = ""
    problem: str = ""
    told_time: float | None = None  #: when the project was told last who is behind the account
    told_problem: str = ""  #: why it could not be told everything
    total: float = 0.0  #: estimated credit
    recent: float = 0.0  #: average a day, at ``recent_time``
    recent_time: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputerFacts:
    """A computer's description of itself."""

    host_cpid: str = ""
    domain_name: str = ""
    address_block: str = ""
    p_vendor: str = ""
    p_model: str = ""
    ncpus: int = 1
    p_fpops: float = 0.0
    gpu_model: str = ""
    ngpus: int = 0
    gpu_flops: float = 0.0
    os_name: str = ""
    os_version: str = ""
    client_version: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectWhy:
    """The stored reason why a project was or was not chosen for a computer."""

    project_id: int
    chosen: bool
    reasons: tuple[dict[str, object], ...]  #: see `Reason.as_json`


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagedHost:
    """A computer."""

    id: int
    account_id: int
    host_key: str  #: what it shows at each contact; a secret
    facts: ComputerFacts
    venue: str = ""
    hidden: bool = False
    meter: Meter | None = None
    why: tuple[ProjectWhy, ...] = ()
    create_time: float = 0.0
    contact_time: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HostProject:
    """A computer at a project."""

    project_id: int
    project_host_id: int = 0
    record: ReportRecord = ReportRecord()
    expected: float = 0.0  #: credit booked until the next contact
