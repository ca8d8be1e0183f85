"""Room on the project's disk, and whether there is enough to take more."""

from __future__ import annotations

import shutil

from cobblestone.server.core.context import ServerContext


def free_bytes(ctx: ServerContext) -> int:
    """Free bytes on the disk that the project lies on."""
    return shutil.disk_usage(ctx.folder.root).free


def disk_is_full(ctx: ServerContext) -> bool:
    """Whether less is free than uploads and submissions need."""
    return free_bytes(ctx) < ctx.settings.server.min_free_disk_bytes
