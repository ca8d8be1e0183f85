"""Whom statistics sites are told to forget (expand)."""

from __future__ import annotations

from cobblestone.store.maintenance.migration import run

revision = "0007"
down_revision = "0006"

TABLE = """
CREATE TABLE deletion (
    owner TEXT NOT NULL,
    owner_id INTEGER NOT NULL,
    cpid TEXT DEFAULT '' NOT NULL,
    time REAL DEFAULT 0 NOT NULL,
    PRIMARY KEY (owner, owner_id)
);
CREATE INDEX host_removed ON host (removed_time) WHERE removed_time IS NOT NULL;
"""


def upgrade() -> None:
    run(TABLE)
