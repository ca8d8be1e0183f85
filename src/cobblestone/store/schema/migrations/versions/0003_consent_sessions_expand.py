"""What people agreed to, sessions that were logged out, and addresses that were confirmed (expand)."""

from __future__ import annotations

from cobblestone.store.maintenance.migration import run

revision = "0003"
down_revision = "0002"

TABLES = """
ALTER TABLE user_account ADD COLUMN email_verified_time REAL;

CREATE TABLE consent (
    id IDENTIFIER,
    user_id INTEGER DEFAULT 0 NOT NULL,
    kind TEXT DEFAULT '' NOT NULL,
    agreed INTEGER DEFAULT 0 NOT NULL,
    time REAL DEFAULT 0 NOT NULL,
    source TEXT DEFAULT '' NOT NULL
);
CREATE INDEX consent_by_user ON consent (user_id, kind, id);

CREATE TABLE ended_session (
    session_hash TEXT NOT NULL PRIMARY KEY,
    expire_time REAL DEFAULT 0 NOT NULL
);
CREATE INDEX ended_session_expired ON ended_session (expire_time);
"""


def upgrade() -> None:
    run(TABLES)
