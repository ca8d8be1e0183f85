"""Types of teams, and their names in HTML (expand)."""

from __future__ import annotations

from cobblestone.store.maintenance.migration import run_files

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    run_files(__file__)
