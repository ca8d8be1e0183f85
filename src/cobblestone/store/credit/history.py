"""Credit over time: the ledger of one owner, and credit by day of users, hosts, teams and apps.

Credit by day since the first one, of users, hosts, teams and apps: summed from the ledger, a piece at a time.

As with credit by app, the place that was reached moves in the same transaction as the sums: no entry is counted twice or left
out.  A project that did not keep days before gets all of them from its ledger, which is never cut.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from cobblestone.domain.values import float_sum, form_of
from cobblestone.policy.credit import history
from cobblestone.policy.credit.history import CreditPeriod, LedgerMark, Reached, day_of
from cobblestone.store.averages import RECENT
from cobblestone.store.credit.app_credit import TABLES, FollowedEntry, Owner, follow, meta
from cobblestone.store.credit.ledger import CORRECTIONS, GRANTS, IS_CORRECTION, IS_GRANT
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.mapping import RowMapper
from cobblestone.store.engine.reading import PAGE

#: Of owners with more entries than this the days are shown as they were summed.
MAX_SINGLE = 1_000


@dataclass(frozen=True, slots=True)
class CreditOwner:
    """The owner of credit."""

    kind: Literal["user", "host", "team"]
    id: int


_OF_OWNER = {
    "user": "e.user_id = ?",
    "host": "e.host_id IN (SELECT id FROM host WHERE id = ? OR merged_into = ?) AND e.kind <> 'merge'",
    "team": "e.team_id = ?",
}


def ledger_marks(db: Database, owner: CreditOwner, *, since: float) -> list[LedgerMark] | None:
    """Return entries of an owner since a time (Unix seconds), oldest first; None: there are more than `MAX_SINGLE`.

    Of a team, what its members earned while they were in it; of a computer also what records did that became part of it.
    """
    condition = _OF_OWNER[owner.kind]
    ids = (owner.id,) * condition.count("?")
    rows = db.query(
        f"SELECT e.time, e.granted, e.work_start, CASE WHEN e.{IS_GRANT} THEN 1 ELSE 0 END,"
        f" CASE WHEN e.{IS_CORRECTION} THEN (SELECT min(g.time) FROM credit_entry g"
        f" WHERE g.result_id = e.result_id AND g.{IS_GRANT}) END"
        f" FROM credit_entry e WHERE {condition} AND e.time >= ? ORDER BY e.time, e.id LIMIT ?",
        (*ids, since, MAX_SINGLE + 1),
    )
    if len(rows) > MAX_SINGLE:
        return None
    return [
        LedgerMark(time=row[0], granted=row[1], work_start=row[2], n_results=row[3], granted_time=row[4])
        for row in rows
    ]


#: Entries or rows in one write: some 2 ms, in which nothing else can write on SQLite.
PORTION = 50
_MARK = "credit_day_entry"
_HAS_MILESTONES = (Owner.USER, Owner.TEAM)
_PERIODS = RowMapper(CreditPeriod, {"recent": RECENT})
_STORED_PERIOD = _PERIODS.writer()
_MILESTONES = RowMapper(Reached, {"years": "0"})
_SAVED_PERIOD = _STORED_PERIOD.upsert("credit_day", "owner", "owner_id", "day")

#: Unix seconds that no clock reaches.
_LATEST = 1e12

_Key = tuple[Owner, int]


def follow_ledger(tx: Transaction, *, now: float, limit: int = PORTION) -> int:
    """Take in the next entries of the ledger; return how many."""
    return follow(tx, _MARK, _take, now=now, limit=limit)


def _take(tx: Transaction, entries: Sequence[FollowedEntry]) -> None:
    # A merge grants nothing; an amount or time that is no number (a damaged row: the doctor names it) counts for nothing.
    sound = (entry for entry in entries if math.isfinite(entry.granted) and 0 <= entry.time < _LATEST)
    credits_ = [entry for entry in sound if entry.kind != "merge"]
    _follow_owners(tx, credits_)
    _follow_apps(tx, credits_)


def _follow_owners(tx: Transaction, entries: Sequence[FollowedEntry]) -> None:
    corrected = sorted({entry.result_id for entry in entries if entry.kind in CORRECTIONS})
    granted_times = dict(
        tx.query_in(
            f"SELECT result_id, min(time) FROM credit_entry WHERE {IS_GRANT} AND result_id IN (??) GROUP BY result_id",
            corrected,
        )
    )
    marks: dict[_Key, list[LedgerMark]] = defaultdict(list)
    for each in entries:
        entry = form_of(
            LedgerMark,
            each,
            n_results=int(each.kind in GRANTS),
            granted_time=granted_times.get(each.result_id) if each.kind in CORRECTIONS else None,
        )
        for key in each.owners():
            marks[key].append(entry)
    last = _last_periods(tx, marks)
    created = _creation_times(tx, [key for key in marks if key not in last])
    for key, of_owner in marks.items():
        changed, reached = history.continued(
            last.get(key), of_owner, created=created.get(key, of_owner[0].time)
        )
        _save(tx, key, changed)
        if key[0] in _HAS_MILESTONES:
            _save_milestones(tx, key, reached)


def _last_periods(tx: Transaction, keys: Iterable[_Key]) -> dict[_Key, CreditPeriod]:
    last = "credit_day WHERE owner = ? AND owner_id = ? ORDER BY day DESC LIMIT 1"
    return {key: period for key in keys if (period := tx.first(_PERIODS, last, key)) is not None}


def _creation_times(tx: Transaction, keys: Iterable[_Key]) -> dict[_Key, float]:
    return {
        (owner, id_): float(created)
        for owner, id_ in keys
        if (created := tx.value(f"SELECT create_time FROM {TABLES[owner]} WHERE id = ?", (id_,))) is not None
    }


def _save(tx: Transaction, key: _Key, changed: Iterable[CreditPeriod]) -> None:
    tx.execute_many(_SAVED_PERIOD, [(*_STORED_PERIOD.values(period), *key) for period in changed])


def _save_milestones(tx: Transaction, key: _Key, reached: Iterable[Reached]) -> None:
    tx.execute_many(
        "INSERT INTO milestone (owner, owner_id, credit, time) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (owner, owner_id, credit) DO NOTHING",
        [(*key, item.credit, item.time) for item in reached],
    )


def thin(tx: Transaction, *, now: float, limit: int = PORTION) -> int:
    """Merge some old days into weeks, and very old weeks into spans of four; return how many rows were checked."""
    today = day_of(now)
    for n_days, shorter, age in (
        (history.WEEK, 1, history.DAYS_KEPT),
        (history.FOUR_WEEKS, history.WEEK, history.WEEKS_KEPT),
    ):
        before = history.first_day(today - age, n_days)
        keys = tx.query(
            "SELECT owner, owner_id, day FROM credit_day WHERE n_days = ? AND day < ? ORDER BY n_days, day LIMIT ?",
            (shorter, before, limit),
        )
        spans = {(owner, owner_id, history.first_day(day, n_days)): None for owner, owner_id, day in keys}
        for owner, owner_id, first in spans:
            _thin_span(tx, (Owner(owner), owner_id), first, n_days)
        if keys:
            return len(keys)
    return 0


def _thin_span(tx: Transaction, key: _Key, first: int, n_days: int) -> None:
    where = "owner = ? AND owner_id = ? AND day >= ? AND day < ?"
    values = (*key, first, first + n_days)
    periods = tx.load(_PERIODS, f"credit_day WHERE {where} ORDER BY day", values)
    tx.execute(f"DELETE FROM credit_day WHERE {where}", values)
    _save(tx, key, history.thinned(periods, n_days=n_days))


def credit_periods(db: Database, owner: CreditOwner) -> list[CreditPeriod]:
    """Return an owner's credit since the first day, in order; for a computer with that of records merged into it."""
    ids = [owner.id]
    if owner.kind == "host":
        merged = db.query("SELECT id FROM host WHERE merged_into = ? ORDER BY id LIMIT 100", (owner.id,))
        ids += [row[0] for row in merged]
    return history.together(
        db.load(_PERIODS, "credit_day WHERE owner = ? AND owner_id = ? ORDER BY day", (owner.kind, id_))
        for id_ in ids
    )


