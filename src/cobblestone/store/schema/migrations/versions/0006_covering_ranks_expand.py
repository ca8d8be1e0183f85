"""Ranks are counted in the indexes alone, without a look at the rows (expand)."""

from __future__ import annotations

from cobblestone.store.maintenance.migration import run

revision = "0006"
down_revision = "0005"

RANKS = """
DROP INDEX user_by_credit;
CREATE INDEX user_by_credit ON user_account (expavg_credit, id, erased_time) WHERE erased_time IS NULL;
DROP INDEX user_by_total;
CREATE INDEX user_by_total ON user_account (total_credit, id, erased_time) WHERE erased_time IS NULL;
DROP INDEX host_by_credit;
CREATE INDEX host_by_credit ON host (expavg_credit, id, merged_into, removed_time) WHERE merged_into IS NULL AND removed_time IS NULL;
DROP INDEX host_by_total;
CREATE INDEX host_by_total ON host (total_credit, id, merged_into, removed_time) WHERE merged_into IS NULL AND removed_time IS NULL;
"""


def upgrade() -> None:
    run(RANKS)
