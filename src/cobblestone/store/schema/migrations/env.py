"""Alembic's entry point, see `cobblestone.store.maintenance.migration`."""

from __future__ import annotations

from cobblestone.store.maintenance.migration import take_steps
from cobblestone.store.schema.tables import metadata

take_steps(metadata)
