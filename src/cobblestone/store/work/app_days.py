"""What the jobs of each app did on each day, since the first one: it stays when jobs are purged.

Jobs are counted in the write that ends them; credit and computers come from the ledger (`cobblestone.store.credit.credit_days`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cobblestone.domain.ids import AppId
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.engine.mapping import RowMapper
from cobblestone.store.work.steps import IS_IN_PROGRESS, IS_UNSENT


@dataclass(frozen=True, slots=True, kw_only=True)
class AppDay:
    """What an app's jobs did on one day."""

    day: int  #: days since 1970, UTC
    n_success: int = 0  #: jobs done
    n_error: int = 0  #: jobs given up
    n_unsent: int = 0  #: tasks to do, when somebody last looked on that day
    n_in_progress: int = 0
    n_results: int = 0  #: tasks that were credited
    granted: float = 0.0
    n_hosts: int = 0  #: computers that were credited


_DAYS = RowMapper(AppDay)


def count_jobs(tx: Transaction, ended: Mapping[AppId, tuple[int, int]], *, day: int) -> None:
    """Add jobs that were done and given up, by app, to the figures of a day."""
    tx.execute_many(
        "INSERT INTO app_day (app_id, day, n_success, n_error) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (app_id, day) DO UPDATE SET n_success = app_day.n_success + excluded.n_success,"
        " n_error = app_day.n_error + excluded.n_error",
        [(app_id, day, *counts) for app_id, counts in sorted(ended.items())],
    )


def note_tasks(tx: Transaction, *, day: int) -> None:
    """Note how many tasks of each app in use are to do and in progress, as the last figures of a day."""
    # The + keeps SQLite from walking the whole index by app for the sake of the grouping.
    unsent = dict(tx.query(f"SELECT +app_id, count(*) FROM result WHERE {IS_UNSENT} GROUP BY 1"))
    running = dict(tx.query(f"SELECT +app_id, count(*) FROM result WHERE {IS_IN_PROGRESS} GROUP BY 1"))
    apps = [row[0] for row in tx.query("SELECT id FROM app WHERE deprecated = 0 ORDER BY id")]
    tx.execute_many(
        "INSERT INTO app_day (app_id, day, n_unsent, n_in_progress) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (app_id, day) DO UPDATE SET n_unsent = excluded.n_unsent, n_in_progress = excluded.n_in_progress",
        [(app_id, day, unsent.get(app_id, 0), running.get(app_id, 0)) for app_id in apps],
    )


def app_days(db: Database, app_id: AppId) -> list[AppDay]:
    """Return the days of an app that something is known of, since the first one."""
    rows = db.query(f"SELECT {_DAYS.columns} FROM app_day WHERE app_id = ? ORDER BY day", (app_id,))
    return [_DAYS.load(row) for row in rows]
