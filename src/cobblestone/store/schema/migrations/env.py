"""Alembic's entry point, see `cobblestone.store.maintenance.migration`."""

from __future__ import annotations

from cobblestone.store.maintenance.migration import take_steps

take_steps()
