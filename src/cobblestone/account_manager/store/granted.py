"""Granted credit: which projects are asked about which accounts, the resulting records, and the displayed figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from cobblestone.domain.errors import NotFound
from cobblestone.policy.account_manager import accounting_policies as policies
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.mapping import RowMapper

#: A job that was listed is asked about for so long.
LISTED_SECONDS = 30 * policies.DAY
ASKED_AFTER_GRANT = 7 * policies.DAY
#: Jobs of one account that are asked about at a time; further ones wait until some are over.
MAX_LISTED = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectAccounting:
    """How a project is asked for granted credit."""

    project_id: int
    token: str = ""  #: empty: it is not asked, and the estimate stays
    vouched: bool = False  #: by the operator: it validates, and what it grants is true
    next_day: int = 0  #: of sums: the first day that is not known whole
    next_ask: float = 0.0
    asked_time: float = 0.0
    failures: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantedAccount:
    """An account as a project reports it."""

    account_id: int
    project_id: int
    told_name: str  #: what the project calls it, to us alone
    weak_key: str = ""  #: that was shown
    record: policies.Confirmation = policies.Confirmation()


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountStanding:
    """The figure shown for an account, and its reasons."""

    shown: float
    target: policies.FigureGoal
    records: Mapping[int, policies.Confirmation]  #: by project, until now


#: The project knows the account; else the row says that it was asked: ``none`` and the account's number.
_NAMED = "LENGTH(g.told_name) = 32"
_PROJECT = RowMapper(ProjectAccounting)
_GRANTED = RowMapper(GrantedAccount)
_FIGURE = RowMapper(policies.ShownFigure)


def project_accounting(db: Database, project_id: int) -> ProjectAccounting:
    """Return how a project is asked; without a set-up it is not asked."""
    found = db.first(_PROJECT, "project_accounting WHERE project_id = ?", (project_id,))
    return found or ProjectAccounting(project_id=project_id)


def all_project_accounting(db: Database) -> dict[int, ProjectAccounting]:
    """Return how projects are asked, by project; those not asked are left out."""
    found = db.load(_PROJECT, "project_accounting WHERE token <> '' ORDER BY project_id")
    return {each.project_id: each for each in found}


def put_project_accounting(tx: Transaction, state: ProjectAccounting) -> None:
    """Store how a project is asked."""
    writer = _PROJECT.writer()
    tx.execute(writer.upsert("project_accounting", "project_id"), writer.values(state))
    tx.wake("granted")


def to_enrol(db: Database, project_id: int, *, limit: int) -> list[tuple[int, str]]:
    """Return accounts whose weak key was not sent to the project yet, as (account, key)."""
    rows = db.query(
        "SELECT p.account_id, p.weak_key FROM project_account p LEFT JOIN granted_account g"
        " ON g.account_id = p.account_id AND g.project_id = p.project_id"
        " WHERE p.project_id = ? AND p.weak_key <> '' AND (g.weak_key IS NULL OR g.weak_key <> p.weak_key)"
        " ORDER BY p.account_id LIMIT ?",
        (project_id, limit),
    )
    return [(account_id, key) for account_id, key in rows]


def enrol(
    tx: Transaction, project_id: int, named: Iterable[tuple[int, str, str]], *, now: float
) -> list[int]:
    """Store the names of accounts, given as (account, weak key, name); return those that another account already has.

    An account of a project counts once: for the first who showed its key.  An empty name: the project does not know the key.
    """
    refused: list[int] = []
    for account_id, key, name in named:
        owner = tx.one(
            "SELECT account_id FROM granted_account WHERE project_id = ? AND told_name = ?",
            (project_id, name),
        )
        anothers = owner is not None and owner[0] != account_id
        if anothers:
            refused.append(account_id)
        kept = name if name and not anothers else f"none {account_id}"
        _name(tx, account_id, project_id, kept, key, now=now)
    return refused


def _name(tx: Transaction, account_id: int, project_id: int, name: str, key: str, *, now: float) -> None:
    """Store the name of an account; what was confirmed under an earlier name stays."""
    before = tx.first(
        _GRANTED, "granted_account WHERE account_id = ? AND project_id = ?", (account_id, project_id)
    )
    if before is None:
        total = "SELECT total FROM project_account WHERE account_id = ? AND project_id = ?"
        estimate = float(tx.value(total, (account_id, project_id)))
        record = policies.Confirmation(estimate=estimate, time=now)
    else:
        record = before.record if before.told_name == name else replace(before.record, mark=None)
    new = GrantedAccount(
        account_id=account_id, project_id=project_id, told_name=name, weak_key=key, record=record
    )
    writer = _GRANTED.writer()
    tx.execute(writer.upsert("granted_account", "account_id", "project_id"), writer.values(new))


def told_names(db: Database, project_id: int) -> dict[str, int]:
    """Return the accounts that a project reports: number by name."""
    rows = db.query(
        f"SELECT told_name, account_id FROM granted_account g WHERE project_id = ? AND {_NAMED} ORDER BY account_id",
        (project_id,),
    )
    return dict(rows)


# -- answers ----------------------------------------------------------------------------------------------


def book(
    tx: Transaction,
    project_id: int,
    policy: policies.AccountingPolicy[policies.Answer_contra],
    answers: Mapping[int, policies.Answer_contra],
    *,
    now: float,
) -> None:
    """Book a project's answers, by account; figures follow."""
    tx.lock("account", answers)  # what contacts of these people change meanwhile goes into the figures
    vouched = _vouched(tx)
    for account_id, answer in answers.items():
        before = _claimed(tx, account_id, now)
        known, figure = before.get(project_id), _figure(tx, account_id, now)
        if known is None or figure is None:
            continue
        marked, statement = policy.read(known, answer)
        after = {**before, project_id: policies.confirm(marked, statement)}
        figure = policies.follow(
            figure, _target(before, vouched, figure), _target(after, vouched, figure), now
        )
        tx.execute(  # the others' claims are counted again when they are asked for
            "UPDATE granted_account SET record = ? WHERE account_id = ? AND project_id = ?",
            (msgspec.json.encode(after[project_id]).decode(), account_id, project_id),
        )
        tx.execute(
            "UPDATE figure SET shown = ?, time = ? WHERE account_id = ?",
            (figure.shown, figure.time, account_id),
        )


