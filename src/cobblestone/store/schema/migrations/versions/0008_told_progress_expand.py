"""What a client said last of a running job that will be late (expand)."""

from __future__ import annotations

from cobblestone.store.maintenance.migration import run

revision = "0008"
down_revision = "0007"

PROGRESS = """
ALTER TABLE result ADD COLUMN told_remaining REAL;
ALTER TABLE result ADD COLUMN told_time REAL;
"""


def upgrade() -> None:
    run(PROGRESS)
