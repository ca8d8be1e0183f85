"""Records, events and provisional results of the credit system "ledger" (expand)."""

from __future__ import annotations

from cobblestone.store.maintenance.migration import run_files

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    run_files(__file__)