def standing(db: Database, account_id: int, *, now: float) -> AccountStanding | None:
    """Return the figure shown for an account now; None if no project reports it."""
    records = _claimed(db, account_id, now)
    figure = db.first(_FIGURE, "figure WHERE account_id = ?", (account_id,))
    if not records or figure is None:
        return None
    target = _target(records, _vouched(db), figure)
    return AccountStanding(shown=policies.shown_at(figure, target, now), target=target, records=records)


def _claimed(db: Database, account_id: int, now: float) -> dict[int, policies.Confirmation]:
    """Return an account's records with what its computers have claimed."""
    rows = db.query(
        f"SELECT {_GRANTED.of('g')}, p.total FROM granted_account g JOIN project_account p"
        " ON p.account_id = g.account_id AND p.project_id = g.project_id"
        " JOIN project_accounting a ON a.project_id = g.project_id AND a.token <> ''"
        f" WHERE g.account_id = ? AND {_NAMED}",
        (account_id,),
    )
    found: dict[int, policies.Confirmation] = {}
    for row in rows:
        known = _GRANTED.load(row)
        found[known.project_id] = policies.claim(known.record, float(row[-1]), now=now)
    return found


def _target(
    records: Mapping[int, policies.Confirmation], vouched: frozenset[int], figure: policies.ShownFigure
) -> policies.FigureGoal:
    final, pending = policies.sums_for_figure((record, id_ in vouched) for id_, record in records.items())
    return policies.target_of(final, pending, starter=figure.starter)


