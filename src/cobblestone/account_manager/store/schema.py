"""The schema of an account manager's database."""

from __future__ import annotations

from pathlib import Path

from cobblestone.store.maintenance.upgrade import Schema

MANAGER = Schema(
    what="account manager's database",
    migrations=Path(__file__).parent / "migrations",
    command="cobblestone manager upgrade",
)
