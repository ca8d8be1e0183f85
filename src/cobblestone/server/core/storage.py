"""Storage of a project's files for all its machines: in the shared project folder, or in a bucket.

Inputs and large outputs have a place in the project's folder in either case.  With a bucket the folder belongs to one machine and
is a cache: what is kept is in the bucket, under the same path, and a machine that needs a file brings it to its own folder.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from cobblestone.domain.errors import ConfigError, StoreError
from cobblestone.ops.installation import how_to_install
from cobblestone.server.core.project import ProjectFolder
from cobblestone.store.catalog.file_storage import FileStorage
from cobblestone.store.catalog.files import place_of
from cobblestone.store.work.archive import Archive, ArchiveParts
from cobblestone.store.work.uploads import StoredOutput

if TYPE_CHECKING:
    from cobblestone.ops.settings import Settings, StorageSection

AWAY_SECONDS = 5.0


def open_storage(root: Path, settings: StorageSection) -> FileStorage:
    """Return the storage chosen in the settings.

    Raises:
        ConfigError: the library for buckets is not installed, or the settings are wrong.
    """
    if not settings.bucket:
        return FileStorage()
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
