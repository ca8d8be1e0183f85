"""Storage of a project's files for all its machines: in the shared project folder, or in a bucket.

Inputs and large outputs have a place in the project's folder in either case.  With a bucket the folder belongs to one machine and
is a cache: what is kept is in the bucket, under the same path, and a machine that needs a file brings it to its own folder.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from cobblestone.domain.errors import ConfigError, StoreError
from cobblestone.ops.installation import how_to_install
from cobblestone.server.core.project import ProjectFolder
from cobblestone.store.catalog.files import place_of
from cobblestone.store.work.archive import Archive, ArchiveParts
from cobblestone.store.work.uploads import StoredOutput

if TYPE_CHECKING:
    from cobblestone.ops.settings import Settings, StorageSection

AWAY_SECONDS = 5.0


class FileStorage(Protocol):
    """Stores files for all machines.

    Raises everywhere:
        StoreError: the storage cannot be reached, refuses, or does not answer in time; nothing was changed.
    """

    in_bucket: bool  #: the project's folder is a cache only

    async def keep(self, place: Path, source: Path) -> None:
        """Store ``source`` as the file of a place; it is durable on return."""
        ...

    def keep_now(self, place: Path, source: Path) -> None:
        """Do the same as `keep`, outside the event loop."""
        ...

    def listed(self, folder: Path) -> Mapping[str, int]:
        """Return names and sizes of the files stored in a folder.  Not for the event loop."""
        ...

    async def bring(self, place: Path, *, nbytes: int, md5: str) -> None:
        """Make a stored file available at its place; a file that does not exist stays missing."""
        ...

    def bring_now(self, place: Path, *, nbytes: int, md5: str) -> None:
        """Do the same as `bring`, outside the event loop."""
        ...

    def remove(self, places: Iterable[Path]) -> None:
        """Delete these files; missing ones are ignored.  Not for the event loop."""
        ...

    def size(self, place: Path) -> int | None:
        """Return the size of a stored file; None if it is missing.  Not for the event loop."""
        ...

    def link(self, place: Path) -> str:
        """Return a signed URL for temporary downloads of a file; empty if there is none."""
        ...


class SharedFolder:
    """Files are at their places, where all machines see them."""

    in_bucket = False

    async def keep(self, place: Path, source: Path) -> None:
        """Do nothing: the caller moves the file to its place."""

    def keep_now(self, place: Path, source: Path) -> None:
        """Do nothing: the caller moves the file to its place."""

    def listed(self, folder: Path) -> Mapping[str, int]:
        """Return the files in the folder."""
        if not folder.is_dir():
            return {}
        return {path.name: path.stat().st_size for path in folder.iterdir() if path.is_file()}

    async def bring(self, place: Path, *, nbytes: int, md5: str) -> None:
        """Do nothing: the file is there."""

    def bring_now(self, place: Path, *, nbytes: int, md5: str) -> None:
        """Do nothing: the file is there."""

    def remove(self, places: Iterable[Path]) -> None:
        """Do nothing: the caller removes the file."""

    def size(self, place: Path) -> int | None:
        """Return the size of the file at its place."""
        try:
            return place.stat().st_size
        except FileNotFoundError:
            return None

    def link(self, place: Path) -> str:
        """Return nothing: a server sends the file."""
        return ""


def open_storage(root: Path, settings: StorageSection) -> FileStorage:
    """Return the storage chosen in the settings.

    Raises:
        ConfigError: the library for buckets is not installed, or the settings are wrong.
    """
    if not settings.bucket:
        return SharedFolder()
    try:
        from cobblestone.server.core.bucket import StorageBucket
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"storage.bucket needs a library that is not installed. Install it with: {how_to_install('s3')}"
        ) from error
    return StorageBucket(root, settings)


def archive_of(folder: ProjectFolder, settings: Settings, storage: FileStorage) -> Archive:
    """Return the archive of purged jobs: with PostgreSQL in parts that all machines share and each machine follows."""
    if not settings.database.url:
        return Archive(folder.archive)
    own = folder.root / f"archive-{socket.gethostname()}.sqlite"
    return Archive(own, ArchiveParts(folder.root / "archive", storage))


async def bring_outputs(storage: FileStorage, folder: Path, outputs: Iterable[StoredOutput]) -> None:
    """Make outputs that are files available at their places below ``folder``.

    Raises:
        StoreError: see `FileStorage`; some seconds later, so that a daemon that tries again does not press on.
    """
    if not storage.in_bucket:
        return
    try:
        for output in outputs:
            if output.data is None:
                await storage.bring(place_of(folder, output.name), nbytes=output.nbytes, md5=output.md5)
    except StoreError:
        await asyncio.sleep(AWAY_SECONDS)
        raise
