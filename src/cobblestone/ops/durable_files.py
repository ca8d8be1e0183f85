"""Files that survive a power cut: written under a temporary name, flushed to disk, renamed."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_private(path: Path, data: bytes) -> None:
    """Write a secret that only the owner may read, durably and all or nothing."""
    write_durably(path, data, mode=0o600)


def write_durably(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Write a file under a temporary name, flush it to disk, and rename it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_file(path: Path) -> None:
    """Flush a file's content to disk."""
    _sync(path, os.O_RDWR)


def sync_folder(path: Path) -> None:
    """Make a rename inside ``path`` survive a power loss."""
    _sync(path, os.O_RDONLY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
