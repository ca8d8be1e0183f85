"""First schema, of version 0.1.0; those with lower numbers were never released (expand)."""

from __future__ import annotations

from cobblestone.store.maintenance.migration import run_files

revision = "0006"
down_revision = None


def upgrade() -> None:
    run_files(__file__)
