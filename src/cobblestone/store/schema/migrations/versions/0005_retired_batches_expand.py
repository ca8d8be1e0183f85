"""What is left to do for retired batches, so that nobody has to search through all jobs for it (expand)."""

from __future__ import annotations

from cobblestone.store.maintenance.migration import run

revision = "0005"
down_revision = "0004"

TABLES = """
ALTER TABLE batch ADD COLUMN released_seq INTEGER DEFAULT 0 NOT NULL;
ALTER TABLE batch ADD COLUMN archived INTEGER DEFAULT 0 NOT NULL;
CREATE INDEX batch_to_archive ON batch (id) WHERE state = 4 AND archived = 0;

DROP INDEX wu_purge;
CREATE INDEX wu_archive ON workunit (batch_id, completed_time) WHERE file_delete_state = 2;
"""


def upgrade() -> None:
    run(TABLES)
