"""Credit by app of users, hosts and teams, for top lists: summed from the ledger, a piece at a time.

The sums follow the ledger; they are not kept by whoever grants, so granting costs nothing more.  The place that was reached
stands in the database and moves in the same transaction: no entry is counted twice or left out, whatever is killed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from cobblestone.domain.ids import AppId
from cobblestone.domain.statistics import CreditStatement, RecentAverage
from cobblestone.policy.credit.rac import corrected, credited, joined
from cobblestone.store.averages import CREDIT
from cobblestone.store.credit.follower import FollowedEntry, by_id, move_mark, next_entries
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.mapping import RowMapper

PORTION = 500
"""Entries in one write: some 15 ms, in which nobody else can write on SQLite."""
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
_Key = tuple[str, int, int]  # kind of owner, app, owner
_Share = tuple[int, CreditStatement]  # number of results, credit


def follow_ledger(tx: Transaction, *, now: float, limit: int = PORTION) -> int:
    """Take in the next entries of the ledger; how many."""
    entries = next_entries(tx, _MARK, now=now, limit=limit)
    if not entries:
        return 0
    survivors = by_id(
        tx,
        "SELECT id, merged_into FROM host WHERE merged_into IS NOT NULL AND id IN (??)",
        (entry.host_id for entry in entries),
    )
    shares: dict[_Key, list[FollowedEntry]] = defaultdict(list)
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
    known = _known(tx, shares)
    _save(tx, {key: _with_entries(known.get(key), of_owner) for key, of_owner in shares.items()})
    move_mark(tx, _MARK, entries[-1])
    return len(entries)


def merge_hosts(tx: Transaction, earlier: int, later: int, *, now: float) -> None:
    """Let a computer have what an earlier record of it has from each app."""
    of_earlier = {share.app_id: share for share in credit_by_app(tx, Owner.HOST, earlier)}
    known = _known(tx, [(Owner.HOST, app_id, later) for app_id in of_earlier])
    after: dict[_Key, _Share] = {}
    for app_id, share in of_earlier.items():
        key = (Owner.HOST, app_id, later)
        n_results, statement = known.get(key, (0, CreditStatement(0.0, RecentAverage(0.0, now))))
        after[key] = n_results + share.n_results, joined(share.credit, statement, now=now)
    _save(tx, after)
    tx.execute("DELETE FROM app_credit WHERE owner = ? AND owner_id = ?", (Owner.HOST, earlier))


def _with_entries(known: _Share | None, entries: Sequence[FollowedEntry]) -> _Share:
    if known is None:
        # The average begins at 0 when the first work began, as that of a host does at its first contact: the rule for a first
        # sample would take the minutes of one short task for a whole day.
        first = min((entry.work_start or entry.time for entry in entries), default=0.0)
        known = 0, CreditStatement(0.0, RecentAverage(0.0, first))
    n_results, statement = known
    for entry in entries:
        if entry.granted >= 0:
            statement = credited(statement, credit=entry.granted, work_start=entry.work_start, now=entry.time)
        else:
            statement = corrected(statement, credit=entry.granted, granted_time=entry.time, now=entry.time)
        n_results += entry.kind == "grant"
    return n_results, statement


def _known(tx: Transaction, keys: Iterable[_Key]) -> dict[_Key, _Share]:
    """Return what stands there of these owners, read together by kind of owner and app."""
    ids: dict[tuple[str, int], list[int]] = defaultdict(list)
    for owner, app_id, owner_id in keys:
        ids[owner, app_id].append(owner_id)
    found: dict[_Key, _Share] = {}
    for (owner, app_id), owner_ids in ids.items():
        for row in tx.query_in(
            f"SELECT {_APP_CREDIT.columns} FROM app_credit WHERE owner = ? AND app_id = ? AND owner_id IN (??)",
            owner_ids,
            (owner, app_id),
        ):
            share = _APP_CREDIT.load(row)
            found[owner, app_id, share.owner_id] = share.n_results, share.credit
    return found


def _save(tx: Transaction, shares: Mapping[_Key, _Share]) -> None:
    tx.execute_many(
        "INSERT INTO app_credit (owner, app_id, owner_id, n_results, total_credit, expavg_credit, expavg_time)"
        " VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (owner, app_id, owner_id) DO UPDATE SET n_results = excluded.n_results,"
        " total_credit = excluded.total_credit, expavg_credit = excluded.expavg_credit, expavg_time = excluded.expavg_time",
        [
            (*key, n_results, statement.total, statement.recent.value, statement.recent.time)
            for key, (n_results, statement) in shares.items()
        ],
    )


def credit_by_app(db: Database, owner: Owner, owner_id: int) -> list[AppCredit]:
    """Credit of one owner, by app, the largest first."""
    rows = db.query(
        f"SELECT {_APP_CREDIT.columns} FROM app_credit WHERE owner = ? AND owner_id = ? ORDER BY total_credit DESC LIMIT 100",
        (owner, owner_id),
    )
    return [_APP_CREDIT.load(row) for row in rows]
