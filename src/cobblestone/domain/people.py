"""Users and teams."""

from __future__ import annotations

from dataclasses import dataclass

from cobblestone.domain.ids import TeamId, UserId
from cobblestone.domain.statistics import CreditStatement


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """A volunteer's account."""

    id: UserId
    name: str
    email_addr: str
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
    credit: CreditStatement = CreditStatement()


@dataclass(frozen=True, slots=True, kw_only=True)
class Team:
    """A group of users whose credit is also counted together."""

    id: TeamId
    name: str
    founder_id: UserId
    create_time: float = 0.0
    description: str = ""
    url: str = ""
    country: str = ""
    joinable: bool = True  #: whether anybody may join
    credit: CreditStatement = CreditStatement()
