"""Common parts of the migrations of every schema: Alembic's entry point, and statements for SQLite and PostgreSQL.

Statements of migrations, written once for SQLite and PostgreSQL.

The words for types are SQLite's, and ``IDENTIFIER`` is a key that the database gives and never gives twice.  There is no way
back from a migration: an upgrade works on a copy, or in one transaction, and the old database is kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from alembic import context, op


def take_steps() -> None:
    """Take the steps on the connection from `cobblestone.store.maintenance.upgrade`, in one transaction."""
    connection = context.config.attributes["connection"]
    context.configure(connection=connection, render_as_batch=True)
    with context.begin_transaction():
        context.run_migrations()


_COMMENT = re.compile(r" *--.*")
_WORDS: Mapping[str, Mapping[str, str]] = {
    "sqlite": {"IDENTIFIER": "INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT"},
    "postgresql": {
        "IDENTIFIER": "BIGSERIAL PRIMARY KEY",
        "INTEGER": "BIGINT",
        "REAL": "DOUBLE PRECISION",
        "BLOB": "BYTEA",
    },
}


def run_files(step: str) -> None:
    """Run the ``.sql`` file beside a step's module and, on PostgreSQL, the one that ends with ``_postgresql.sql``."""
    module = Path(step)
    run(module.with_suffix(".sql").read_text(encoding="utf-8"))
    more = module.with_name(f"{module.stem}_postgresql.sql")
    if op.get_context().dialect.name == "postgresql" and more.exists():
        run(more.read_text(encoding="utf-8"))


def run(text: str) -> None:
    """Run statements that end with a semicolon at the end of a line, on the database that is being upgraded."""
    for statement in statements(text, op.get_context().dialect.name):
        op.execute(statement)


def statements(text: str, dialect: str) -> list[str]:
    """Return the statements of a text, without its comments, in the SQL of a dialect; tables of SQLite are strict."""
    words = _WORDS[dialect]
    text = _COMMENT.sub("", text)
    found = [
        re.sub(r"[A-Z]+", lambda word: words.get(word[0], word[0]), each.strip())
        for each in text.split(";\n")
    ]
    strict = " STRICT" if dialect == "sqlite" else ""
    return [each.rstrip(";") + (strict if each.startswith("CREATE TABLE") else "") for each in found if each]
