"""Bring a PostgreSQL database to the current schema.

All steps are one transaction, and only one process at a time takes them: many may start at once after a new version was installed.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy.exc import ProgrammingError

from cobblestone.domain.errors import StoreError
from cobblestone.store.postgres import connect, first_line, plain_connection, shown

UPGRADE_LOCK = 7_204_001  #: any number that nobody else uses in this database


def postgres_revision(address: str) -> str | None:
    """The revision that a database has; None for one without a project.

    Raises:
        StoreError: it cannot be reached.
    """
    with _connected(address) as connection:
        return _revision(connection)


def upgrade_postgres(address: str, config: Config) -> None:
    """Upgrade a database to the head revision.

    Raises:
        StoreError: it cannot be reached, does not let us, or was made by a newer program.
    """
    scripts = ScriptDirectory.from_config(config)
    known = {script.revision for script in scripts.walk_revisions()}
    with _connected(address) as connection:
        connection.execute(sa.text(f"SELECT pg_advisory_xact_lock({UPGRADE_LOCK})"))
        current = _revision(connection)
        if current is not None and current not in known:
            raise StoreError(
                f"{shown(address)} was made by a newer cobblestone (schema {current}). Install that version, or restore a"
                " backup."
            )
        if current == scripts.get_current_head():
            return
        config.attributes["connection"] = connection
        try:
            command.upgrade(config, "head")
            connection.commit()
        except ProgrammingError as error:
            raise StoreError(
                f"The tables of {shown(address)} cannot be made: {first_line(error.orig or error)}."
                " Make the user that cobblestone connects as the owner of the database."
            ) from error


@contextmanager
def _connected(address: str) -> Generator[sa.Connection]:
    connect(address).close()  # its errors say what to do
    engine = sa.create_engine(
        "postgresql+psycopg://", creator=lambda: plain_connection(address), poolclass=sa.NullPool
    )
    try:
        with engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()


def _revision(connection: sa.Connection) -> str | None:
    if connection.scalar(sa.text("SELECT to_regclass('alembic_version')")) is None:
        return None
    revision = connection.scalar(sa.text("SELECT version_num FROM alembic_version"))
    return None if revision is None else str(revision)
