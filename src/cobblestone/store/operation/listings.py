"""Paged lists: the newest accounts, computers and workunits, and the tasks of purged jobs.

Tasks of purged jobs: they are counted and listed from the archive, for as long as it is there.

The archive is a file beside the process that purges; where the pages run on another machine, it is empty for them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from cobblestone.domain.hosts import Host
from cobblestone.domain.people import User
from cobblestone.domain.values import AppId, BatchId, HostId, ResultId
from cobblestone.domain.work import JobState, TaskState
from cobblestone.store.engine.database import Database
from cobblestone.store.engine.engine import Row
from cobblestone.store.engine.mapping import RowMapper
from cobblestone.store.operation.page_queries import MAX_ID, NEWEST_TASKS, TASK_COUNTS, TASK_STATE
from cobblestone.store.operation.ranking import PAGE_SIZE
from cobblestone.store.people.hosts import HOSTS
from cobblestone.store.people.users import USERS
from cobblestone.store.work import archive
from cobblestone.store.work.batches import JOB_COLUMNS, JOB_CONDITIONS, JobRow

T = TypeVar("T")

#: So many of the newest workunits before a place are looked at for those of one app or status.
LOOKED_AT = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page of a list: a limited number of rows with ids below ``before``."""

    limit: int
    before: int | None = None


@dataclass(frozen=True, slots=True)
class ListedWorkunit(JobRow):
    """A workunit as a list shows it."""

    app_id: AppId
    batch_id: BatchId | None
    create_time: float
    priority: int


_WORKUNITS = RowMapper(ListedWorkunit, JOB_COLUMNS)


def newest_users(
    db: Database, page: Page, *, role: str | None = None, blocked: bool | None = None
) -> list[User]:
    """Return accounts that are not erased, optionally of one role, or only blocked or unblocked ones."""
    conditions = {"role = ?": role, _BLOCKED: blocked if blocked is None else int(blocked)}
    return newest(db, page, USERS, "user_account WHERE erased_time IS NULL", conditions)


def newest_hosts(
    db: Database, page: Page, *, user_id: int | None = None, blocked: bool | None = None
) -> list[Host]:
    """Return computers, optionally of one user, or only blocked or unblocked ones."""
    # The ids of a user's computers stand in an index; with the user's number here all their rows would be sorted for a page.
    of_user = "id IN (SELECT id FROM host WHERE user_id = ?)"
    conditions = {of_user: user_id, _BLOCKED: blocked if blocked is None else int(blocked)}
    return newest(db, page, HOSTS, "host WHERE merged_into IS NULL", conditions)


def newest_workunits(
    db: Database,
    page: Page,
    *,
    app_id: int | None = None,
    batch_id: int | None = None,
    status: JobState | None = None,
) -> list[ListedWorkunit]:
    """Return workunits, optionally of one app, batch or status, searched among the newest `LOOKED_AT` before the page."""
    of_batch = "" if batch_id is None else " AND batch_id = ?"
    wanted = [] if batch_id is None else [batch_id]
    conditions = ["w.app_id = ?"] if app_id is not None else []
    if status is not None:
        conditions.append(JOB_CONDITIONS[status])
    looked_at = LOOKED_AT if conditions else page.limit
    ids = f"SELECT id FROM workunit WHERE id < ?{of_batch} ORDER BY id DESC LIMIT {looked_at}"
    return db.load(
        _WORKUNITS,
        f"workunit w WHERE {' AND '.join((f'w.id IN ({ids})', *conditions))} ORDER BY w.id DESC LIMIT ?",
        (_before(page), *wanted, *([] if app_id is None else [app_id]), page.limit),
    )


def listed_workunit(db: Database, workunit_id: int) -> ListedWorkunit | None:
    """Return a workunit, or None."""
    return db.first(_WORKUNITS, "workunit w WHERE w.id = ?", (workunit_id,))


def _before(page: Page) -> int:
    return MAX_ID if page.before is None else page.before


_BLOCKED = "CASE WHEN blocked_reason <> '' THEN 1 ELSE 0 END = ?"


def newest(
    db: Database, page: Page, rows: RowMapper[T], source: str, conditions: Mapping[str, object]
) -> list[T]:
    """Return rows of a table that match the conditions, if they can be read; a condition with value None is left out."""
    given = {"id < ?": _before(page), **{text: each for text, each in conditions.items() if each is not None}}
    sql = f"SELECT {rows.columns} FROM {source} AND {' AND '.join(given)} ORDER BY id DESC LIMIT ?"
    return [*db.readable(rows.load, db.query(sql, (*given.values(), page.limit)))]


@dataclass(frozen=True, slots=True)
class ArchiveOwner:
    """The owner of the tasks: a user, or the records of a computer."""

    user_id: int = 0
    host_ids: Sequence[int] = ()

    @property
    def where(self) -> tuple[str, tuple[object, ...]]:
        """Return index and condition for the results, and its values."""
        if self.host_ids:
            marks = ", ".join("?" * len(self.host_ids))
            return f"result r INDEXED BY result_by_host WHERE r.host_id IN ({marks})", tuple(self.host_ids)
        return "result r INDEXED BY result_by_user WHERE r.user_id = ?", (self.user_id,)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedTask:
    """A task as a list shows it."""

    id: ResultId
    name: str
    app_id: AppId
    host_id: HostId | None
    state: TaskState | None
    received_time: float | None
    elapsed_time: float
    granted_credit: float
    is_canonical: bool


_ARCHIVED = RowMapper(ArchivedTask)


def count_archived(path: Path, owner: ArchiveOwner) -> dict[TaskState, int]:
    """Count an owner's tasks in the archive by outcome, the newest `NEWEST_TASKS` of them."""
    condition, values = owner.where
    rows = _rows(
        path,
        f"SELECT {TASK_COUNTS} FROM (SELECT r.server_state, r.outcome, r.validate_state FROM {condition}"
        f" ORDER BY r.id DESC LIMIT {NEWEST_TASKS}) r",
        values,
    )
    return dict(zip(TaskState, rows[0] if rows else (0,) * len(TaskState), strict=True))


def list_archived(
    path: Path,
    owner: ArchiveOwner,
    *,
    before: int | None = None,
    canonical: bool = False,
    limit: int = PAGE_SIZE,
) -> list[ArchivedTask]:
    """Return an owner's tasks with ids below ``before``, newest first, with one more if there are older ones.

    ``canonical``: only those whose answer became that of their job.
    """
    condition, values = owner.where
    chosen = "is_canonical = 1" if canonical else "1 = 1"
    rows = _rows(
        path,
        f"SELECT {_ARCHIVED.columns} FROM (SELECT r.*, {TASK_STATE} AS state,"
        " COALESCE(w.canonical_result_id = r.id, 0) AS is_canonical"
        f" FROM (SELECT * FROM {condition} AND r.id < ? ORDER BY r.id DESC LIMIT {NEWEST_TASKS}) r"
        f" LEFT JOIN workunit w ON w.id = r.workunit_id) WHERE {chosen} ORDER BY id DESC LIMIT ?",
        (*values, MAX_ID if before is None else before, limit + 1),
    )
    return [_ARCHIVED.load(row) for row in rows]


def _rows(path: Path, sql: str, values: Sequence[object]) -> list[Row]:
    try:
        return archive.query(path, sql, values)[1]
    except FileNotFoundError:
        return []
    except sqlite3.OperationalError:
        # An archive of an earlier version has no index by user until the next purge makes it; it is not read as a whole.
        return []
