"""Credit by app of users, hosts and teams, for top lists: summed from the ledger, a piece at a time.

The sums follow the ledger; they are not kept by whoever grants, so granting costs nothing more.  The place that was reached
stands in the database and moves in the same transaction: no entry is counted twice or left out, whatever is killed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from cobblestone.domain.ids import AppId
from cobblestone.domain.statistics import SECONDS_PER_DAY, CreditStatement, RecentAverage
from cobblestone.policy.credit.rac import corrected, credited, idle_decayed, joined
from cobblestone.store.averages import CREDIT
from cobblestone.store.credit.follower import CHUNK, FollowedEntry, by_id, move_mark, next_entries
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.mapping import RowMapper

_MARK = "app_credit_entry"


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


_APP_CREDIT = RowMapper(AppCredit, {"credit": CREDIT})


def follow_ledger(tx: Transaction, *, now: float, limit: int = CHUNK) -> int:
    """Take in the next entries of the ledger; how many."""
    entries = next_entries(tx, _MARK, now=now, limit=limit)
    if not entries:
        return 0
    survivors = by_id(
        tx,
        "SELECT id, merged_into FROM host WHERE merged_into IS NOT NULL AND id IN (??)",
        (entry.host_id for entry in entries),
    )
    shares: dict[tuple[str, int, int], list[FollowedEntry]] = defaultdict(list)
    for entry in entries:
        if entry.app_id is None:
            continue
        host_id = survivors.get(entry.host_id, entry.host_id)
        for owner, owner_id in (
            (Owner.USER, entry.user_id),
            (Owner.HOST, host_id),
            (Owner.TEAM, entry.team_id),
        ):
            if owner_id is not None:
                shares[owner, entry.app_id, owner_id].append(entry)
    for key, of_owner in shares.items():
        _add(tx, key, of_owner)
    move_mark(tx, _MARK, entries[-1])
    return len(entries)


def merge_hosts(tx: Transaction, earlier: int, later: int, *, now: float) -> None:
    """Let a computer have what an earlier record of it has from each app."""
    for share in credit_by_app(tx, Owner.HOST, earlier):
        key = (Owner.HOST, share.app_id, later)
        n_results, statement = _statement(tx, key, RecentAverage(0.0, now))
        _save(tx, key, n_results + share.n_results, joined(share.credit, statement, now=now))
    tx.execute("DELETE FROM app_credit WHERE owner = ? AND owner_id = ?", (Owner.HOST, earlier))


def _add(tx: Transaction, key: tuple[str, int, int], entries: Sequence[FollowedEntry]) -> None:
    # The average begins at 0 when the first work began, as that of a host does at its first contact: the rule for a first
    # sample would take the minutes of one short task for a whole day.
    first = RecentAverage(0.0, min((entry.work_start or entry.time for entry in entries), default=0.0))
    n_results, statement = _statement(tx, key, first)
    for entry in entries:
        if entry.granted >= 0:
            statement = credited(statement, credit=entry.granted, work_start=entry.work_start, now=entry.time)
        else:
            statement = corrected(statement, credit=entry.granted, granted_time=entry.time, now=entry.time)
        n_results += entry.kind == "grant"
    _save(tx, key, n_results, statement)


def _statement(
    tx: Transaction, key: tuple[str, int, int], fresh: RecentAverage
) -> tuple[int, CreditStatement]:
    row = tx.one(
        f"SELECT {_APP_CREDIT.columns} FROM app_credit WHERE owner = ? AND app_id = ? AND owner_id = ?", key
    )
    if row is None:
        return 0, CreditStatement(0.0, fresh)
    found = _APP_CREDIT.load(row)
    return found.n_results, found.credit


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
        (average.value, now, *key)
        for *key, value, time in rows
        if (average := idle_decayed(RecentAverage(value, time), now=now))
    ]
    tx.execute_many(
        "UPDATE app_credit SET expavg_credit = ?, expavg_time = ? WHERE owner = ? AND app_id = ? AND owner_id = ?",
        changed,
    )
    return len(changed)


def credit_by_app(db: Database, owner: Owner, owner_id: int) -> list[AppCredit]:
    """Credit of one owner, by app, the largest first."""
    rows = db.query(
        f"SELECT {_APP_CREDIT.columns} FROM app_credit WHERE owner = ? AND owner_id = ? ORDER BY total_credit DESC LIMIT 100",
        (owner, owner_id),
    )
    return [_APP_CREDIT.load(row) for row in rows]
