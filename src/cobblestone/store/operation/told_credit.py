"""Credit reported to account managers: of accounts whose weak key they presented, under names known only to them.

Final is what was granted, with the messages of running jobs once the job itself was granted; revoked is what was taken back of
that.  Provisional is expected of work that is not decided, half of it while the work is on a computer.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from cobblestone.api_schema.account_manager import AccountSums
from cobblestone.domain.exports import MAX_BATCH, CountedJobState
from cobblestone.domain.values import DAY
from cobblestone.domain.work import TaskState
from cobblestone.store.credit.ledger import IS_GRANT
from cobblestone.store.credit.ledger_state import provisional_credit
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.operation.page_queries import TASK_CONDITIONS, TASK_STATE

CREDIT_PER_FLOP = 200.0 / (DAY * 1e9)
_RUNS = TASK_CONDITIONS[TaskState.IN_PROGRESS]
_NOT_DECIDED = f"({_RUNS} OR {TASK_CONDITIONS[TaskState.WAITING]})"
_EXPECTED = f"CASE WHEN {_RUNS} THEN 0.5 ELSE 1.0 END * w.rsc_fpops_est * {CREDIT_PER_FLOP!r}"
#: What is said of tasks in these states; others are refused.
_COUNTED = {
    TaskState.IN_PROGRESS: CountedJobState.IN_PROGRESS,
    TaskState.WAITING: CountedJobState.REPORTED,
    TaskState.VALID: CountedJobState.GRANTED,
}
# Who changed the key, or left, is told of no more until the new key is shown.
_TOLD = (
    "told_account t JOIN user_account u ON u.id = t.user_id AND u.weak_authenticator = t.weak_authenticator"
)


def enrol(tx: Transaction, token_id: int, weak_keys: Sequence[str], *, now: float) -> list[str]:
    """Return the names of accounts in the order of their weak keys; empty for an unknown key."""
    by_key = "SELECT weak_authenticator, id FROM user_account WHERE weak_authenticator IN (??) AND erased_time IS NULL"
    found: dict[str, int] = dict(tx.query_in(by_key, list(dict.fromkeys(weak_keys))))
    named = "SELECT user_id, account FROM told_account WHERE token_id = ? AND user_id IN (??)"
    known: dict[int, str] = dict(tx.query_in(named, sorted(found.values()), (token_id,)))
    names = {key: known.get(user_id) or secrets.token_hex(16) for key, user_id in found.items()}
    tx.execute_many(
        "INSERT INTO told_account (token_id, account, user_id, weak_authenticator, enrol_time) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (token_id, user_id) DO UPDATE SET weak_authenticator = excluded.weak_authenticator",
        [(token_id, names[key], user_id, key, now) for key, user_id in found.items()],
    )
    return [names.get(key, "") for key in weak_keys]


def _users(db: Database, token_id: int, accounts: Sequence[str]) -> dict[str, int]:
    sql = f"SELECT t.account, t.user_id FROM {_TOLD} WHERE t.token_id = ? AND t.account IN (??)"
    return dict(db.query_in(sql, list(dict.fromkeys(accounts)), (token_id,)))


def job_grants(
    db: Database, token_id: int, questions: Sequence[tuple[str, str]]
) -> list[tuple[CountedJobState, float]]:
    """Return state and credit of jobs, each given as (account, name), in that order."""
    users = _users(db, token_id, [account for account, _ in questions])
    rows = db.query_in(
        f"SELECT r.name, r.user_id, {TASK_STATE}, r.granted_credit, w.rsc_fpops_est * {CREDIT_PER_FLOP!r}"
        " FROM result r JOIN workunit w ON w.id = r.workunit_id WHERE r.name IN (??)",
        list(dict.fromkeys(name for _, name in questions)),
    )
    found = {(str(row[0]), row[1]): _grant(*row[2:]) for row in rows}
    unknown = (CountedJobState.UNKNOWN, 0.0)
    return [found.get((name, users.get(account, -1)), unknown) for account, name in questions]


def _grant(task: str | None, granted: float, expected: float) -> tuple[CountedJobState, float]:
    state = (
        CountedJobState.REFUSED if task is None else _COUNTED.get(TaskState(task), CountedJobState.REFUSED)
    )
    if state is CountedJobState.REFUSED:
        return state, 0.0
    return state, granted if state is CountedJobState.GRANTED else expected


def totals(db: Database, token_id: int, questions: Sequence[tuple[str, int]]) -> list[float | None]:
    """Return the credit of accounts, or of their computers, each given as (account, computer or 0); None: not reported."""
    users = _users(db, token_id, [account for account, _ in questions])
    total = "SELECT id, total_credit FROM user_account WHERE id IN (??)"
    of_user: dict[int, float] = dict(db.query_in(total, sorted(set(users.values()))))
    hosts = sorted({host for _, host in questions if host})
    sql = "SELECT id, user_id, total_credit FROM host WHERE id IN (??)"
    of_host = {(host, user): float(credit) for host, user, credit in db.query_in(sql, hosts)}
    return [
        of_host.get((host, users.get(account, -1))) if host else of_user.get(users.get(account, -1))
        for account, host in questions
    ]


def day_sums(
    db: Database, token_id: int, *, day: int, after: str, today: bool, limit: int = MAX_BATCH
) -> tuple[list[AccountSums], str]:
    """Return the sums of a day, by account name, and where to continue (empty: at the end).

    ``today``: with what is provisional now.
    """
    rows = db.query(
        f"SELECT t.account, t.user_id FROM {_TOLD} WHERE t.token_id = ? AND t.account > ? ORDER BY t.account LIMIT ?",
        (token_id, after, limit),
    )
    users: dict[int, str] = {user_id: account for account, user_id in rows}
    final, revoked = _granted_on(db, sorted(users), day)
    pending = _provisional(db, sorted(users)) if today else {}
    found = [
        AccountSums(account, final.get(user_id, 0.0), pending.get(user_id, 0.0), revoked.get(user_id, 0.0))
        for user_id, account in users.items()
        if user_id in final or user_id in revoked or user_id in pending
    ]
    return found, str(rows[-1][0]) if len(rows) == limit else ""


def _granted_on(db: Database, users: Sequence[int], day: int) -> tuple[dict[int, float], dict[int, float]]:
    """Return what became final and what was taken back on a day, by user."""
    when = (day * DAY, (day + 1) * DAY)
    grants = db.query_in(
        "SELECT e.user_id, SUM(e.granted + COALESCE((SELECT SUM(m.granted) FROM credit_entry m"
        " WHERE m.result_id = e.result_id AND m.kind IN ('trickle', 'escrow')), 0.0)) FROM credit_entry e"
        " WHERE e.kind IN ('grant', 'release') AND e.time >= ? AND e.time < ? AND e.user_id IN (??) GROUP BY e.user_id",
        users,
        when,
    )
    # What messages brought to a job that failed, or a check took back, was never final.
    corrections = db.query_in(
        "SELECT e.user_id, SUM(CASE WHEN e.granted > 0 THEN e.granted ELSE 0.0 END),"
        " SUM(CASE WHEN e.granted < 0 THEN -e.granted ELSE 0.0 END) FROM credit_entry e"
        " WHERE e.kind IN ('correction', 'settlement') AND e.time >= ? AND e.time < ? AND (e.kind = 'settlement'"
        f" OR EXISTS (SELECT 1 FROM credit_entry g WHERE g.result_id = e.result_id AND g.{IS_GRANT}))"
        " AND e.user_id IN (??) GROUP BY e.user_id",
        users,
        when,
    )
    final: dict[int, float] = dict(grants)
    for user_id, more, _ in corrections:
        final[user_id] = final.get(user_id, 0.0) + more
    return final, {user_id: revoked for user_id, _, revoked in corrections if revoked > 0}


def _provisional(db: Database, users: Sequence[int]) -> dict[int, float]:
    rows = db.query_in(
        f"SELECT r.user_id, SUM({_EXPECTED}) FROM result r JOIN workunit w ON w.id = r.workunit_id"
        f" WHERE r.user_id IN (??) AND {_NOT_DECIDED} GROUP BY r.user_id",
        users,
    )
    found = provisional_credit(db, "user", users)
    for user_id, expected in rows:
        found[user_id] = found.get(user_id, 0.0) + expected
    return found
