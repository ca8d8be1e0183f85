"""Tasks of purged jobs: they are counted and listed from the archive, for as long as it is there.

The archive is a file beside the process that purges; where the pages run on another machine, it is empty for them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cobblestone.domain.ids import AppId, HostId, ResultId
from cobblestone.domain.states import TaskState
from cobblestone.store.engine.engine import Row
from cobblestone.store.operation.page_queries import MAX_ID, NEWEST_TASKS, TASK_CONDITIONS
from cobblestone.store.operation.ranking import PAGE_SIZE
from cobblestone.store.work import archive


@dataclass(frozen=True, slots=True)
class ArchiveOwner:
    """Whose tasks are meant: of a user, or of the records of a computer."""

    user_id: int = 0
    host_ids: Sequence[int] = ()

    @property
    def where(self) -> tuple[str, tuple[object, ...]]:
        """The results that are meant: index and condition, and its values."""
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


def count_archived(path: Path, owner: ArchiveOwner) -> dict[TaskState, int]:
    """Count an owner's tasks in the archive by how they ended, the newest `NEWEST_TASKS` of them."""
    condition, values = owner.where
    sums = ", ".join(f"count(*) FILTER (WHERE {TASK_CONDITIONS[state]})" for state in TaskState)
    rows = _rows(
        path,
        f"SELECT {sums} FROM (SELECT r.server_state, r.outcome, r.validate_state FROM {condition}"
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
    """Return an owner's tasks with ids below ``before``, the newest first, with one more when there are older ones.

    ``canonical``: only those whose answer became that of their job.
    """
    condition, values = owner.where
    kinds = " ".join(f"WHEN {TASK_CONDITIONS[state]} THEN '{state}'" for state in TaskState)
    chosen = "is_canonical = 1" if canonical else "1 = 1"
    rows = _rows(
        path,
        "SELECT * FROM (SELECT r.id, r.name, r.app_id, r.host_id,"
        f" CASE {kinds} END, r.received_time, r.elapsed_time, r.granted_credit,"
        " COALESCE(w.canonical_result_id = r.id, 0) AS is_canonical"
        f" FROM (SELECT * FROM {condition} AND r.id < ? ORDER BY r.id DESC LIMIT {NEWEST_TASKS}) r"
        f" LEFT JOIN workunit w ON w.id = r.workunit_id) WHERE {chosen} ORDER BY id DESC LIMIT ?",
        (*values, MAX_ID if before is None else before, limit + 1),
    )
    return [
        ArchivedTask(
            id=ResultId(row[0]),
            name=row[1],
            app_id=AppId(row[2]),
            host_id=None if row[3] is None else HostId(row[3]),
            state=None if row[4] is None else TaskState(row[4]),
            received_time=row[5],
            elapsed_time=row[6],
            granted_credit=row[7],
            is_canonical=bool(row[8]),
        )
        for row in rows
    ]


def _rows(path: Path, sql: str, values: Sequence[object]) -> list[Row]:
    try:
        return archive.query(path, sql, values)[1]
    except FileNotFoundError:
        return []
    except sqlite3.OperationalError:
        # An archive of an earlier version has no index by user until the next purge makes it; nobody walks through it all.
        return []
