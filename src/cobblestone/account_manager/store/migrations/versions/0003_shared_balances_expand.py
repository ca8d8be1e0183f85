"""What is expected of projects is stored, so that several processes share it; computers are found by their client's id (expand)."""

from __future__ import annotations

from cobblestone.store.maintenance.migration import run

revision = "0003"
down_revision = "0002"

CHANGES = """
ALTER TABLE project ADD COLUMN expected REAL DEFAULT 0 NOT NULL;
CREATE INDEX host_of_client ON host (account_id, host_cpid);
"""


def upgrade() -> None:
    run(CHANGES)
