"""Alembic's entry point, see `cobblestone.store.maintenance.environment`."""

from __future__ import annotations

from cobblestone.store.maintenance.environment import take_steps
from cobblestone.store.schema.tables import metadata

take_steps(metadata)
