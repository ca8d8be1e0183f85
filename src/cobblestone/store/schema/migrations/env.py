"""Alembic's entry point, see `cobblestone.store.schema.environment`."""

from __future__ import annotations

from cobblestone.store.schema.environment import take_steps
from cobblestone.store.schema.tables import metadata

take_steps(metadata)
