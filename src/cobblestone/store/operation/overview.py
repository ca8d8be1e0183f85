"""Counts of what is going on in a project.  Each uses an index, so the page may be asked for often."""

from __future__ import annotations

from dataclasses import dataclass, fields

from cobblestone.store.engine.database import Database
from cobblestone.store.work.steps import DELETABLE, IS_IN_PROGRESS, IS_UNSENT, OPEN_BATCH, TO_ASSIMILATE


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectCounts:
    """Numbers of rows in the states that somebody waits for."""

    users: int
    hosts: int
    active_hosts: int  #: that called within the last day
    apps: int
    unsigned_versions: int
    open_batches: int  #: not complete, cancelled or retired
    results_unsent: int
    results_in_progress: int
    workunits_unfinished: int  #: that the transitioner will look at again
    workunits_to_validate: int
    workunits_to_assimilate: int
    workunits_to_delete: int  #: whose input files may go


_QUERIES = {
    "users": "SELECT COUNT(*) FROM user_account",
    "hosts": "SELECT COUNT(*) FROM host WHERE merged_into IS NULL",
    "active_hosts": "SELECT COUNT(*) FROM host WHERE merged_into IS NULL AND rpc_time > ?",
    "apps": "SELECT COUNT(*) FROM app WHERE deprecated = 0",
    "unsigned_versions": (
        'SELECT COUNT(*) FROM app_version WHERE deprecated = 0 AND files LIKE \'%"signature":""%\''
    ),
    "open_batches": f"SELECT COUNT(*) FROM batch WHERE {OPEN_BATCH}",
    "results_unsent": f"SELECT COUNT(*) FROM result WHERE {IS_UNSENT}",
    "results_in_progress": f"SELECT COUNT(*) FROM result WHERE {IS_IN_PROGRESS}",
    "workunits_unfinished": "SELECT COUNT(*) FROM workunit WHERE transition_time IS NOT NULL",
    "workunits_to_validate": "SELECT COUNT(*) FROM workunit WHERE need_validate = 1",
    "workunits_to_assimilate": f"SELECT COUNT(*) FROM workunit WHERE {TO_ASSIMILATE}",
    "workunits_to_delete": f"SELECT COUNT(*) FROM workunit WHERE {DELETABLE}",
}
_DAY = 86400.0


def project_counts(db: Database, *, now: float) -> ProjectCounts:
    """Count what is going on at ``now`` (Unix seconds)."""
    return ProjectCounts(
        **{
            field.name: int(
                db.value(_QUERIES[field.name], (now - _DAY,) if "?" in _QUERIES[field.name] else ())
            )
            for field in fields(ProjectCounts)
        }
    )
