"""Lists of accounts, computers and workunits for operators, the newest first, a part at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from cobblestone.domain.hosts import Host
from cobblestone.domain.ids import AppId, BatchId
from cobblestone.domain.people import User
from cobblestone.domain.states import JobState, WorkunitError
from cobblestone.store.engine.database import Database
from cobblestone.store.engine.mapping import RowMapper
from cobblestone.store.people.hosts import HOSTS
from cobblestone.store.people.users import USERS
from cobblestone.store.work.batches import JOB_COLUMNS, RUNNING, Job

T = TypeVar("T")

MAX_ID = 2**62
LOOKED_AT = 20_000
"""So many of the newest workunits before a place are looked at for those of one app or status."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A part of a list: at most so many rows with ids below ``before``."""

    limit: int
    before: int | None = None


_OPEN = "w.completed_seq IS NULL AND w.error_mask = 0"
_CONDITIONS = {
    JobState.WAITING: f"{_OPEN} AND NOT {RUNNING}",
    JobState.RUNNING: f"{_OPEN} AND {RUNNING}",
    JobState.DONE: "w.completed_seq IS NOT NULL AND w.error_mask = 0",
    JobState.FAILED: f"w.error_mask <> 0 AND w.error_mask & {int(WorkunitError.CANCELLED)} = 0",
    JobState.CANCELLED: f"w.error_mask & {int(WorkunitError.CANCELLED)} <> 0",
}


@dataclass(frozen=True, slots=True)
class ListedWorkunit(Job):
    """A workunit as a list shows it."""

    app_id: AppId
    batch_id: BatchId | None
    create_time: float
    priority: int


_WORKUNITS = RowMapper(ListedWorkunit, JOB_COLUMNS)


def newest_users(
    db: Database, page: Page, *, role: str | None = None, blocked: bool | None = None
) -> list[User]:
    """Return accounts that are not erased; of one role, or blocked ones or the others alone."""
    conditions = {"role = ?": role, **_BLOCKED[blocked]}
    return _newest(db, page, USERS, "user_account WHERE erased_time IS NULL", conditions)


def newest_hosts(
    db: Database, page: Page, *, user_id: int | None = None, blocked: bool | None = None
) -> list[Host]:
    """Return computers; of one user, or blocked ones or the others alone."""
    conditions = {"user_id = ?": user_id, **_BLOCKED[blocked]}
    return _newest(db, page, HOSTS, "host WHERE merged_into IS NULL", conditions)


def newest_workunits(
    db: Database,
    page: Page,
    *,
    app_id: int | None = None,
    batch_id: int | None = None,
    status: JobState | None = None,
) -> list[ListedWorkunit]:
    """Return workunits; of one app, batch or status, which are sought among the newest `LOOKED_AT` before the page."""
    of_batch = "" if batch_id is None else " AND batch_id = ?"
    wanted = [] if batch_id is None else [batch_id]
    conditions = ["w.app_id = ?"] if app_id is not None else []
    if status is not None:
        conditions.append(_CONDITIONS[status])
    rows = db.query(
        f"SELECT {_WORKUNITS.columns} FROM (SELECT * FROM workunit WHERE id < ?{of_batch} ORDER BY id DESC LIMIT {LOOKED_AT}) w"
        f" WHERE {' AND '.join(conditions) or '1 = 1'} ORDER BY w.id DESC LIMIT ?",
        (_before(page), *wanted, *([] if app_id is None else [app_id]), page.limit),
    )
    return [_WORKUNITS.load(row) for row in rows]


def listed_workunit(db: Database, workunit_id: int) -> ListedWorkunit | None:
    """Return a workunit, or None."""
    row = db.one(f"SELECT {_WORKUNITS.columns} FROM workunit w WHERE w.id = ?", (workunit_id,))
    return None if row is None else _WORKUNITS.load(row)


def count_hosts(db: Database, user_id: int) -> int:
    """Return how many computers a user has."""
    return int(
        db.value("SELECT COUNT(*) FROM host WHERE user_id = ? AND merged_into IS NULL", (user_id,)) or 0
    )


def _before(page: Page) -> int:
    return MAX_ID if page.before is None else page.before


_BLOCKED: Mapping[bool | None, Mapping[str, object]] = {
    None: {},
    True: {"blocked_reason <> ?": ""},
    False: {"blocked_reason = ?": ""},
}


def _newest(
    db: Database, page: Page, rows: RowMapper[T], source: str, conditions: Mapping[str, object]
) -> list[T]:
    """Return rows of a table that fit the conditions; one whose value is None is left out."""
    given = {"id < ?": _before(page), **{text: each for text, each in conditions.items() if each is not None}}
    found = db.query(
        f"SELECT {rows.columns} FROM {source} AND {' AND '.join(given)} ORDER BY id DESC LIMIT ?",
        (*given.values(), page.limit),
    )
    return [rows.load(row) for row in found]
