"""How much there is of everything."""

from __future__ import annotations

from dataclasses import dataclass

from cobblestone.account_manager.store import ledger
from cobblestone.domain.statistics import SECONDS_PER_DAY
from cobblestone.store.engine.database import Database
from cobblestone.store.people import mails


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerFigures:
    """Rows of an account manager."""

    accounts: int
    hosts: int
    hosts_active: int  #: called within a day
    projects: int
    unusable: int  #: projects with a problem, not stopped
    stopped: int
    telling: int  #: projects that are asked what they granted, and answer
    not_telling: int  #: and that do not answer well
    mails_waiting: int
    waiting: int  #: accounts at projects to be made
    credit: float  #: in the sums of days


def figures(db: Database, *, now: float) -> ManagerFigures:
    """Count the rows."""

    def count(what: str, *parameters: object) -> int:
        return int(db.value(f"SELECT COUNT(*) FROM {what}", parameters))

    return ManagerFigures(
        accounts=count("account"),
        hosts=count("host"),
        hosts_active=count("host WHERE contact_time >= ?", now - SECONDS_PER_DAY),
        projects=count("project"),
        unusable=count("project WHERE problem <> '' AND stopped = 0"),
        stopped=count("project WHERE stopped = 1"),
        telling=count("project_accounting WHERE token <> '' AND problem = ''"),
        not_telling=count("project_accounting WHERE token <> '' AND problem <> ''"),
        mails_waiting=count("mail WHERE sent_time IS NULL AND attempts < ?", mails.MAX_ATTEMPTS),
        waiting=count("project_account WHERE next_try IS NOT NULL AND weak_key = ''"),
        credit=ledger.sum_of(db, "all").credit,
    )
