"""The schema of a project's database."""

from __future__ import annotations

from pathlib import Path

from cobblestone.store.schema.upgrade import Schema

PROJECT = Schema(what="project database", migrations=Path(__file__).parent / "migrations")