def _vouched(db: Database) -> frozenset[int]:
    return frozenset(
        int(row[0]) for row in db.query("SELECT project_id FROM project_accounting WHERE vouched = 1")
    )


def _figure(tx: Transaction, account_id: int, now: float) -> policies.ShownFigure | None:
    """Return the figure of an account; it is made after a computer's contact, with what is left for its address block."""
    found = tx.first(_FIGURE, "figure WHERE account_id = ?", (account_id,))
    if found is not None:
        return found
    block = tx.value(
        "SELECT address_block FROM host WHERE account_id = ? ORDER BY create_time, id LIMIT 1", (account_id,)
    )
    if block is None:
        return None
    outstanding = tx.value("SELECT COALESCE(SUM(starter), 0) FROM figure WHERE address_block = ?", (block,))
    made = policies.ShownFigure(time=now, starter=policies.starter_of_new(float(outstanding)))
    tx.execute(
        "INSERT INTO figure (account_id, shown, time, starter, address_block) VALUES (?, ?, ?, ?, ?)",
        (account_id, made.shown, made.time, made.starter, block),
    )
    return made


# -- jobs that clients listed -----------------------------------------------------------------------------


def list_jobs(tx: Transaction, account_id: int, jobs: Iterable[tuple[int, str]], *, now: float) -> None:
    """Store the names of jobs, given as (project, name): a job counts once, for the first who listed it."""
    known = int(tx.value("SELECT COUNT(*) FROM listed_job WHERE account_id = ?", (account_id,)))
    tx.execute_many(
        "INSERT INTO listed_job (project_id, name, account_id, until) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (project_id, name) DO NOTHING",
        [(project_id, name, account_id, now + LISTED_SECONDS) for project_id, name in jobs][
            : max(0, MAX_LISTED - known)
        ],
    )


def open_jobs(db: Database, project_id: int) -> dict[int, dict[str, float]]:
    """Return jobs to be asked about, with their grants so far: by account and name."""
    rows = db.query(
        "SELECT account_id, name, granted FROM listed_job WHERE project_id = ? ORDER BY account_id, name",
        (project_id,),
    )
    found: dict[int, dict[str, float]] = {}
    for account_id, name, granted in rows:
        found.setdefault(int(account_id), {})[str(name)] = float(granted)
    return found


def settle_jobs(
    tx: Transaction, project_id: int, granted: Mapping[str, float], over: Sequence[str], *, now: float
) -> None:
    """Store the grants of jobs, and forget those that need no more questions."""
    tx.execute_many(
        "UPDATE listed_job SET granted = ?, until = CASE WHEN granted = 0 THEN ? ELSE until END"
        " WHERE project_id = ? AND name = ?",
        [(credit, now + ASKED_AFTER_GRANT, project_id, name) for name, credit in granted.items()],
    )
    tx.execute_many(
        "DELETE FROM listed_job WHERE project_id = ? AND name = ?", [(project_id, name) for name in over]
    )
    tx.execute("DELETE FROM listed_job WHERE project_id = ? AND until < ?", (project_id, now))


def change(
    tx: Transaction, project_id: int, *, token: str | None = None, vouched: bool | None = None, now: float
) -> ProjectAccounting:
    """Change how a project is asked, and have it asked; return its new state.

    Raises:
        NotFound: there is no such project.
    """
    if tx.one("SELECT 1 FROM project WHERE id = ?", (project_id,)) is None:
        raise NotFound(f"There is no project {project_id} here.")
    known = project_accounting(tx, project_id)
    if token is not None and token != known.token:
        # Another token is told of the same accounts under other names.
        tx.execute("UPDATE granted_account SET weak_key = '' WHERE project_id = ?", (project_id,))
    given = {"token": token, "vouched": vouched}
    said = {name: each for name, each in given.items() if each is not None}
    changed = replace(known, **said, next_ask=now, failures=0, problem="")
    put_project_accounting(tx, changed)
    return changed
