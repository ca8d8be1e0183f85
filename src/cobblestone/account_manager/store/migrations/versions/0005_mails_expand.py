"""Mails, the links in them, confirmed addresses, and news (expand)."""

from __future__ import annotations

from cobblestone.store.maintenance.migration import run

revision = "0005"
down_revision = "0004"

CHANGES = """
ALTER TABLE account ADD COLUMN email_verified_time REAL;

CREATE TABLE mail (
    id IDENTIFIER,
    create_time REAL DEFAULT 0 NOT NULL,
    recipient TEXT DEFAULT '' NOT NULL,
    subject TEXT DEFAULT '' NOT NULL,
    body TEXT DEFAULT '' NOT NULL,
    attempts INTEGER DEFAULT 0 NOT NULL,
    next_time REAL DEFAULT 0 NOT NULL,
    sent_time REAL,
    error TEXT DEFAULT '' NOT NULL
);
CREATE INDEX mail_waiting ON mail (next_time) WHERE sent_time IS NULL;

CREATE TABLE one_time_code (
    id IDENTIFIER,
    user_id INTEGER DEFAULT 0 NOT NULL,
    purpose TEXT DEFAULT '' NOT NULL,
    code_hash TEXT DEFAULT '' NOT NULL UNIQUE,
    payload TEXT DEFAULT '' NOT NULL,
    create_time REAL DEFAULT 0 NOT NULL,
    expire_time REAL,
    used_time REAL
);
CREATE INDEX code_by_user ON one_time_code (user_id, purpose);

CREATE TABLE news (
    id IDENTIFIER,
    title TEXT DEFAULT '' NOT NULL,
    text TEXT DEFAULT '' NOT NULL,
    time REAL DEFAULT 0 NOT NULL
);
"""


def upgrade() -> None:
    run(CHANGES)
