"""Moves a project from SQLite to PostgreSQL."""

from __future__ import annotations

from pathlib import Path

from cobblestone.ops.settings import FILE_NAME
from cobblestone.server.core.project import ProjectFolder
from cobblestone.service.moving import Movable, Moved, move_service
from cobblestone.store.maintenance.copy_to_postgres import Progress
from cobblestone.store.schema.project import PROJECT


def move_project(root: Path, address: str, *, progress: Progress) -> Moved:
    """Move a stopped project; see `move_service`, also for what is raised."""
    folder = ProjectFolder(root.resolve())
    project = Movable(
        what="project",
        database=folder.database,
        settings=folder.root / FILE_NAME,
        address=folder.settings().database.url,
        schema=PROJECT,
        lock=folder.lock,
    )
    return move_service(project, address, progress=progress)
