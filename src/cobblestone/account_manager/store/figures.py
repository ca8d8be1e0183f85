"""Row counts, and invariants of the rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from cobblestone.account_manager.store import ledger
from cobblestone.account_manager.store.ledger import CREDIT_SUM
from cobblestone.domain.reasons import Finding
from cobblestone.domain.values import DAY
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.people import mails


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerFigures:
    """Rows of an account manager."""

    accounts: int
    hosts: int
    hosts_active: int  #: called within a day
    projects: int
    projects_unusable: int  #: projects with a problem, not stopped
    projects_paused: int
    telling: int  #: projects that are asked what they granted, and answer
    not_telling: int  #: and that do not answer well
    mails_waiting: int
    accounts_waiting: int  #: accounts at projects to be made
    credit: float  #: in the sums of days


def figures(db: Database, *, now: float) -> ManagerFigures:
    """Count the rows."""

    def count(what: str, *parameters: object) -> int:
        return int(db.value(f"SELECT COUNT(*) FROM {what}", parameters))

    return ManagerFigures(
        accounts=count("account"),
        hosts=count("host"),
        hosts_active=count("host WHERE contact_time >= ?", now - DAY),
        projects=count("project"),
        projects_unusable=count("project WHERE problem <> '' AND stopped = 0"),
        projects_paused=count("project WHERE stopped = 1"),
        telling=count("project_accounting WHERE token <> '' AND problem = ''"),
        not_telling=count("project_accounting WHERE token <> '' AND problem <> ''"),
        mails_waiting=count("mail WHERE sent_time IS NULL AND attempts < ?", mails.MAX_ATTEMPTS),
        accounts_waiting=count("project_account WHERE next_try IS NOT NULL AND weak_key = ''"),
        credit=ledger.sum_of(db, "all").credit,
    )


TOLERANCE = 1e-6  #: relative; sums of many parts in another order
#: Tables, a column that names a row of another one, and that one.
_OWNERS = (
    ("host", "account_id", "account"),
    ("host_project", "host_id", "host"),
    ("host_project", "project_id", "project"),
    ("project_account", "account_id", "account"),
    ("project_account", "project_id", "project"),
    ("granted_account", "account_id", "account"),
    ("granted_account", "project_id", "project"),
    ("figure", "account_id", "account"),
    ("listed_job", "account_id", "account"),
    ("ledger", "project_id", "project"),
)


def days_follow(db: Database) -> Iterator[Finding]:
    """Find days whose sums differ from those of their entries."""
    for day in ledger.wrong_days(db):
        yield Finding("not_of_ledger", "day", day, "its sums differ from those of its entries in the ledger")


def totals_follow(db: Database) -> Iterator[Finding]:
    """Find accounts at projects whose total differs from the sum of their entries."""
    for account_id, project_id, total, counted in _wrong_totals(db):
        text = f"its total at project {project_id} is {total:g}, and the ledger has {counted:g}"
        yield Finding("total_differs", "account", account_id, text)


def settle_totals(tx: Transaction) -> int:
    """Set all totals from the ledger; return how many were wrong."""
    wrong = _wrong_totals(tx)
    tx.execute_many(
        "UPDATE project_account SET total = ? WHERE account_id = ? AND project_id = ?",
        [(counted, account_id, project_id) for account_id, project_id, _, counted in wrong],
    )
    return len(wrong)


def _wrong_totals(db: Database) -> list[tuple[int, int, float, float]]:
    rows = db.query(
        "SELECT p.account_id, p.project_id, p.total, COALESCE(l.counted, 0) FROM project_account p LEFT JOIN"
        f" (SELECT account_id, project_id, {CREDIT_SUM} AS counted FROM ledger GROUP BY account_id, project_id) l"
        " ON l.account_id = p.account_id AND l.project_id = p.project_id ORDER BY p.account_id, p.project_id"
    )
    return [
        (account_id, project_id, total, counted)
        for account_id, project_id, total, counted in rows
        if abs(total - counted) > TOLERANCE * max(1.0, abs(counted))
    ]


def orphans(db: Database) -> Iterator[Finding]:
    """Find rows that refer to a missing row."""
    for table, column, owner in _OWNERS:
        rows = db.query(
            f"SELECT {column}, COUNT(*) FROM {table} WHERE NOT EXISTS"
            f" (SELECT 1 FROM {owner} o WHERE o.id = {table}.{column}) GROUP BY {column} ORDER BY {column}"
        )
        for id_, n in rows:
            yield Finding("orphans", owner, id_, f"is gone; rows of {table} that refer to it: {n}")


def wrong_people(db: Database) -> Iterator[Finding]:
    """Find accounts whose weak key is invalid, and whether there is an operator."""
    rows = db.query("SELECT id, weak_authenticator FROM account ORDER BY id")
    for id_, key in rows:
        if not str(key).startswith(f"{id_}_"):
            yield Finding("wrong_weak_key", "account", id_, "its weak key does not begin with its number")
    if rows and not db.value("SELECT COUNT(*) FROM account WHERE is_operator = 1"):
        yield Finding("no_operator", "account", None, "there is no operator")
