"""Jobs on which the project's own function failed say what it said (expand)."""

from __future__ import annotations

from cobblestone.store.maintenance.migration import run

revision = "0002"
down_revision = "0001"

COLUMNS = """
ALTER TABLE workunit ADD COLUMN handler_problem TEXT DEFAULT '' NOT NULL;
"""


def upgrade() -> None:
    run(COLUMNS)