def milestones_of(db: Database, owner: Owner, owner_id: int) -> list[Reached]:
    """Return an owner's milestones, in order of time."""
    source = "milestone WHERE owner = ? AND owner_id = ? ORDER BY time, credit"
    return db.load(_MILESTONES, source, (owner, owner_id))


def unlike_ledger(db: Database) -> Iterator[tuple[Owner, int, float, float]]:
    """Yield owners whose days differ from the ledger up to the place that was reached, with both sums."""
    reached = int(meta(db, _MARK) or 0)
    db.will_look_at("host", "user_account", "team")
    for owner in Owner:
        column = f"{owner}_id"
        rows = db.stream(
            "SELECT COALESCE((SELECT sum(d.granted) FROM credit_day d WHERE d.owner = ? AND d.owner_id = l.owner_id), 0),"
            f" l.granted, l.owner_id FROM (SELECT {column} AS owner_id, sum(granted) AS granted FROM credit_entry"
            f" WHERE id <= ? AND kind <> 'merge' AND {column} > ? GROUP BY {column} ORDER BY {column} LIMIT {PAGE}) l"
            " ORDER BY l.owner_id",
            (owner, reached),
        )
        for kept, granted, owner_id in rows:
            if abs(kept - granted) > 0.000001 * (1 + abs(granted)):
                yield owner, owner_id, kept, granted


