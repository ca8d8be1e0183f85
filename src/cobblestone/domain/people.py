"""Users and teams."""

from __future__ import annotations

from cobblestone.domain.ids import TeamId, UserId
from cobblestone.domain.statistics import CreditStatement
from cobblestone.domain.values import value

OPERATOR = "operator"
"""The role of users who may use the operator's pages."""


@value(kw_only=True)
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
    role: str = ""  #: empty: volunteer; :data:`OPERATOR`
    blocked_reason: str = ""  #: not empty: its hosts get no work
    credit: CreditStatement = CreditStatement()

    @property
    def is_operator(self) -> bool:
        """Whether this user may run the project."""
        return self.role == OPERATOR


@value(kw_only=True)
class Team:
    """A group of users whose credit is also counted together."""

    id: TeamId
    name: str
    founder_id: UserId
    create_time: float = 0.0
    description: str = ""
    url: str = ""
    credit: CreditStatement = CreditStatement()
