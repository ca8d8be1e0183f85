"""Alembic's entry point, see `cobblestone.store.maintenance.environment`."""

from __future__ import annotations

import sqlalchemy as sa

from cobblestone.store.maintenance.environment import take_steps

take_steps(sa.MetaData())
