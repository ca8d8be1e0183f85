"""Accounts whose credit is told to an account manager (expand)."""

from __future__ import annotations

from cobblestone.store.maintenance.migration import run

revision = "0011"
down_revision = "0010"

TABLES = """
CREATE TABLE told_account (
    token_id INTEGER NOT NULL,
    account TEXT NOT NULL,
    user_id INTEGER NOT NULL,
    weak_authenticator TEXT DEFAULT '' NOT NULL,
    enrol_time REAL DEFAULT 0 NOT NULL,
    PRIMARY KEY (token_id, account),
    UNIQUE (token_id, user_id)
);
"""


def upgrade() -> None:
    run(TABLES)
