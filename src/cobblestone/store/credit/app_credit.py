"""Credit by app of users, hosts and teams, for top lists: summed from the ledger, a piece at a time.

The sums follow the ledger; they are not kept by whoever grants, so granting costs nothing more.  The place that was reached
stands in the database and moves in the same transaction: no entry is counted twice or left out, whatever is killed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from cobblestone.domain.ids import AppId
from cobblestone.domain.statistics import SECONDS_PER_DAY, CreditStatement, RecentAverage
from cobblestone.policy.credit.rac import corrected, credited, idle_decayed, joined
from cobblestone.store.engine.database import Database, Transaction

_MARK = "app_credit_entry"
SETTLED_SECONDS = 60.0
"""Younger entries wait: on some databases an entry can become visible after one with a greater number."""
CHUNK = 2000


class Owner(StrEnum):
    """Who has credit."""

    USER = "user"
    HOST = "host"
    TEAM = "team"


@dataclass(frozen=True, slots=True, kw_only=True)
class AppCredit:
    """Credit of one owner from one app."""

    app_id: AppId
    owner_id: int
    n_results: int
    credit: CreditStatement


def follow_ledger(tx: Transaction, *, now: float, limit: int = CHUNK) -> int:
    """Take in the next entries of the ledger; how many."""
    mark = int(tx.value("SELECT value FROM meta WHERE key = ?", (_MARK,)) or 0)
    entries = tx.query(
        "SELECT id, time, user_id, host_id, team_id, granted, work_start, kind, result_id, app_version_id"
        " FROM credit_entry WHERE id > ? AND time <= ? ORDER BY id LIMIT ?",
        (mark, now - SETTLED_SECONDS, limit),
    )
    if not entries:
        return 0
    # By their ids, for a join may be planned as a walk through all results.
    app_of_result = _by_id(tx, "SELECT id, app_id FROM result WHERE id IN (??)", (row[8] for row in entries))
    app_of_version = _by_id(
        tx, "SELECT id, app_id FROM app_version WHERE id IN (??)", (row[9] for row in entries)
    )
    survivors = _by_id(
        tx,
        "SELECT id, merged_into FROM host WHERE merged_into IS NOT NULL AND id IN (??)",
        (row[3] for row in entries),
    )
    shares: dict[tuple[str, int, int], list[tuple[float, float, float, bool]]] = defaultdict(list)
    for _, time, user_id, host_id, team_id, granted, work_start, kind, result_id, version_id in entries:
        app_id = app_of_result.get(result_id) or app_of_version.get(version_id)
        if app_id is None:  # anonymous platform, purged
            continue
        owner_host = survivors.get(host_id, host_id)
        for owner, owner_id in ((Owner.USER, user_id), (Owner.HOST, owner_host), (Owner.TEAM, team_id)):
            if owner_id is not None:
                shares[owner, app_id, owner_id].append((time, granted, work_start, kind == "grant"))
    for key, changes in shares.items():
        _add(tx, key, changes)
    tx.execute(
        "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (_MARK, str(entries[-1][0])),
    )
    return len(entries)


def _by_id(tx: Transaction, sql: str, ids: Iterable[int | None]) -> dict[int, int]:
    """Return the second column of a query by the first, for some ids."""
    return dict(tx.query_in(sql, sorted({id_ for id_ in ids if id_ is not None})))


def merge_hosts(tx: Transaction, earlier: int, later: int, *, now: float) -> None:
    """Let a computer have what an earlier record of it has from each app."""
    for share in credit_by_app(tx, Owner.HOST, earlier):
        key = (Owner.HOST, share.app_id, later)
        n_results, statement = _statement(tx, key, RecentAverage(0.0, now))
        _save(tx, key, n_results + share.n_results, joined(share.credit, statement, now=now))
    tx.execute("DELETE FROM app_credit WHERE owner = ? AND owner_id = ?", (Owner.HOST, earlier))


def _add(tx: Transaction, key: tuple[str, int, int], changes: list[tuple[float, float, float, bool]]) -> None:
    # The average begins at 0 when the first work began, as that of a host does at its first contact: the rule for a first
    # sample would take the minutes of one short task for a whole day.
    first = RecentAverage(0.0, min((start or time for time, _, start, _ in changes), default=0.0))
    n_results, statement = _statement(tx, key, first)
    for time, granted, work_start, is_grant in changes:
        if granted >= 0:
            statement = credited(statement, credit=granted, work_start=work_start, now=time)
        else:
            statement = corrected(statement, credit=granted, granted_time=time, now=time)
        n_results += is_grant
    _save(tx, key, n_results, statement)


def _statement(
    tx: Transaction, key: tuple[str, int, int], fresh: RecentAverage
) -> tuple[int, CreditStatement]:
    row = tx.one(
        "SELECT n_results, total_credit, expavg_credit, expavg_time FROM app_credit WHERE owner = ? AND app_id = ?"
        " AND owner_id = ?",
        key,
    )
    if row is None:
        return 0, CreditStatement(0.0, fresh)
    return int(row[0]), CreditStatement(row[1], RecentAverage(row[2], row[3]))


def _save(tx: Transaction, key: tuple[str, int, int], n_results: int, statement: CreditStatement) -> None:
    tx.execute(
        "INSERT INTO app_credit (owner, app_id, owner_id, n_results, total_credit, expavg_credit, expavg_time)"
        " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (owner, app_id, owner_id) DO UPDATE SET n_results = excluded.n_results,"
        " total_credit = excluded.total_credit, expavg_credit = excluded.expavg_credit, expavg_time = excluded.expavg_time",
        (*key, n_results, statement.total, statement.recent.value, statement.recent.time),
    )


def decay_idle(tx: Transaction, *, now: float, limit: int = CHUNK) -> int:
    """Let averages decay that stand high in the lists although nothing was added for a day; how many."""
    rows = tx.query(
        "SELECT owner, app_id, owner_id, expavg_credit, expavg_time FROM app_credit WHERE expavg_credit > 0.1"
        " AND expavg_time < ? LIMIT ?",
        (now - SECONDS_PER_DAY, limit),
    )
    changed = [
        (average, row) for row in rows if (average := idle_decayed(RecentAverage(row[3], row[4]), now=now))
    ]
    tx.execute_many(
        "UPDATE app_credit SET expavg_credit = ?, expavg_time = ? WHERE owner = ? AND app_id = ? AND owner_id = ?",
        [(average.value, now, *row[:3]) for average, row in changed],
    )
    return len(changed)


def credit_by_app(db: Database, owner: Owner, owner_id: int) -> list[AppCredit]:
    """Credit of one owner, by app, the largest first."""
    rows = db.query(
        "SELECT app_id, owner_id, n_results, total_credit, expavg_credit, expavg_time FROM app_credit WHERE owner = ?"
        " AND owner_id = ? ORDER BY total_credit DESC LIMIT 100",
        (owner, owner_id),
    )
    return [
        AppCredit(
            app_id=AppId(row[0]),
            owner_id=row[1],
            n_results=row[2],
            credit=CreditStatement(row[3], RecentAverage(row[4], row[5])),
        )
        for row in rows
    ]
