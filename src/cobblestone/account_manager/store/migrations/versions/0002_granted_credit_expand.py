"""What projects granted to accounts, and the figure that follows from it (expand)."""

from __future__ import annotations

from cobblestone.store.maintenance.migration import run

revision = "0002"
down_revision = "0001"

TABLES = """
CREATE TABLE project_accounting (
    project_id INTEGER NOT NULL PRIMARY KEY,
    token TEXT DEFAULT '' NOT NULL,
    vouched INTEGER DEFAULT 0 NOT NULL,
    next_day INTEGER DEFAULT 0 NOT NULL,
    next_ask REAL DEFAULT 0 NOT NULL,
    asked_time REAL DEFAULT 0 NOT NULL,
    failures INTEGER DEFAULT 0 NOT NULL,
    problem TEXT DEFAULT '' NOT NULL
);

CREATE TABLE granted_account (
    account_id INTEGER NOT NULL,
    project_id INTEGER NOT NULL,
    told_name TEXT NOT NULL,
    weak_key TEXT DEFAULT '' NOT NULL,
    record TEXT DEFAULT '{}' NOT NULL,
    PRIMARY KEY (account_id, project_id),
    UNIQUE (project_id, told_name)
);

CREATE TABLE figure (
    account_id INTEGER NOT NULL PRIMARY KEY,
    shown REAL DEFAULT 0 NOT NULL,
    time REAL DEFAULT 0 NOT NULL,
    starter REAL DEFAULT 0 NOT NULL,
    address_block TEXT DEFAULT '' NOT NULL
);
CREATE INDEX figure_of_block ON figure (address_block);

CREATE TABLE listed_job (
    project_id INTEGER NOT NULL,
    name TEXT NOT NULL,
    account_id INTEGER NOT NULL,
    granted REAL DEFAULT 0 NOT NULL,
    until REAL DEFAULT 0 NOT NULL,
    PRIMARY KEY (project_id, name)
);
CREATE INDEX listed_job_of_account ON listed_job (account_id);
"""


def upgrade() -> None:
    run(TABLES)
