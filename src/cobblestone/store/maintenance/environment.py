"""Alembic's entry point for every schema: its ``env.py`` calls this with the schema's tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alembic import context

if TYPE_CHECKING:
    import sqlalchemy as sa


def take_steps(metadata: sa.MetaData) -> None:
    """Take the steps on the connection that `cobblestone.store.maintenance.upgrade` hands over, in one transaction."""
    connection = context.config.attributes["connection"]
    context.configure(connection=connection, target_metadata=metadata, render_as_batch=True)
    with context.begin_transaction():
        context.run_migrations()
