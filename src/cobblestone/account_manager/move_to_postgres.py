"""Moves an account manager from SQLite to PostgreSQL."""

from __future__ import annotations

from pathlib import Path

from cobblestone.account_manager.folder import ManagerFolder
from cobblestone.account_manager.settings import FILE_NAME
from cobblestone.account_manager.store.schema import MANAGER
from cobblestone.service.moving import Movable, Moved, move_service
from cobblestone.store.maintenance.copy_to_postgres import Progress


def move_manager(root: Path, address: str, *, progress: Progress) -> Moved:
    """Move a stopped account manager; see `move_service`, also for what is raised."""
    folder = ManagerFolder(root.resolve())
    settings = folder.settings()
    manager = Movable(
        what="account manager",
        database=folder.database,
        settings=folder.root / FILE_NAME,
        address=settings.database.url,
        schema=MANAGER,
        lock=lambda: folder.lock(settings),
    )
    return move_service(manager, address, progress=progress)
