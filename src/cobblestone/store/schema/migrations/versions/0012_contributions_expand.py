"""Storage and network that computers give: files to keep, questions about them, and a ledger of its own (expand)."""

from __future__ import annotations

from alembic import op

from cobblestone.store.maintenance.migration import run

revision = "0012"
down_revision = "0011"

TABLES = """
CREATE TABLE kept_file (
    host_id INTEGER NOT NULL,
    file_name TEXT NOT NULL,
    user_id INTEGER DEFAULT 0 NOT NULL,
    network TEXT DEFAULT '' NOT NULL,
    nbytes INTEGER DEFAULT 0 NOT NULL,
    listed INTEGER DEFAULT 0 NOT NULL,
    counted INTEGER DEFAULT 0 NOT NULL,
    PRIMARY KEY (host_id, file_name)
);
CREATE INDEX kept_file_by_name ON kept_file (file_name, counted);
CREATE INDEX kept_file_to_count ON kept_file (host_id) WHERE listed = 1 AND counted = 0;

CREATE TABLE host_storage (
    host_id INTEGER NOT NULL PRIMARY KEY,
    nbytes INTEGER DEFAULT 0 NOT NULL,
    seen REAL DEFAULT 0 NOT NULL,
    proven REAL DEFAULT 0 NOT NULL,
    claimed REAL DEFAULT 0 NOT NULL,
    challenge TEXT,
    answer TEXT DEFAULT '' NOT NULL,
    answer_time REAL DEFAULT 0 NOT NULL,
    answer_claimed REAL DEFAULT 0 NOT NULL
);
CREATE INDEX host_storage_answered ON host_storage (host_id) WHERE answer <> '';

CREATE TABLE contribution_entry (
    id IDENTIFIER,
    time REAL DEFAULT 0 NOT NULL,
    kind TEXT DEFAULT '' NOT NULL,
    host_id INTEGER DEFAULT 0 NOT NULL,
    user_id INTEGER DEFAULT 0 NOT NULL,
    amount REAL DEFAULT 0 NOT NULL,
    work_start REAL DEFAULT 0 NOT NULL,
    facts TEXT DEFAULT '{}' NOT NULL
);
CREATE INDEX contribution_by_host ON contribution_entry (host_id, id);
CREATE INDEX contribution_by_user ON contribution_entry (user_id, id);

CREATE TABLE contribution (
    owner TEXT NOT NULL,
    owner_id INTEGER NOT NULL,
    kind TEXT NOT NULL,
    total_credit REAL DEFAULT 0 NOT NULL,
    expavg_credit REAL DEFAULT 0 NOT NULL,
    expavg_time REAL DEFAULT 0 NOT NULL,
    PRIMARY KEY (owner, owner_id, kind)
);

CREATE TABLE received_file (
    host_id INTEGER NOT NULL,
    file_name TEXT NOT NULL,
    PRIMARY KEY (host_id, file_name)
);
CREATE INDEX received_file_by_name ON received_file (file_name);
"""
SWEPT_EARLY = "autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05"
STORAGE = {
    "kept_file": SWEPT_EARLY,
    "host_storage": f"fillfactor = 70, {SWEPT_EARLY}",
    "contribution": f"fillfactor = 80, {SWEPT_EARLY}",
}


def upgrade() -> None:
    run(TABLES)
    if op.get_context().dialect.name == "postgresql":
        for table, storage in STORAGE.items():
            op.execute(f"ALTER TABLE {table} SET ({storage})")
