"""What projects were told about their accounts (expand)."""

from __future__ import annotations

from cobblestone.store.maintenance.migration import run

revision = "0004"
down_revision = "0003"

CHANGES = """
ALTER TABLE project_account ADD COLUMN told_time REAL;
ALTER TABLE project_account ADD COLUMN told_problem TEXT DEFAULT '' NOT NULL;
UPDATE project_account SET next_try = 0 WHERE weak_key <> '';
"""


def upgrade() -> None:
    run(CHANGES)
