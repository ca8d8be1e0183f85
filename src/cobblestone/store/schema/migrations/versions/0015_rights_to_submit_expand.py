"""What a token may submit: apps, and jobs in progress (expand)."""

from __future__ import annotations

from cobblestone.store.maintenance.migration import run_files

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    run_files(__file__)
