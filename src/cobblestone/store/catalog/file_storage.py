"""Storage of a project's files for all its machines, at their places in the shared project folder.

A bucket in its place is a subclass: `cobblestone.server.core.bucket.StorageBucket`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path


class FileStorage:
    """Stores files for all machines; here all see them at their places, where the caller puts and removes them.

    Raises everywhere:
        StoreError: the storage cannot be reached, refuses, or does not answer in time; nothing was changed.
    """

    in_bucket = False  #: the project's folder is a cache only

    async def keep(self, place: Path, source: Path) -> None:
        """Store ``source`` as the file of a place; it is durable on return.  In a shared folder the caller moves it there."""

    def keep_now(self, place: Path, source: Path) -> None:
        """Do the same as `keep`, outside the event loop."""

    def listed(self, folder: Path) -> Mapping[str, int]:
        """Return names and sizes of the files stored in a folder.  Not for the event loop."""
        if not folder.is_dir():
            return {}
        return {path.name: path.stat().st_size for path in folder.iterdir() if path.is_file()}

    async def bring(self, place: Path, *, nbytes: int, md5: str) -> None:
        """Make a stored file available at its place; a file that does not exist stays missing."""

    def bring_now(self, place: Path, *, nbytes: int, md5: str) -> None:
        """Do the same as `bring`, outside the event loop."""

    def remove(self, places: Iterable[Path]) -> None:
        """Delete these files; missing ones are ignored.  Not for the event loop.  In a shared folder the caller does it."""

    def size(self, place: Path) -> int | None:
        """Return the size of a stored file; None if it is missing.  Not for the event loop."""
        try:
            return place.stat().st_size
        except FileNotFoundError:
            return None

    def link(self, place: Path) -> str:
        """Return a signed URL for temporary downloads of a file; empty if there is none."""
        return ""
