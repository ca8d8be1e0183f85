"""Webhooks of batches (expand)."""

from __future__ import annotations

from cobblestone.store.maintenance.migration import run_files

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    run_files(__file__)
