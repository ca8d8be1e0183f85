"""Tokens for programs of the operator (expand)."""

from __future__ import annotations

from cobblestone.store.maintenance.migration import run

revision = "0006"
down_revision = "0005"

CHANGES = """
CREATE TABLE api_token (
    id IDENTIFIER,
    name TEXT DEFAULT '' NOT NULL,
    token_hash TEXT DEFAULT '' NOT NULL UNIQUE,
    scopes TEXT DEFAULT '' NOT NULL,
    create_time REAL DEFAULT 0 NOT NULL,
    expire_time REAL,
    revoke_time REAL,
    used_time REAL
);
"""


def upgrade() -> None:
    run(CHANGES)
