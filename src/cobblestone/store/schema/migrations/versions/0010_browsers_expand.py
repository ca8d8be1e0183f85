"""Tokens of browsers that compute (expand)."""

from __future__ import annotations

from cobblestone.store.maintenance.migration import run

revision = "0010"
down_revision = "0009"

BROWSERS = """
ALTER TABLE api_token ADD COLUMN host_id INTEGER;
"""


def upgrade() -> None:
    run(BROWSERS)
