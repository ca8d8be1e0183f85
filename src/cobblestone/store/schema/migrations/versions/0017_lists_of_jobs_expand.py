"""Lists of jobs and messages that grow with the project (expand)."""

from __future__ import annotations

from cobblestone.store.maintenance.migration import run_files

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    run_files(__file__)
