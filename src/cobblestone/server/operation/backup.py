"""What of a project goes into a backup."""

from __future__ import annotations

from pathlib import Path

from cobblestone.domain.exports import KeysInBackup
from cobblestone.server.core.project import ProjectFolder
from cobblestone.service.backup import Contents, NeededFiles
from cobblestone.store.catalog.files import FAN_OUT, place_of
from cobblestone.store.schema.project import DOWNLOADS, OUTPUTS
from cobblestone.store.work.uploads import partial_folder


def project_contents(
    folder: ProjectFolder, keys: KeysInBackup = KeysInBackup.ALL, *, results: bool = True
) -> Contents:
    """Return what of a project goes into a backup; ``results``: also what assimilators wrote.

    Raises:
        ConfigError: it is not a project.
    """
    settings = folder.settings()
    hierarchies = (folder.download, folder.upload)

    def never_changes(path: Path) -> bool:
        return path.parent.parent in hierarchies and _is_fan_out(path.parent.name)

    return Contents(
        kind=folder.kind,
        root=folder.root,
        name=settings.project.name,
        url=settings.project.url,
        address=settings.database.url,
        keys=keys,
        signing_key=folder.code_sign_private,
        further_databases=(folder.archive,),
        # What is in a bucket stays there: the folder is a cache of it.
        needed=()
        if settings.storage.bucket
        else (
            NeededFiles(query=DOWNLOADS, place=lambda name: place_of(folder.download, name)),
            NeededFiles(query=OUTPUTS, place=lambda name: place_of(folder.upload, name)),
        ),
        left_out=(
            folder.staging,
            folder.exports,
            folder.run_file,
            partial_folder(folder.upload),
            *(hierarchies if settings.storage.bucket else ()),
            *(() if results else (folder.results,)),
        ),
        never_changes=never_changes,
    )


def _is_fan_out(name: str) -> bool:
    try:
        return int(name, 16) < FAN_OUT
    except ValueError:
        return False
