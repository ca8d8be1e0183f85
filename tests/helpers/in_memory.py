"""Folders in memory: on a disk a project waits at each commit, and what it asks of the disk is the same here."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: Linux has files in memory here; half of the memory at most, if nobody says otherwise.
MEMORY = Path("/dev/shm")
ENOUGH_BYTES = 2 << 30


def place() -> Path | None:
    """Where folders of tests may be, or None for the usual place: in containers this one is often small, or runs nothing."""
    if not os.access(MEMORY, os.W_OK):
        return None
    found = os.statvfs(MEMORY)
    enough = found.f_bavail * found.f_frsize >= ENOUGH_BYTES
    return MEMORY if enough and not found.f_flag & os.ST_NOEXEC else None


@contextmanager
def folder_in_memory() -> Iterator[Path]:
    """A folder that is removed at the end."""
    with tempfile.TemporaryDirectory(
        prefix="cobblestone-test-", dir=place(), ignore_cleanup_errors=True
    ) as folder:
        yield Path(folder)
