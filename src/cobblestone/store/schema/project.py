"""The schema of a project's database."""

from __future__ import annotations

from pathlib import Path

from cobblestone.store.maintenance.steps import Schema

PROJECT = Schema(what="project database", migrations=Path(__file__).parent / "migrations")

DOWNLOADS = "SELECT name FROM file WHERE refs > 0"
"""Names of the files in the download hierarchy that the rows need."""
OUTPUTS = "SELECT name FROM upload WHERE data IS NULL"
"""Names of the output files that are on disk, not in the database."""
