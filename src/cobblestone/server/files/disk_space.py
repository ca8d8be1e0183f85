"""Room on the project's disk, and whether there is enough to take more."""

from __future__ import annotations

import shutil
from pathlib import Path

from cobblestone.server.core.context import ServerContext


def free_bytes(ctx: ServerContext) -> int:
    """Free bytes on the disk that the project lies on."""
    return shutil.disk_usage(ctx.folder.root).free


def disk_is_full(ctx: ServerContext) -> bool:
    """Whether less is free than uploads and submissions need."""
    return free_bytes(ctx) < ctx.settings.server.min_free_disk_bytes


def database_bytes(path: Path) -> int:
    """Size of a database with its log."""
    return sum(each.stat().st_size for each in (path, path.with_name(path.name + "-wal")) if each.exists())