def start_again(tx: Transaction) -> int:
    """Delete the sums from the ledger, so that the daemon recomputes them; return how many rows.  Jobs by day stay."""
    tx.execute("DELETE FROM meta WHERE key = ?", (_MARK,))
    tx.execute("UPDATE app_day SET n_results = 0, granted = 0, n_hosts = 0")
    return sum(tx.execute(f"DELETE FROM {table}") for table in ("credit_day", "app_host_day", "milestone"))


# -- apps ----------------------------------------------------------------------


def _follow_apps(tx: Transaction, entries: Sequence[FollowedEntry]) -> None:
    by_day: dict[tuple[int, int], list[FollowedEntry]] = defaultdict(list)
    for entry in entries:
        if entry.app_id is not None:
            by_day[entry.app_id, day_of(entry.time)].append(entry)
    rows: list[tuple[object, ...]] = []
    for (app_id, day), of_day in sorted(by_day.items(), key=lambda item: item[0]):
        hosts = [entry.host_id for entry in of_day if entry.kind in GRANTS]
        granted = float_sum(entry.granted for entry in of_day)
        rows.append(
            (app_id, day, len(hosts), granted, _hosts_new_on_day(tx, app_id, day, sorted(set(hosts))))
        )
    tx.execute_many(
        "INSERT INTO app_day (app_id, day, n_results, granted, n_hosts) VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (app_id, day) DO UPDATE SET n_results = app_day.n_results + excluded.n_results,"
        " granted = app_day.granted + excluded.granted, n_hosts = app_day.n_hosts + excluded.n_hosts",
        rows,
    )


def _hosts_new_on_day(tx: Transaction, app_id: int, day: int, hosts: Sequence[int]) -> int:
    """Count computers not credited for an app on a day before, and record that they now are."""
    sql = "SELECT host_id, last_day FROM app_host_day WHERE app_id = ? AND host_id IN (??)"
    known = dict(tx.query_in(sql, hosts, (app_id,)))
    fresh = [host for host in hosts if known.get(host, -1) < day]
    tx.execute_many(
        "INSERT INTO app_host_day (app_id, host_id, last_day) VALUES (?, ?, ?)"
        " ON CONFLICT (app_id, host_id) DO UPDATE SET last_day = excluded.last_day",
        [(app_id, host, day) for host in fresh],
    )
    return len(fresh)
