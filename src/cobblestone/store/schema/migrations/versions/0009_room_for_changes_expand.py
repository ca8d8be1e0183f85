"""Computers that became part of another are found by index; on PostgreSQL, rows that change often have room beside them (expand).

Pages that are full already get room by and by, as their rows move; ``VACUUM FULL`` would do it at once, with the tables locked.
"""

from __future__ import annotations

from alembic import op

revision = "0009"
down_revision = "0008"

SWEPT_EARLY = "autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05"
STORAGE = {
    "user_account": f"fillfactor = 80, {SWEPT_EARLY}",
    "workunit": f"fillfactor = 80, {SWEPT_EARLY}",
    "result": f"fillfactor = 80, {SWEPT_EARLY}",
    "app_credit": f"fillfactor = 80, {SWEPT_EARLY}",
    "host": f"fillfactor = 70, {SWEPT_EARLY}",
    "host_app_version": f"fillfactor = 70, {SWEPT_EARLY}",
    "upload": SWEPT_EARLY,
}


MERGED = "CREATE INDEX host_merged ON host (merged_into) WHERE merged_into IS NOT NULL"


def upgrade() -> None:
    op.execute(MERGED)
    if op.get_context().dialect.name == "postgresql":
        for table, storage in STORAGE.items():
            op.execute(f"ALTER TABLE {table} SET ({storage})")
